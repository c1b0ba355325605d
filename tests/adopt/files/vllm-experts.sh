# After github.com/vllm-project/vllm docs/serving/expert_parallel_deployment.md @ 0170256, read 2026-11-23
VLLM_ALL2ALL_BACKEND=pplx VLLM_USE_DEEP_GEMM=1 vllm serve deepseek-ai/DeepSeek-V3-0324 \
  --tensor-parallel-size 1 --data-parallel-size 8 --enable-expert-parallel
