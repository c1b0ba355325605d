#!/usr/bin/env bash
# For llama.cpp 11312. Written by Tonnage 0.1.0.
# Plan of 2026-11-21: bartowski/Meta-Llama-3.1-70B-Instruct-GGUF, 3 x rtx-4090 tp2 gguf-q4_k_m llamacpp kv-gguf-q8_0.
# 1 x a3-highgpu-8g, gcp us-central1, on-demand: $80.00/h (price of 2026-11-01).
# A slot takes requests of 8,192 tokens and refuses longer ones, which --context plans.
# Once a machine is up, on each, before any load: tonnage measure accept rtx-4090 --count 8 --out accepted.json
# Then send URL the plan's peak load of all 3 replicas (one alone: --rate 1.333/s): tonnage measure serve URL --model bartowski/Meta-Llama-3.1-70B-Instruct-GGUF --rate 4/s --duration 3min --requests 480 --prompt-tokens 1000 --output-tokens 200 --output load.jsonl
# Its requests have the plan's mean lengths, so the longest real ones take longer.
# This starts one replica; the plan has 3.
# Tokens are read from the environment: export HF_TOKEN before starting a gated model.
set -euo pipefail

exec llama-server \
  --hf-repo bartowski/Meta-Llama-3.1-70B-Instruct-GGUF:Q4_K_M \
  --parallel 4 \
  --ctx-size 32768 \
  --batch-size 2048 \
  --ubatch-size 2048 \
  --cache-type-k q8_0 \
  --cache-type-v q8_0 \
  --n-gpu-layers all \
  --split-mode row \
  --flash-attn on \
  --metrics \
  --host 0.0.0.0 \
  --port 8000
