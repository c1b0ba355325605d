# After github.com/ggml-org/llama.cpp/blob/master/tools/server/README.md
llama-server -hf bartowski/Meta-Llama-3.1-8B-Instruct-GGUF:Q4_K_M -c 32768 -np 4 -ngl 99 -fa on --host 0.0.0.0
