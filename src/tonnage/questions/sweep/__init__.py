"""A table of questions asked at once."""
