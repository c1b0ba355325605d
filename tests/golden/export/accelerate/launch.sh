#!/usr/bin/env bash
# For Hugging Face Accelerate 1.15.0. Written by Tonnage 0.1.0.
# Plan of 2026-11-21: full of meta-llama/Llama-3.1-8B on 8 x h100-sxm5-80gb DP8 ZeRO-3.
# 1 x a3-highgpu-8g, gcp us-central1, on-demand: $80.00/h (price of 2026-11-01), about 10.1 h, $806 in all.
# Step 36 s; checkpoint every 30 min.
# Learning rate, schedule and data are yours; the plan does not depend on them.
# The script makes micro-batches of 2 x 4096 tokens, 4 to a step,
# for 1000 steps, and saves every 50 of them.
set -euo pipefail
: "${SCRIPT:?the training script, for example train.py}"
exec accelerate launch --config_file accelerate.yaml \
  "$SCRIPT" "$@"
