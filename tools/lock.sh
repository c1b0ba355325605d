#!/bin/sh
# Rewrites what CI installs, by version and SHA-256 of every file, for each platform and Python: .ci/core.txt for
# `make demo`, .ci/constraints.txt for `make venv`, .ci/torch.txt for the second step of .ci/run. Versions stay as they
# are unless asked, `tools/lock.sh --upgrade` or `--upgrade-package NAME`; then run the suite. PyTorch for processors
# alone is on no common index: name where it lies in UV_FIND_LINKS.
set -eu
cd "$(dirname "$0")/.."
uv="$(dirname "$("${PYTHON:-python3}" tools/environments.py uv)")/uv"
lock() {
  file=".ci/$1" && shift
  "$uv" pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-annotate --no-emit-index-url \
    --no-emit-find-links --no-emit-package tonnage --no-header --output-file "$file" "$@"
  { echo "# Written by tools/lock.sh, which says what it is." && cat "$file"; } >"$file.new" && mv "$file.new" "$file"
}
extras="$(sed -n 's/^EXTRAS ?= //p' Makefile | tr ',' '\n' | sed 's/^/--extra=/')"
# shellcheck disable=SC2086
lock constraints.txt "$@" pyproject.toml $extras
printf 'hatchling\neditables\n' | lock core.txt --constraints .ci/constraints.txt pyproject.toml --extra=simulate -
printf 'torch==2.13.0+cpu\n' | lock torch.txt --constraints .ci/constraints.txt -
