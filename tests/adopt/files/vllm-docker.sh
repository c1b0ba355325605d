# After github.com/vllm-project/vllm docs/deployment/docker.md @ 0231979, read 2026-11-23
docker run --rm --gpus all \
    -v ~/.cache/huggingface:/home/vllm/.cache/huggingface \
    -v vllm-cache:/home/vllm/.cache/vllm \
    -p 8000:8000 \
    vllm/vllm-openai:latest \
    meta-llama/Llama-3.1-8B-Instruct
