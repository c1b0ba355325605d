#!/bin/bash
# After github.com/GoogleCloudPlatform/kubernetes-engine-samples ai-ml/llm-multihost-gpus/vllm-llama3-405b-A3.yaml @ 839f806, read 2026-11-23
# (the leader's command: tensors inside a node, a pipeline between two; the variables are ours).
GPUS=8
NODES=2
python3 -m vllm.entrypoints.openai.api_server --port 8080 --model meta-llama/Meta-Llama-3.1-405B-Instruct \
  --tensor-parallel-size $GPUS --pipeline-parallel-size $NODES
