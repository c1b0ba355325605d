# After github.com/sgl-project/sglang docs/references/multi_node_deployment/multi_node.md @ 0351c1f, read 2026-11-23
python3 -m sglang.launch_server --model-path meta-llama/Meta-Llama-3.1-405B-Instruct --tp 16 \
  --dist-init-addr 172.16.4.52:20000 --nnodes 2 --node-rank 0
