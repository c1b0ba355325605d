#!/usr/bin/env bash
# For TensorRT-LLM 1.2.0. Written by Tonnage 0.1.0.
# Plan of 2026-11-21: nvidia/Llama-3.1-70B-Instruct-FP8, 3 x h100-sxm5-80gb tp2 fp8 trtllm kv-fp8.
# 1 x a3-highgpu-8g, gcp us-central1, on-demand: $80.00/h (price of 2026-11-01).
# Once a machine is up, on each, before any load: tonnage measure accept h100-sxm5-80gb --count 8 --out accepted.json
# Then send URL the plan's peak load of all 3 replicas (one alone: --rate 1.333/s): tonnage measure serve URL --model nvidia/Llama-3.1-70B-Instruct-FP8 --rate 4/s --duration 3min --requests 480 --prompt-tokens 1000 --output-tokens 200 --output load.jsonl
# Its requests have the plan's mean lengths, so the longest real ones take longer.
# Written for 1.2.0; options without a flag are put into trtllm-options.yaml, which is YAML.
# The checkpoint must be stored in fp8, as TensorRT Model Optimizer writes it.
# This starts one replica; the plan has 3.
# Tokens are read from the environment: export HF_TOKEN before starting a gated model.
set -euo pipefail

exec bash -c 'printf %s '"'"'{"enable_chunked_prefill": true, "kv_cache_config": {"dtype": "fp8", "enable_block_reuse": true, "tokens_per_block": 16}}'"'"' > trtllm-options.yaml && exec trtllm-serve nvidia/Llama-3.1-70B-Instruct-FP8 \
  --backend pytorch \
  --tp_size 2 \
  --pp_size 1 \
  --max_batch_size 256 \
  --max_num_tokens 8192 \
  --max_seq_len 32768 \
  --kv_cache_free_gpu_memory_fraction 0.9 \
  --config trtllm-options.yaml \
  --host 0.0.0.0 \
  --port 8000'
