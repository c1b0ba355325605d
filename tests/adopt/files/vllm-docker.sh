# After docs.vllm.ai/en/latest/deployment/docker.html
docker run --runtime nvidia --gpus all \
    -v /data/huggingface:/models \
    --env "HF_TOKEN=$HF_TOKEN" \
    -p 8000:8000 \
    --ipc=host \
    vllm/vllm-openai:v0.10.2 \
    --model mistralai/Mistral-7B-Instruct-v0.3 --max-num-seqs 128 --enforce-eager
