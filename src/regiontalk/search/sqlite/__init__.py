"""The index of one folder: a SQLite database and a file of vectors beside it."""
