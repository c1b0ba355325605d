#!/bin/sh
# Builds the wheel twice into dist/; both must be the same to the last byte. Dated by the last commit. Beside it lies its
# bill of materials (CycloneDX), with the versions of the environment that the tests run in.
set -eu
cd "$(dirname "$0")/.."
build="$(dirname "$("${PYTHON:-python3}" tools/environments.py wheel)")/pyproject-build"
export SOURCE_DATE_EPOCH="${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct 2>/dev/null || echo 1767225600)}"
rm -rf build/wheel && mkdir -p build/wheel dist
for n in 1 2; do
  "$build" --no-isolation --wheel --outdir build/wheel/$n . >/dev/null
done
cmp build/wheel/1/*.whl build/wheel/2/*.whl
cp build/wheel/1/*.whl dist/
for wheel in build/wheel/1/*.whl; do
  "${BIN:-.venv/bin}/python" tools/sbom.py "$wheel" >"dist/$(basename "$wheel" -py3-none-any.whl).cdx.json"
done
sha256sum dist/*.whl dist/*.cdx.json
