#!/bin/sh
# Builds .venv-peers and asks aiconfigurator about the published serving rows. Takes a quarter of an hour.
set -eu
cd "$(dirname "$0")/.."
python="${PYTHON:-python3}"
if [ ! -x .venv-peers/bin/aiconfigurator ]; then
    "$python" -m venv .venv-peers
    .venv-peers/bin/python -m pip install --quiet --disable-pip-version-check 'aiconfigurator==0.12.*'
fi
# The package brings the very measurements that are asked about. It must answer without them.
find .venv-peers -name silicon_sample.csv -delete
.venv-peers/bin/python tools/peers/ask_aiconfigurator.py measurements/serving_silicon.csv.gz tools/peers/aiconfigurator.csv "$@"
