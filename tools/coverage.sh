#!/bin/sh
# Lines of physics and simulation that the tests run. Compiled code runs no lines that could be counted: the tests that
# compare the loops with their plain twin, and those of sessions, run once more with the loops as plain Python.
set -eu
cd "$(dirname "$0")/.."
bin="${BIN:-.venv/bin}"
out=build/coverage
mkdir -p $out && rm -f $out/.coverage*
COVERAGE_FILE=$out/.coverage.compiled "$bin/coverage" run -m pytest -q -p no:cacheprovider \
  tests/physics tests/simulation tests/paper src/tonnage/physics src/tonnage/simulation "$@"
NUMBA_DISABLE_JIT=1 COVERAGE_FILE=$out/.coverage.plain "$bin/coverage" run -m pytest -q -p no:cacheprovider \
  -p tests.uncompiled --timeout=0 tests/property/test_simulator.py tests/simulation/test_sessions.py
COVERAGE_FILE=$out/.coverage "$bin/coverage" combine --quiet --keep $out
COVERAGE_FILE=$out/.coverage "$bin/coverage" report
