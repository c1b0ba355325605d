#!/usr/bin/env bash
# For TRL 1.16.0. Written by Tonnage 0.1.0.
# Plan of 2026-11-21: qlora of meta-llama/Llama-3.1-8B on 8 x h100-sxm5-80gb DP8 ZeRO-3.
# 1 x a3-highgpu-8g, gcp us-central1, on-demand: $80.00/h (price of 2026-11-01), about 10.1 h, $806 in all.
# Step 36 s; checkpoint every 30 min.
# Learning rate, schedule and data are yours; the plan does not depend on them.
set -euo pipefail
LAST="$(ls -d ./llama-3-1-8b-qlora/checkpoint-* 2>/dev/null | sort -V | tail -n1 || true)"
exec trl sft --config sft.yaml --accelerate_config accelerate.yaml \
  ${LAST:+--resume_from_checkpoint "$LAST"} "$@"
