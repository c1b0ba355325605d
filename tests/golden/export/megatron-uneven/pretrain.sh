#!/usr/bin/env bash
# For Megatron-LM 0.19.2. Written by Tonnage 0.1.0.
# Plan of 2026-11-21: pretrain of meta-llama/Llama-3.1-405B on 256 x h100-sxm5-80gb TP8 PP16 VPP8 DP2 ZeRO-1.
# 32 x a3-highgpu-8g, gcp us-central1, on-demand: $80.00/h (price of 2026-11-01), about 10.1 h, $806 in all.
# Step 36 s; checkpoint every 30 min.
# Learning rate, schedule and data are yours; the plan does not depend on them.
# Runs in a checkout of Megatron-LM.
# DATA is what --data-path takes, TOKENIZER a Hugging Face id or folder, CHECKPOINTS a shared folder.
# Learning rate and schedule: add --lr and --lr-decay-style after the script's name.
# Starts from random weights. To go on from released ones (continued pre-training), add --pretrained-checkpoint
# with a folder that tools/checkpoint/convert.py has converted for the degrees below.
set -euo pipefail
: "${DATA:?prefix of the tokenised data}"
: "${TOKENIZER:?id or folder of the tokenizer}"
: "${CHECKPOINTS:?shared folder for checkpoints}"
ROTARY="${ROTARY:-$(python3 model_flags.py meta-llama/Llama-3.1-405B num_hidden_layers=126 hidden_size=16384 num_attention_heads=128 num_key_value_heads=8 head_dim=128)}"
export CUDA_DEVICE_MAX_CONNECTIONS=1
exec torchrun \
  --nproc-per-node 8 \
  --nnodes 32 \
  --rdzv-backend c10d \
  --rdzv-id llama-3-1-405b \
  --rdzv-endpoint "${LEADER_ADDRESS:?address of the first node}:29500" \
  pretrain_gpt.py \
  --tensor-model-parallel-size 8 \
  --pipeline-model-parallel-size 16 \
  --context-parallel-size 1 \
  --expert-model-parallel-size 1 \
  --pipeline-model-parallel-layout 'E|(t|)*126L' \
  --micro-batch-size 2 \
  --global-batch-size 16 \
  --seq-length 4096 \
  --max-position-embeddings 4096 \
  --train-iters 1000 \
  --optimizer adam \
  --position-embedding-type rope \
  --normalization RMSNorm \
  --attention-dropout 0.0 \
  --hidden-dropout 0.0 \
  --save-interval 50 \
  --save-retain-interval 100 \
  --num-layers 126 \
  --hidden-size 16384 \
  --num-attention-heads 128 \
  --kv-channels 128 \
  --num-query-groups 8 \
  --ffn-hidden-size 53248 \
  --disable-bias-linear \
  --untie-embeddings-and-output-weights \
  --group-query-attention \
  --swiglu \
  --bf16 \
  --use-distributed-optimizer \
  --overlap-grad-reduce \
  --overlap-param-gather \
  --recompute-granularity full \
  --recompute-method uniform \
  --recompute-num-layers 1 \
  --async-save \
  --ckpt-format torch_dist \
  $ROTARY \
  --data-path "$DATA" --tokenizer-type HuggingFaceTokenizer --tokenizer-model "$TOKENIZER" \
  --save "$CHECKPOINTS" --load "$CHECKPOINTS" "$@"
