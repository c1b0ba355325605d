"""Tonnage's tests: a package, so that `tests` here is found before any that a library installs."""
