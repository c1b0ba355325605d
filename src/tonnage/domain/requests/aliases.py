"""What do other programs call our fields? One name of ours means one thing, whichever question has it."""

from __future__ import annotations

from typing import Final

__all__ = ["ALIASES"]

ALIASES: Final = {
    "accelerator": "gpu gpus gpu-type gpu-name device devices hardware on system machine card accelerators",
    "tp": "tensor-parallel-size tensor-parallel tensor-model-parallel-size tp-size tensor-model-parallel",
    "pp": "pipeline-parallel-size pipeline-parallel pipeline-model-parallel-size pp-size",
    "dp": "data-parallel-size data-parallel dp-size",
    "ep": "expert-parallel-size expert-parallel ep-size moe-ep-size",
    "count": "num-gpus n-gpus ngpus gpu-count num-accelerators world-size nproc",
    "max_accelerators": "max-gpus",
    "context": "max-model-len max-seq-len max-context ctx ctx-size context-length context-len seq-len",
    "seq_len": "seq-length sequence-length max-seq-length context cutoff-len",
    "prompt_tokens": "isl input-len input-length input-tokens prompt-len prompt-length random-input-len input",
    "output_tokens": "osl output-len output-length max-tokens max-new-tokens random-output-len",
    "rate": "qps rps request-rate requests-per-second load",
    "concurrency": "max-concurrency max-num-seqs batch-size num-concurrent clients parallel",
    "batch": "batch-size micro-batch-size mbs per-device-train-batch-size",
    "global_batch": "gbs global-batch-size train-batch-size batch-size",
    "precision": "dtype quantization quant quantize weights-dtype load-in-4bit load-in-8bit",
    "kv_precision": "kv-cache-dtype kv-dtype",
    "engine": "backend framework runtime server",
    "framework": "backend engine library",
    "ttft": "time-to-first-token ttft-slo",
    "tpot": "itl inter-token-latency time-per-output-token tpot-slo tbt",
    "budget": "max-cost max-price cost",
    "lora_rank": "rank lora-r",
    "examples": "samples dataset-size num-samples",
    "tokens": "train-tokens num-tokens dataset-tokens",
    "items": "prompts num-prompts requests",
    "epochs": "num-epochs num-train-epochs",
    "eu": "eu-only europe gdpr",
    "term": "spot on-demand reserved",
}
"""Field: names that vLLM, SGLang, Megatron, Transformers, genai-perf and their like give it."""
