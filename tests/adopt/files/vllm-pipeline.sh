#!/bin/bash
# After docs.vllm.ai/en/latest/serving/parallelism_scaling.html: tensors inside a node, a pipeline between nodes.
MODEL=${MODEL:-meta-llama/Llama-3.1-405B-Instruct-FP8}
GPUS=8
NODES=2
python3 -m vllm.entrypoints.openai.api_server --model "$MODEL" \
  --tensor-parallel-size $GPUS --pipeline-parallel-size $NODES --distributed-executor-backend ray \
  --max-model-len 16384 --trust-remote-code
