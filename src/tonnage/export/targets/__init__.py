"""One module per target; the folder is the list."""
