#!/usr/bin/env bash
# For SGLang 0.5.23. Written by Tonnage 0.1.0.
# Plan of 2026-11-21: meta-llama/Llama-3.1-70B-Instruct, 2 x h100-sxm5-80gb tp8 pp2 fp8 sglang kv-fp8.
# 4 x a3-highgpu-8g, gcp us-central1, on-demand: $80.00/h (price of 2026-11-01).
# Once a machine is up, on each, before any load: tonnage measure accept h100-sxm5-80gb --count 8 --out accepted.json
# Then send URL the plan's peak load of all 2 replicas (one alone: --rate 2/s): tonnage measure serve URL --model meta-llama/Llama-3.1-70B-Instruct --rate 4/s --duration 3min --requests 480 --prompt-tokens 1000 --output-tokens 200 --output load.jsonl
# Its requests have the plan's mean lengths, so the longest real ones take longer.
# Weights are quantised to FP8 while loading (--quantization fp8); the checkpoint stays 16-bit.
# A replica spans 2 nodes; port 20000 of the first must be open to the others.
# This starts one replica; the plan has 2.
# Tokens are read from the environment: export HF_TOKEN before starting a gated model.
set -euo pipefail

# A replica spans 2 nodes: run this on each, with NODE_RANK=0 on the first and 1, 2, ...
# on the others, and LEADER_ADDRESS set to the first one's address.
: "${LEADER_ADDRESS:?the first node}" "${NODE_RANK:?0 on the first node}"
if [ "$NODE_RANK" = 0 ]; then
exec python3 -m sglang.launch_server \
  --model-path meta-llama/Llama-3.1-70B-Instruct \
  --dtype auto \
  --quantization fp8 \
  --kv-cache-dtype fp8_e4m3 \
  --tp-size 8 \
  --pp-size 2 \
  --context-length 131072 \
  --max-running-requests 256 \
  --chunked-prefill-size 8192 \
  --mem-fraction-static 0.9 \
  --page-size 16 \
  --host 0.0.0.0 \
  --port 8000 \
  --nnodes 2 \
  --node-rank "$NODE_RANK" --dist-init-addr "$LEADER_ADDRESS:20000"
else
exec python3 -m sglang.launch_server \
  --model-path meta-llama/Llama-3.1-70B-Instruct \
  --dtype auto \
  --quantization fp8 \
  --kv-cache-dtype fp8_e4m3 \
  --tp-size 8 \
  --pp-size 2 \
  --context-length 131072 \
  --max-running-requests 256 \
  --chunked-prefill-size 8192 \
  --mem-fraction-static 0.9 \
  --page-size 16 \
  --host 0.0.0.0 \
  --port 8000 \
  --nnodes 2 \
  --node-rank "$NODE_RANK" --dist-init-addr "$LEADER_ADDRESS:20000"
fi
