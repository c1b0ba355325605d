#!/bin/sh
# Asks aiconfigurator, in an environment of its own, about the published serving rows. Takes a quarter of an hour.
set -eu
cd "$(dirname "$0")/../.."
python="$("${PYTHON:-python3}" tools/environments.py peers)"
# The package brings the very measurements that are asked about. It must answer without them.
find .venv-peers -name silicon_sample.csv -delete
"$python" tools/peers/ask_aiconfigurator.py measurements/serving_silicon.csv.gz tools/peers/aiconfigurator.csv "$@"
