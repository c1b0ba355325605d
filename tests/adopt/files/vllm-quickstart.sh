# After docs.vllm.ai/en/latest/serving/parallelism_scaling.html: one node, several accelerators.
vllm serve meta-llama/Llama-3.1-70B-Instruct \
  --tensor-parallel-size 4 \
  --max-model-len 32k \
  --gpu-memory-utilization 0.92
