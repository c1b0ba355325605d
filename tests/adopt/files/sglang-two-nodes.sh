# After docs.sglang.ai/references/multi_node_deployment/multi_node.html
python3 -m sglang.launch_server --model-path deepseek-ai/DeepSeek-V3 --tp 16 --dist-init-addr 10.0.0.1:5000 \
  --nnodes 2 --node-rank 0 --trust-remote-code --context-length 16384
