#!/usr/bin/env bash
# For PyTorch torchrun and FSDP2 2.6. Written by Tonnage 0.1.0.
# Plan of 2026-11-21: full of meta-llama/Llama-3.1-8B on 16 x h100-sxm5-80gb DP16 HSDP.
# 2 x a3-highgpu-8g, gcp us-central1, spot: $80.00/h (price of 2026-11-01), about 10.1 h, $806 in all.
# Step 36 s; checkpoint every 30 min.
# Learning rate, schedule and data are yours; the plan does not depend on them.
# SCRIPT is your training script. It calls fsdp2.parallelise(model) after building the model on the meta
# device or on CPU, and reads batch, accumulation and steps from plan.json.
set -euo pipefail
: "${SCRIPT:?the training script, for example train.py}"
exec torchrun \
  --nproc-per-node 8 \
  --nnodes 2 \
  --rdzv-backend c10d \
  --rdzv-id llama-3-1-8b \
  --max-restarts 3 \
  --rdzv-endpoint "${LEADER_ADDRESS:?address of the first node}:29500" \
  "$SCRIPT" "$@"
