# After github.com/vllm-project/vllm docs/serving/parallelism_scaling.md @ 096bd6a, read 2026-11-23
vllm serve facebook/opt-13b --tensor-parallel-size 4
