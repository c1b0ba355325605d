#!/bin/sh
# The quick tests of the core on other versions: COMPAT_WITH names environments of tools/environments.py.
set -eu
cd "$(dirname "$0")/.."
for with in ${COMPAT_WITH:-python3.12 python3.13 numpy1.26}; do
  python="$("${PYTHON:-python3}" tools/environments.py "compat/$with")"
  "$python" -c 'import sys, numpy, numba; print("Python", sys.version.split()[0], "NumPy", numpy.__version__, "numba", numba.__version__)'
  # What one version compiles, another must not find. PARALLEL is several words.
  # shellcheck disable=SC2086
  NUMBA_CACHE_DIR="$PWD/.venv-compat/$with/compiled" PYTHONDONTWRITEBYTECODE=1 "$python" -m pytest -q -p no:cacheprovider \
    ${PARALLEL:-} -m 'not slow and not measured' tests/test_units.py tests/test_errors.py tests/domain tests/physics \
    tests/simulation tests/optimize tests/pricing tests/catalog tests/paper tests/property tests/integrity "$@"
done
