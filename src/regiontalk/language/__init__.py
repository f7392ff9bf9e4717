"""Words: the vocabulary, word lists, and the names of objects."""
