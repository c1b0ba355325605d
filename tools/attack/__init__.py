"""What SECURITY.md promises, tried from outside: modules of rows that `python -m tools.attack` runs and writes down."""
