"""`python -m tonnage` is the command line."""

from __future__ import annotations

from tonnage.cli import main

if __name__ == "__main__":
    main()
