#!/usr/bin/env bash
# For torchtitan 0.3.0. Written by Tonnage 0.1.0.
# Plan of 2026-11-21: pretrain of meta-llama/Llama-3.1-8B on 16 x h100-sxm5-80gb TP2 DP8 FSDP.
# 2 x a3-highgpu-8g, gcp us-central1, on-demand: $80.00/h (price of 2026-11-01), about 10.1 h, $806 in all.
# Step 36 s; checkpoint every 30 min.
# Learning rate, schedule and data are yours; the plan does not depend on them.
# Trains torchtitan's own llama3_8b; ASSETS is a folder with the model's tokenizer and configuration.
# Learning rate and data: add --optimizer.* and --dataloader.* after the script's name.
# Starts from random weights. To go on from released ones (continued pre-training), add
# --checkpoint.initial_load_in_hf --checkpoint.initial_load_path FOLDER, as the Hub stores them.
set -euo pipefail
: "${ASSETS:?folder of the tokenizer}"
exec torchrun \
  --nproc-per-node 8 \
  --nnodes 2 \
  --rdzv-backend c10d \
  --rdzv-id llama-3-1-8b \
  --rdzv-endpoint "${LEADER_ADDRESS:?address of the first node}:29500" \
  -m torchtitan.train \
  --module llama3 \
  --config llama3_8b \
  --checkpoint.enable \
  --training.local_batch_size 2 \
  --training.global_batch_size 64 \
  --training.seq_len 4096 \
  --training.steps 1000 \
  --parallelism.data_parallel_replicate_degree 1 \
  --parallelism.data_parallel_shard_degree 8 \
  --parallelism.fsdp_reshard_after_forward default \
  --parallelism.tensor_parallel_degree 2 \
  --parallelism.pipeline_parallel_degree 1 \
  --parallelism.context_parallel_degree 1 \
  --parallelism.expert_parallel_degree 1 \
  --checkpoint.interval 50 \
  --checkpoint.async_mode async \
  --hf_assets_path "$ASSETS" "$@" activation_checkpoint:selective
