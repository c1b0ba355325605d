#!/bin/bash
# After github.com/NVIDIA/Megatron-LM examples/llama/train_llama3_8b_h100_fp8.sh @ 157006d, read 2026-11-23
GPUS_PER_NODE=8
NUM_NODES=1
WORLD_SIZE=$(($GPUS_PER_NODE * $NUM_NODES))
DISTRIBUTED_ARGS=(
    --nproc_per_node $GPUS_PER_NODE
    --nnodes $NUM_NODES
)
MODEL_ARGS=(
    --num-layers 32
    --hidden-size 4096
    --ffn-hidden-size 14336
    --num-attention-heads 32
    --group-query-attention
    --num-query-groups 8
    --kv-channels 128
    --seq-length 8192
    --max-position-embeddings 8192
    --rotary-base 1000000
    --swiglu
    --untie-embeddings-and-output-weights
)
TRAINING_ARGS=(
    --micro-batch-size 1
    --global-batch-size 128
    --train-samples 1953125000
    --bf16
    --fp8-format hybrid
    --use-distributed-optimizer
)
PARALLEL_ARGS=( --tensor-model-parallel-size 1 --context-parallel-size 1 --sequence-parallel )
torchrun "${DISTRIBUTED_ARGS[@]}" pretrain_gpt.py "${MODEL_ARGS[@]}" "${TRAINING_ARGS[@]}" "${PARALLEL_ARGS[@]}" --save-interval 1000
