#!/usr/bin/env bash
# For vLLM 0.32.0. Written by Tonnage 0.1.0.
# Plan of 2026-11-21: meta-llama/Llama-3.1-70B-Instruct, 2 x h100-sxm5-80gb tp8 pp2 fp8 vllm kv-fp8.
# 4 x a3-highgpu-8g, gcp us-central1, on-demand: $80.00/h (price of 2026-11-01).
# Once a machine is up, on each, before any load: tonnage measure accept h100-sxm5-80gb --count 8 --out accepted.json
# Then send URL the plan's peak load of all 2 replicas (one alone: --rate 2/s): tonnage measure serve URL --model meta-llama/Llama-3.1-70B-Instruct --rate 4/s --duration 3min --requests 480 --prompt-tokens 1000 --output-tokens 200 --output load.jsonl
# Its requests have the plan's mean lengths, so the longest real ones take longer.
# Weights are quantised to FP8 while loading (--quantization fp8); the checkpoint stays 16-bit.
# A replica spans 2 nodes, joined by Ray: the image must hold ray (pip install ray).
# This starts one replica; the plan has 2.
# Tokens are read from the environment: export HF_TOKEN before starting a gated model.
set -euo pipefail

# A replica spans 2 nodes: run this on each, with NODE_RANK=0 on the first and 1, 2, ...
# on the others, and LEADER_ADDRESS set to the first one's address.
: "${LEADER_ADDRESS:?the first node}" "${NODE_RANK:?0 on the first node}"
if [ "$NODE_RANK" = 0 ]; then
ray start --head --port=6379
python3 -c 'import ray, time; ray.init(address='"'"'auto'"'"'); [time.sleep(2) for _ in iter(lambda: sum(n['"'"'Alive'"'"'] for n in ray.nodes()) < 2, False)]'
exec vllm serve meta-llama/Llama-3.1-70B-Instruct \
  --dtype auto \
  --quantization fp8 \
  --kv-cache-dtype fp8 \
  --tensor-parallel-size 8 \
  --pipeline-parallel-size 2 \
  --max-model-len 131072 \
  --max-num-seqs 256 \
  --max-num-batched-tokens 8192 \
  --gpu-memory-utilization 0.9 \
  --block-size 16 \
  --enable-chunked-prefill \
  --enable-prefix-caching \
  --distributed-executor-backend ray \
  --host 0.0.0.0 \
  --port 8000
else
exec ray start --address="$LEADER_ADDRESS:6379" --block
fi
