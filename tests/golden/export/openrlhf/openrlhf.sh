#!/usr/bin/env bash
# For OpenRLHF 0.11.2. Written by Tonnage 0.1.0.
# Plan of 2026-11-22: grpo of Qwen/Qwen3-8B on 16 x h100-sxm5-80gb.
# 2 x gpu-h100-sxm_8gpu-128vcpu-1600gb, nebius eu-north1, on-demand: $47.20/h (price of 2025-11), about 3.6 h, $172 in all.
# Step 115 s. Reward, data and learning rate are yours, and no part of the plan.
# Set DATA to your prompts and REWARD to your Python file with reward_func; one pass over DATA is at most
# the planned steps: with fewer prompts add --train.num_episodes. Ray runs on every machine before this starts.
set -euo pipefail

python3 -m openrlhf.cli.train_ppo_ray \
  --data.prompt_dataset "${DATA:?}" \
  --reward.remote_url "${REWARD:?}" \
  --actor.model_name_or_path Qwen/Qwen3-8B \
  --train.colocate_all \
  --actor.num_nodes 2 \
  --actor.num_gpus_per_node 8 \
  --ref.num_nodes 2 \
  --ref.num_gpus_per_node 8 \
  --vllm.num_engines 8 \
  --vllm.tensor_parallel_size 2 \
  --vllm.gpu_memory_utilization 0.6 \
  --vllm.enable_sleep \
  --ds.enable_sleep \
  --ds.zero_stage 1 \
  --ds.tensor_parallel_size 2 \
  --ds.ring_attn_size 1 \
  --ds.param_dtype bf16 \
  --ds.packing_samples \
  --train.dynamic_batch_enable \
  --train.max_tokens_per_gpu 8512 \
  --actor.optim adam \
  --algo.advantage.estimator group_norm \
  --algo.kl.init_coef 0.01 \
  --rollout.batch_size 32 \
  --rollout.n_samples_per_prompt 8 \
  --rollout.max_new_tokens 8000 \
  --data.max_len 8512 \
  --data.max_samples 3200 \
  --train.batch_size 256 \
  --ckpt.save_steps 25 \
  --ckpt.output_dir ./qwen3-8b-grpo \
  --algo.kl.use_loss \
  --algo.kl.estimator k3 \
  "$@"
