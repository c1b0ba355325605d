#!/usr/bin/env bash
# For DeepSpeed 0.19.8. Written by Tonnage 0.1.0.
# Plan of 2026-11-21: full of meta-llama/Llama-3.1-8B on 16 x h100-sxm5-80gb DP16 ZeRO-1.
# 2 x a3-highgpu-8g, gcp us-central1, on-demand: $80.00/h (price of 2026-11-01), about 10.1 h, $806 in all.
# Step 36 s; checkpoint every 30 min.
# Learning rate, schedule and data are yours; the plan does not depend on them.
# Run for 1000 steps; save every 50 of them.
set -euo pipefail
: "${SCRIPT:?the training script, for example train.py}"
exec deepspeed --num_gpus 8 \
  --hostfile "${HOSTFILE:?lines of HOST slots=8}" --num_nodes 2 \
  "$SCRIPT" --deepspeed deepspeed.json "$@"
