"""Metrics pages as engines and exporters print them, from the numbers of a situation."""

from collections.abc import Mapping, Sequence

__all__ = ["dcgm", "histogram", "llamacpp", "node", "sglang", "tgi", "triton", "vllm"]

BOUNDS = (0.01, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0)


def histogram(name: str, values: Sequence[float], labels: str = "") -> str:
    """A cumulative histogram that took these values in."""
    lead = labels + "," if labels else ""
    lines = [f"# TYPE {name} histogram"]
    lines += [f'{name}_bucket{{{lead}le="{bound}"}} {sum(v <= bound for v in values)}' for bound in BOUNDS]
    lines += [f'{name}_bucket{{{lead}le="+Inf"}} {len(values)}']
    lines += [f"{name}_sum{{{labels}}} {sum(values)}", f"{name}_count{{{labels}}} {len(values)}"]
    return "\n".join(lines) + "\n"


def _plain(kind: str, rows: Mapping[str, float | None], labels: str) -> str:
    return "".join(
        f"# TYPE {name} {kind}\n{name}{{{labels}}} {value}\n" for name, value in rows.items() if value is not None
    )


def vllm(
    *,
    running: float = 8,
    waiting: float = 0,
    kv: float | None = 0.5,
    preemptions: float = 0,
    e2e: Sequence[float] = (),
    ttft: Sequence[float] = (),
    queue: Sequence[float] = (),
    flop: float | None = None,
    read_bytes: float | None = None,
) -> str:
    labels = 'engine="0",model_name="m"'
    return (
        _plain(
            "gauge",
            {
                "vllm:num_requests_running": running,
                "vllm:num_requests_waiting": waiting,
                "vllm:kv_cache_usage_perc": kv,
            },
            labels,
        )
        + _plain(
            "counter",
            {
                "vllm:num_preemptions_total": preemptions,
                "vllm:request_success_total": len(e2e),
                "vllm:prompt_tokens_total": 400.0 * len(e2e),
                "vllm:generation_tokens_total": 100.0 * len(e2e),
                "vllm:estimated_flops_per_gpu_total": flop,
                "vllm:estimated_read_bytes_per_gpu_total": read_bytes,
            },
            labels,
        )
        + histogram("vllm:e2e_request_latency_seconds", e2e, labels)
        + histogram("vllm:time_to_first_token_seconds", ttft, labels)
        + histogram("vllm:request_queue_time_seconds", queue, labels)
    )


def sglang(
    *,
    running: float,
    waiting: float,
    kv: float,
    retracted: float = 0,
    ttft: Sequence[float] = (),
    e2e: Sequence[float] = (),
    queue: Sequence[float] = (),
) -> str:
    labels = 'model_name="m",tp_rank="0"'
    return (
        _plain(
            "gauge",
            {"sglang:num_running_reqs": running, "sglang:num_queue_reqs": waiting, "sglang:token_usage": kv},
            labels,
        )
        + _plain(
            "counter", {"sglang:num_retracted_requests_total": retracted, "sglang:num_requests_total": len(e2e)}, labels
        )
        + histogram("sglang:time_to_first_token_seconds", ttft, labels)
        + histogram("sglang:e2e_request_latency_seconds", e2e, labels)
        + histogram("sglang:queue_time_seconds", queue, labels)
    )


def tgi(*, running: float, waiting: float, e2e: Sequence[float], queue: Sequence[float]) -> str:
    return (
        _plain("gauge", {"tgi_batch_current_size": running, "tgi_queue_size": waiting}, "")
        + _plain("counter", {"tgi_request_success": len(e2e)}, "")
        + histogram("tgi_request_duration", e2e)
        + histogram("tgi_request_queue_duration", queue)
    )


def triton(
    *, scheduled: float, most: float, waiting: float, used: float, requests: float, queue_s: float, e2e_s: float
) -> str:
    label = 'model="tensorrt_llm",version="1"'
    gauges = "".join(
        f'nv_trt_llm_request_metrics{{{label},request_type="{kind}"}} {value}\n'
        for kind, value in (("scheduled", scheduled), ("max", most), ("waiting", waiting), ("active", scheduled))
    )
    blocks = "".join(
        f'nv_trt_llm_kv_cache_block_metrics{{{label},kv_cache_block_type="{kind}"}} {value}\n'
        for kind, value in (("used", used), ("max", 6239), ("tokens_per", 64))
    )
    counters = {
        "nv_inference_request_success": requests,
        "nv_inference_queue_duration_us": queue_s * 1e6 * requests,
        "nv_inference_request_duration_us": e2e_s * 1e6 * requests,
    }
    return gauges + blocks + _plain("counter", counters, label)


def llamacpp(*, processing: float, deferred: float) -> str:
    return _plain("gauge", {"llamacpp:requests_processing": processing, "llamacpp:requests_deferred": deferred}, "")


def dcgm(
    *,
    util: float = 99,
    tensor: float | None = None,
    dram: float | None = None,
    power_s: float | None = None,
    heat_s: float | None = None,
    unit: str = "ns",
    reasons: int | None = None,
    gpus: int = 1,
    temp: float = 60,
    link_bytes: float | None = None,
) -> str:
    scale = {"ns": 1e9, "us": 1e6}[unit]
    rows = (
        ("DCGM_FI_DEV_GPU_UTIL", "gauge", util, "GPU utilization (in %)."),
        ("DCGM_FI_DEV_GPU_TEMP", "gauge", temp, "GPU temperature (in C)."),
        ("DCGM_FI_PROF_PIPE_TENSOR_ACTIVE", "gauge", tensor, "Ratio of cycles the tensor (HMMA) pipe is active."),
        ("DCGM_FI_PROF_DRAM_ACTIVE", "gauge", dram, "Ratio of cycles the device memory interface is active."),
        ("DCGM_FI_DEV_POWER_VIOLATION", "counter", None if power_s is None else power_s * scale,
         f"Throttling duration due to power constraints (in {unit})."),
        ("DCGM_FI_DEV_THERMAL_VIOLATION", "counter", None if heat_s is None else heat_s * scale,
         f"Throttling duration due to thermal constraints (in {unit})."),
        ("DCGM_FI_DEV_CLOCKS_EVENT_REASONS", "gauge", reasons, "Why the clock is what it is (bitmask)."),
        ("DCGM_FI_PROF_NVLINK_TX_BYTES", "counter", link_bytes, "Bytes sent over NVLink."),
    )  # fmt: skip
    page = ""
    for name, kind, value, told in rows:
        if value is None:
            continue
        page += f"# HELP {name} {told}\n# TYPE {name} {kind}\n"
        for gpu in range(gpus):
            page += f'{name}{{gpu="{gpu}",UUID="GPU-{gpu}",modelName="NVIDIA H100 80GB HBM3"}} {value}\n'
    return page


def node(*, idle_s: float, busy_s: float, iowait_s: float = 0.0, disk_s: float = 0.0) -> str:
    rows = (("idle", idle_s), ("user", busy_s), ("iowait", iowait_s))
    page = "# TYPE node_cpu_seconds_total counter\n"
    page += "".join(f'node_cpu_seconds_total{{cpu="0",mode="{mode}"}} {value}\n' for mode, value in rows)
    return (
        page
        + f'# TYPE node_disk_io_time_seconds_total counter\nnode_disk_io_time_seconds_total{{device="sda"}} {disk_s}\n'
    )
