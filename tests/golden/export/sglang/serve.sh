#!/usr/bin/env bash
# For SGLang 0.5.23. Written by Tonnage 0.1.0.
# Plan of 2026-11-21: meta-llama/Llama-3.1-70B-Instruct, 3 x h100-sxm5-80gb dp4 ep4 fp8 sglang kv-fp8.
# 1 x a3-highgpu-8g, gcp us-central1, on-demand: $80.00/h (price of 2026-11-01).
# Once a machine is up, on each, before any load: tonnage measure accept h100-sxm5-80gb --count 8 --out accepted.json
# Then send URL the plan's peak load of all 3 replicas (one alone: --rate 1.333/s): tonnage measure serve URL --model meta-llama/Llama-3.1-70B-Instruct --rate 4/s --duration 3min --requests 480 --prompt-tokens 1000 --output-tokens 200 --output load.jsonl
# Its requests have the plan's mean lengths, so the longest real ones take longer.
# Weights are quantised to FP8 while loading (--quantization fp8); the checkpoint stays 16-bit.
# This starts one replica; the plan has 3.
# Tokens are read from the environment: export HF_TOKEN before starting a gated model.
set -euo pipefail

exec python3 -m sglang.launch_server \
  --model-path meta-llama/Llama-3.1-70B-Instruct \
  --dtype auto \
  --quantization fp8 \
  --kv-cache-dtype fp8_e4m3 \
  --tp-size 4 \
  --pp-size 1 \
  --dp-size 4 \
  --ep-size 4 \
  --context-length 32768 \
  --max-running-requests 256 \
  --chunked-prefill-size 8192 \
  --mem-fraction-static 0.9 \
  --page-size 1 \
  --enable-dp-attention \
  --host 0.0.0.0 \
  --port 8000
