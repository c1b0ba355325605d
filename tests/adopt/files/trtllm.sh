# After nvidia.github.io/TensorRT-LLM/deployment-guide (extra options in a file that the script writes)
cat >./extra.yml <<EOF
kv_cache_config:
  dtype: fp8
  enable_block_reuse: false
enable_attention_dp: false
EOF
trtllm-serve nvidia/Llama-3.3-70B-Instruct-FP8 --host 0.0.0.0 --port 8000 --max_batch_size 512 \
  --max_num_tokens 4096 --max_seq_len 8192 --tp_size 2 --kv_cache_free_gpu_memory_fraction 0.9 \
  --extra_llm_api_options ./extra.yml
