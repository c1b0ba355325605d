"""Several answers side by side."""
