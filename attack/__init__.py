"""What SECURITY.md promises, tried from outside: modules of rows that `python -m attack` runs and writes down."""
