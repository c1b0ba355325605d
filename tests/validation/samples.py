"""Rows for tests: the few cells that matter, in each of the three layouts."""

from tonnage_accuracy.rows import Layout, Row


def row(layout: Layout, usable: bool = True, block: str = "X", **cells: object) -> Row:
    """A row with these cells; its id is given or made up."""
    texts = {name: str(value) for name, value in cells.items()}
    return Row(id=texts.get("id", f"{block}-1"), block=block, layout=layout, cells=texts, usable=usable)


def point(**changes: object) -> Row:
    """A static batch of Llama 3 8B on one A100 under vLLM."""
    cells: dict[str, object] = {
        "kind": "llm", "model_id": "meta-llama/Meta-Llama-3-8B", "accelerator_id": "a100-sxm4-80gb", "num_accel": 1,
        "num_accel_total": 1, "accel_fraction": 1, "node_links": "none", "engine": "vllm", "weight_precision": "fp16",
        "act_precision": "fp16", "kv_precision": "fp16", "load": "static_batch", "phase": "both",
        "concurrency_or_batch": 16, "isl_tokens": 1024, "osl_tokens": 128, "length_spread": "1.0", "year": 2024,
        "params_b": 8.03, "output_tokens_per_s_total": 800, "e2e_ms": 2560,
    }  # fmt: skip
    return _changed("inference", cells, changes)


def sample(**changes: object) -> Row:
    """A serving point: DeepSeek on eight H200 with 64 clients."""
    cells: dict[str, object] = {
        "model_id": "deepseek-ai/DeepSeek-V3", "accelerator_id": "h200-sxm-141gb", "num_accelerators": 8, "tp_norm": 8,
        "ep_norm": 1, "attention_dp_norm": 1, "engine": "sglang", "backend_version": "0.5.9", "disaggregated": 0,
        "weight_precision": "fp8_block", "moe_weight_precision": "fp8_block", "act_precision": "fp8_block",
        "kv_precision": "bf16", "isl_tokens": 921.6, "osl_tokens": 921.6, "length_spread": "0.8-1.0", "concurrency": 64,
        "requests_per_client": 10, "measured": "2026-02-03", "max_batched_tokens": 8192, "node_links": "nvlink",
        "silicon_ttft_ms": 500, "silicon_tpot_ms": 20,
    }  # fmt: skip
    return _changed("serving", cells, changes)


def training(**changes: object) -> Row:
    """Llama 3 8B on eight H100."""
    cells: dict[str, object] = {
        "kind": "llm", "method": "pretrain", "model_id": "meta-llama/Meta-Llama-3-8B", "layers": 32, "hidden": 4096,
        "ffn": 14336, "heads": 32, "kv_heads": 8, "head_dim": 128, "vocab": 128256, "arch_gated": 1, "arch_tied": 0,
        "arch_learned_pos": 0, "accelerator_id": "h100-sxm5-80gb", "num_accel": 8, "accel_per_node": 8,
        "node_links": "nvlink", "engine": "megatron", "act_precision": "fp8", "weight_precision": "bf16",
        "seq_len": 8192, "micro_batch": 1, "global_batch": 128, "optimizer": "adamw", "master_weights": 1,
        "grads_kept": 1,
        "outcome": "ok", "usable_for": "speed", "step_time_s_eff": 10, "tokens_per_s_per_accel_eff": 13000,
        "year": 2025,
    }  # fmt: skip
    return _changed("training", cells, changes)


def _changed(layout: Layout, cells: dict[str, object], changes: dict[str, object]) -> Row:
    """The cells with changes over them; None takes a cell away."""
    merged = {name: value for name, value in {**cells, **changes}.items() if value is not None}
    return row(layout, **merged)  # type: ignore[arg-type]
