#!/usr/bin/env bash
# For MaxText 0.2.5. Written by Tonnage 0.1.0.
# Plan of 2026-11-21: pretrain of meta-llama/Llama-3.1-8B on 64 x tpu-v5p TP2 DP32 FSDP.
# 16 x ct5p-hightpu-4t, gcp us-central1, on-demand: $80.00/h (price of 2026-11-01), about 10.1 h, $806 in all.
# Step 36 s; checkpoint every 30 min.
# Learning rate, schedule and data are yours; the plan does not depend on them.
# One slice of TPUs. OUTPUT is a bucket, DATA a pattern of ArrayRecord files, TOKENIZER a Hugging Face id.
# Learning rate and schedule: add learning_rate=... and warmup_steps_fraction=... after the script's name.
# MaxText keeps weights and moments in 32 bits and multiplies in 16.
set -euo pipefail
: "${OUTPUT:?bucket for checkpoints and logs}"
: "${DATA:?pattern of the training files}"
: "${TOKENIZER:?id of the tokenizer}"
exec python3 -m maxtext.trainers.pre_train.train src/maxtext/configs/base.yml \
  run_name=llama-3-1-8b \
  model_name=llama3.1-8b \
  dtype=bfloat16 \
  weight_dtype=float32 \
  opt_type=adamw \
  max_target_length=4096 \
  steps=1000 \
  per_device_batch_size=1 \
  gradient_accumulation_steps=4 \
  packing=true \
  remat_policy=full \
  ici_data_parallelism=1 \
  ici_fsdp_parallelism=32 \
  ici_tensor_parallelism=2 \
  ici_context_parallelism=1 \
  ici_expert_parallelism=1 \
  dcn_data_parallelism=1 \
  enable_checkpointing=true \
  async_checkpointing=true \
  checkpoint_period=50 \
  dataset_type=grain \
  tokenizer_type=huggingface \
  base_output_directory="$OUTPUT" grain_train_files="$DATA" tokenizer_path="$TOKENIZER" "$@"
