"""Photo search: an index of a folder, and queries over it."""
