#!/usr/bin/env bash
# For vLLM 0.32.0. Written by Tonnage 0.1.0.
# Plan of 2026-11-21: deepseek-ai/DeepSeek-V3, 3 x h100-sxm5-80gb dp8 ep8 fp8_block vllm.
# 1 x a3-highgpu-8g, gcp us-central1, on-demand: $80.00/h (price of 2026-11-01).
# Context is cut to 25,000 of 32,768 tokens: the KV cache holds no more.
# Once a machine is up, on each, before any load: tonnage measure accept h100-sxm5-80gb --count 8 --out accepted.json
# Then send URL the plan's peak load of all 3 replicas (one alone: --rate 1.333/s): tonnage measure serve URL --model deepseek-ai/DeepSeek-V3 --rate 4/s --duration 3min --requests 480 --prompt-tokens 1000 --output-tokens 200 --output load.jsonl
# Its requests have the plan's mean lengths, so the longest real ones take longer.
# The checkpoint must be stored in fp8_block; vLLM reads that from its config.json.
# Whole experts on 8 ranks (--enable-expert-parallel).
# This starts one replica; the plan has 3.
# Tokens are read from the environment: export HF_TOKEN before starting a gated model.
set -euo pipefail

exec vllm serve deepseek-ai/DeepSeek-V3 \
  --dtype auto \
  --kv-cache-dtype auto \
  --tensor-parallel-size 1 \
  --pipeline-parallel-size 1 \
  --data-parallel-size 8 \
  --enable-expert-parallel \
  --max-model-len 25000 \
  --max-num-seqs 256 \
  --max-num-batched-tokens 8192 \
  --gpu-memory-utilization 0.9 \
  --block-size 16 \
  --enable-chunked-prefill \
  --enable-prefix-caching \
  --host 0.0.0.0 \
  --port 8000
