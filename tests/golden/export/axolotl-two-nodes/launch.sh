#!/usr/bin/env bash
# For Axolotl 0.19.0. Written by Tonnage 0.1.0.
# Plan of 2026-11-21: full of meta-llama/Llama-3.1-8B on 16 x h100-sxm5-80gb DP16 ZeRO-3.
# 2 x a3-highgpu-8g, gcp us-central1, on-demand: $80.00/h (price of 2026-11-01), about 10.1 h, $806 in all.
# Step 36 s; checkpoint every 30 min.
# Learning rate, schedule and data are yours; the plan does not depend on them.
# Run this on each of 2 machines, axolotl.yaml beside it.
set -euo pipefail
exec axolotl train axolotl.yaml --launcher torchrun -- \
  --nproc-per-node 8 \
  --nnodes 2 \
  --rdzv-backend c10d \
  --rdzv-id llama-3-1-8b \
  --rdzv-endpoint "${LEADER_ADDRESS:?address of the first node}:29500"
