"""Other people's formats, one module each: read into records, and some of them written."""
