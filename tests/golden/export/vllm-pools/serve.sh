#!/usr/bin/env bash
# For vLLM 0.32.0. Written by Tonnage 0.1.0.
# Plan of 2026-11-21: meta-llama/Llama-3.1-70B-Instruct, 3 x h100-sxm5-80gb tp2 fp8 vllm kv-fp8.
# 1 x a3-highgpu-8g, gcp us-central1, on-demand: $80.00/h (price of 2026-11-01).
# Once a machine is up, on each, before any load: tonnage measure accept h100-sxm5-80gb --count 8 --out accepted.json
# Then send URL the plan's peak load of all 2 units (one alone: --rate 2/s): tonnage measure serve URL --model meta-llama/Llama-3.1-70B-Instruct --rate 4/s --duration 3min --requests 480 --prompt-tokens 1000 --output-tokens 200 --output load.jsonl
# Its requests have the plan's mean lengths, so the longest real ones take longer.
# Weights are quantised to FP8 while loading (--quantization fp8); the checkpoint stays 16-bit.
# This starts one unit; the plan has 2.
# Tokens are read from the environment: export HF_TOKEN before starting a gated model.
set -euo pipefail

# A unit spans 3 nodes: run this on each, with NODE_RANK=0 on the first and 1, 2, ...
# on the others, and NODE_ADDRESSES set to the addresses of all, in that order.
: "${NODE_ADDRESSES:?addresses of all nodes}" "${NODE_RANK:?0 on the first node}"
if [ "$NODE_RANK" = 0 ]; then
# Of a unit's 3 workers the last 2 read prompts, the others answer;
# requests go to the router on the first. Caches move through NIXL, which the image must hold; RDMA between
# nodes is the site's to attach.
python3 -m pip install --quiet vllm-router==0.1.17
read -ra MEMBERS <<< "$NODE_ADDRESSES"
WORKERS=()
for one in "${MEMBERS[@]:0:1}"; do WORKERS+=(--decode "http://$one:8001"); done
for one in "${MEMBERS[@]:1}"; do WORKERS+=(--prefill "http://$one:8001"); done
vllm-router --vllm-pd-disaggregation --host 0.0.0.0 --port 8000 \
  --worker-startup-timeout-secs 3078 "${WORKERS[@]}" &
(
export VLLM_NIXL_SIDE_CHANNEL_HOST="$(hostname -I | cut -d" " -f1)"
exec vllm serve meta-llama/Llama-3.1-70B-Instruct \
  --dtype auto \
  --quantization fp8 \
  --kv-cache-dtype fp8 \
  --tensor-parallel-size 2 \
  --pipeline-parallel-size 1 \
  --max-model-len 32768 \
  --max-num-seqs 256 \
  --max-num-batched-tokens 8192 \
  --gpu-memory-utilization 0.9 \
  --block-size 16 \
  --enable-chunked-prefill \
  --enable-prefix-caching \
  --host 0.0.0.0 \
  --port 8001 \
  --kv-transfer-config '{"kv_connector": "NixlConnector", "kv_role": "kv_both"}'
) &
wait -n
exit 1
else
export VLLM_NIXL_SIDE_CHANNEL_HOST="$(hostname -I | cut -d" " -f1)"
exec vllm serve meta-llama/Llama-3.1-70B-Instruct \
  --dtype auto \
  --quantization fp8 \
  --kv-cache-dtype fp8 \
  --tensor-parallel-size 2 \
  --pipeline-parallel-size 1 \
  --max-model-len 32768 \
  --max-num-seqs 256 \
  --max-num-batched-tokens 8192 \
  --gpu-memory-utilization 0.9 \
  --block-size 16 \
  --enable-chunked-prefill \
  --enable-prefix-caching \
  --host 0.0.0.0 \
  --port 8001 \
  --kv-transfer-config '{"kv_connector": "NixlConnector", "kv_role": "kv_both"}'
fi
