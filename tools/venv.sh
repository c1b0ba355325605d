#!/bin/sh
# Makes .venv; one clear sentence instead of a traceback where Python is too old or Debian's python3-venv is missing.
python="${PYTHON:-python3}"
if ! "$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then
  echo "make: Tonnage needs Python 3.11 or later, and '$python' is not: install it, or name one with 'make PYTHON=python3.12 $*'" >&2
  exit 1
fi
if ! "$python" -c 'import ensurepip, venv' 2>/dev/null; then
  echo "make: '$python' cannot create a virtual environment: install python3-venv ('apt-get install python3-venv') and run make again" >&2
  exit 1
fi
exec "$python" -m venv "$(dirname "$0")/../.venv"
