#!/usr/bin/env bash
# For optimum-neuron for AWS Trainium 0.4.3. Written by Tonnage 0.1.0.
# Untested template: its names were checked against the release's own tables, and nothing was started.
# Plan of 2026-11-21: lora of meta-llama/Llama-3.1-8B on 16 x trainium1 DP16.
# 1 x trn1.32xlarge, aws us-central1, on-demand: $80.00/h (price of 2026-11-01), about 10.1 h, $806 in all.
# Step 36 s; checkpoint every 30 min.
# Learning rate, schedule and data are yours; the plan does not depend on them.
# Each chip is 2 ranks: its cores split the layers, so that a chip holds what was planned for it.
# OUTPUT is a folder that every node sees. DATA is a data set: an id of the Hub or a folder; for pre-training
# one of token ids, 4,096 a row, as datasets.save_to_disk writes it.
# optimum-neuron for AWS Trainium 0.4.3 cannot go on from a checkpoint: an interruption starts the run again.
# The first start compiles the network for the planned shapes.
set -euo pipefail
: "${DATA:?what to train on}"
: "${OUTPUT:?shared folder for checkpoints}"
export DATA OUTPUT NEURON_CC_FLAGS=--model-type=transformer MALLOC_ARENA_MAX=64
exec torchrun \
  --nproc-per-node 32 \
  --standalone \
  train.py "$@"
