#!/usr/bin/env bash
# For NeMo Framework (Megatron-Bridge) 0.6.2. Written by Tonnage 0.1.0.
# Untested template: its names were checked against the release's own tables, and nothing was started.
# Plan of 2026-11-21: lora of meta-llama/Llama-3.1-8B on 8 x h100-sxm5-80gb DP8.
# 1 x a3-highgpu-8g, gcp us-central1, on-demand: $80.00/h (price of 2026-11-01), about 10.1 h, $806 in all.
# Step 36 s; checkpoint every 30 min.
# Learning rate, schedule and data are yours; the plan does not depend on them.
# OUTPUT is a folder that every node sees: checkpoints, and where a start goes on from.
# DATA is a data set of conversations: an id of the Hub or a folder. WEIGHTS is the model's folder, as the Hub stores it; the bridge converts it while loading.
# LEARNING_RATE replaces the recipe's usual start; the plan does not depend on it.
set -euo pipefail
: "${DATA:?what to train on}"
: "${OUTPUT:?shared folder for checkpoints}"
: "${WEIGHTS:?folder with the weights to start from}"
export CUDA_DEVICE_MAX_CONNECTIONS=1 DATA OUTPUT WEIGHTS
exec torchrun \
  --nproc-per-node 8 \
  --standalone \
  train.py "$@"
