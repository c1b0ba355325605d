# After docs.vllm.ai/en/latest/serving/expert_parallel_deployment.html
vllm serve deepseek-ai/DeepSeek-V3 --tensor-parallel-size 1 --data-parallel-size 8 --enable-expert-parallel \
  --max-model-len 8192 --max-num-seqs 128
