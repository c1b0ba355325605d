"""Texts that forms hold at first: a case, a metrics page, a request log, in their own formats."""

from __future__ import annotations

from typing import Final

WAYS: Final = """\
small steps: {engine_options: {max_num_batched_tokens: 512}}
as it is: {}
"""
CASE: Final = """\
kind: serve
model: 8B
accelerator: H100
traffic: {concurrency: 16}
isl: 1024
osl: 256
"""
METRICS: Final = """\
vllm:num_requests_running{model_name="meta-llama/Llama-3.1-8B-Instruct"} 31
vllm:num_requests_waiting{model_name="meta-llama/Llama-3.1-8B-Instruct"} 42
vllm:kv_cache_usage_perc{model_name="meta-llama/Llama-3.1-8B-Instruct"} 0.98
vllm:num_preemptions_total{model_name="meta-llama/Llama-3.1-8B-Instruct"} 57
"""
LOG: Final = "".join(
    f'{{"timestamp": {at}, "input_length": {512 * len(ids)}, "output_length": 90, "hash_ids": {ids}}}\n'
    for at, ids in ((0, [1, 2]), (4000, [4, 5]), (21000, [1, 2, 3]), (33000, [4, 5, 6, 7]), (52000, [1, 2, 3, 8]))
)
SERVICE: Final = """\
vllm:num_requests_running 8
vllm:num_requests_waiting 3
vllm:request_success_total 5000
vllm:prompt_tokens_total 5120000
vllm:generation_tokens_total 1280000
vllm:time_to_first_token_seconds_sum 4500
vllm:time_to_first_token_seconds_count 5000
vllm:request_queue_time_seconds_sum 4300
vllm:request_queue_time_seconds_count 5000
vllm:inter_token_latency_seconds_sum 10455
vllm:inter_token_latency_seconds_count 1275000
"""
