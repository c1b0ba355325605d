"""`make bench`: every speed figure the project states, beside its target."""

from __future__ import annotations

import time

from tools.benchmarks.measuring import Row, best_of, per_call_s
from tools.benchmarks.page import first_answers
from tools.benchmarks.simulator import simulator
from tools.benchmarks.streaming import streaming
from tools.benchmarks.training import layouts

MODEL = "meta-llama/Llama-3.1-70B-Instruct"
MIB = 1024.0**2
SERVE = ["plan", "serve", MODEL, "--rate", "4/s", "--traffic", "chat", "--ttft", "1s", "--tpot", "50ms"]


def start_up() -> list[Row]:
    """The commands that must answer at once."""
    rows = []
    for name, arguments in (
        ("tonnage --help", ["--help"]),
        ("tonnage catalog accelerators", ["catalog", "accelerators"]),
        ("tonnage fit (70B on H200)", ["fit", MODEL, "--accelerator", "H200"]),
    ):
        rows.append(Row(name, best_of(5, arguments, codes=(0, 3)).cpu_s, "CPU s", 0.25))
    return rows


def planning() -> list[Row]:
    """A plan over the whole catalogue, from a cold start, and configurations looked at per second."""
    from tonnage.questions.serve.plan import plan_serve
    from tonnage.questions.serve.question import serve_request

    best_of(1, SERVE)  # compiles the simulator, once on a machine
    decided, quick = best_of(3, SERVE), best_of(3, [*SERVE, "--quick"])
    busy = best_of(1, [*SERVE[:4], "60/s", "--traffic", "reasoning", "--ttft", "2s", "--tpot", "50ms"])
    request = serve_request(
        {"model": MODEL, "rate": "4/s", "traffic": "chat", "ttft": "1s", "tpot": "50ms", "quick": True}
    )
    plan_serve(request)
    start = time.process_time()
    evaluated = plan_serve(request).evaluated
    rate = evaluated / (time.process_time() - start)
    return [
        Row("plan serve, whole catalogue, simulated", decided.cpu_s, "CPU s", 6.0),
        Row("plan serve, the same for long answers", busy.cpu_s, "CPU s", 6.0),
        Row("plan serve, whole catalogue, --quick", quick.cpu_s, "CPU s", 3.0),
        Row("plan serve, peak memory", decided.peak_bytes / MIB, "MiB", 300.0),
        Row("configurations evaluated", rate, "per CPU s", 1000.0, more_is_better=True),
    ]


def predictions() -> list[Row]:
    """One prediction of each kind, warm."""
    import msgspec

    from tonnage.domain.case import Case
    from tonnage.questions.predict.predict import predict

    cases = {
        "serve": '{"kind":"serve","model":"meta-llama/Llama-3.1-70B","accelerator":"h100-sxm5-80gb",'
        '"layout":{"tp":4},"traffic":{"concurrency":64},"isl":1024,"osl":1024}',
        "train": '{"kind":"train","model":"meta-llama/Llama-3.1-8B","accelerator":"h100-sxm5-80gb","count":64,'
        '"accelerators_per_node":8,"layout":{"sharding":"fsdp"},"micro_batch":1,"global_batch":512,"seq_len":4096}',
        "infer": '{"kind":"infer","model":"timm/resnet50.a1_in1k","accelerator":"a100-sxm4-80gb","batch":64}',
    }
    rows = []
    for kind, text in cases.items():
        case = msgspec.json.decode(text, type=Case)  # type: ignore[arg-type]
        rows.append(Row(f"predict, {kind}", per_call_s(lambda case=case: predict(case)) * 1e3, "CPU ms", 5.0))
    return rows


def main() -> None:
    """Print every figure beside its target; the exit code says whether all are met."""
    rows = [*start_up(), *planning(), *predictions(), *layouts(), *simulator(), *streaming(), *first_answers()]
    width = max(len(row.name) for row in rows)
    for row in rows:
        sign = ">=" if row.more_is_better else "<="
        verdict = "met" if row.met else "MISSED"
        print(f"{row.name:<{width}}  {row.value:10.3g} {row.unit:<10} {sign} {row.target:g}  {verdict}")
    raise SystemExit(0 if all(row.met for row in rows) else 1)


if __name__ == "__main__":
    main()
