#!/usr/bin/env bash
# For NeMo Framework (Megatron-Bridge) 0.6.2. Written by Tonnage 0.1.0.
# Untested template: its names were checked against the release's own tables, and nothing was started.
# Plan of 2026-11-21: pretrain of meta-llama/Llama-3.1-8B on 64 x h100-sxm5-80gb TP4 PP2 VPP2 DP8 ZeRO-1.
# 8 x a3-highgpu-8g, gcp us-central1, on-demand: $80.00/h (price of 2026-11-01), about 10.1 h, $806 in all.
# Step 36 s; checkpoint every 30 min.
# Learning rate, schedule and data are yours; the plan does not depend on them.
# OUTPUT is a folder that every node sees: checkpoints, and where a start goes on from.
# DATA is the prefix of tokenised text, as Megatron-LM's tools/preprocess_data.py writes it.
# LEARNING_RATE replaces the recipe's usual start; the plan does not depend on it.
set -euo pipefail
: "${DATA:?what to train on}"
: "${OUTPUT:?shared folder for checkpoints}"
export CUDA_DEVICE_MAX_CONNECTIONS=1 DATA OUTPUT
exec torchrun \
  --nproc-per-node 8 \
  --nnodes 8 \
  --rdzv-backend c10d \
  --rdzv-id llama-3-1-8b \
  --rdzv-endpoint "${LEADER_ADDRESS:?address of the first node}:29500" \
  train.py "$@"
