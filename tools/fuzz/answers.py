"""
Whole answers: questions at the edges of what may be asked, each answered by sound JSON or one sentence.

    python -m tools.fuzz --answers [--inputs 2000] [--seed 1]

A finding is a traceback, no answer in a minute, JSON that no strict parser reads (NaN, Infinity), a negative amount, or
an interval whose ends are the wrong way round or do not hold their value.
"""

from __future__ import annotations

import json
import math
import random
import select
import subprocess
import sys
import traceback
from collections.abc import Callable
from typing import Any

import msgspec
from tools.fuzz.readers import ROOT, allowed

SLACK = 1e-9
MOST_WALL_S = 60.0
"""By the clock: compiled code hears no signal, and the first answer compiles."""
MODELS = ("8B", "0.1B", "70B", "Qwen/Qwen3-30B-A3B", "deepseek-ai/DeepSeek-V3", "gpt-oss-120b", "resnet50", "1000B")
ACCELERATORS = (
    "H100",
    "A100",
    "L4",
    "RTX 4090",
    "MI300X",
    "B200",
    "tpu-v5e",
    "T4",
    "V100",
    "m4-max-40",
    "H100:1g.10gb",
)
NUMBERS = (0, -1, 1, 2, 3, 7, 0.5, 1e-9, 1e-300, 16, 255, 256, 1024, 8192, 131072, 1e6, 1e9, 1e18, 1e300, 5e-324)
WHOLE = (1, 2, 3, 4, 5, 8, 16, 64, 100, 512, 8192, 131072, 10**6, 10**9, 0, -1)
SIGNED = ("change", "relative", "difference", "delta", "error", "short", "gain", "saving", "shift", "net", "lead")
"""Words in the names of fields that may be below zero."""


def _serve(pick: random.Random) -> dict[str, Any]:
    load = pick.choice(("concurrency", "rate_per_s", "batch", "saturated"))
    case: dict[str, Any] = {
        "kind": "serve", "model": pick.choice(MODELS), "accelerator": pick.choice(ACCELERATORS),
        "isl": pick.choice(WHOLE), "osl": pick.choice((*WHOLE, 0.5)),
        "traffic": {load: True if load == "saturated" else pick.choice(NUMBERS if load == "rate_per_s" else WHOLE)},
    }  # fmt: skip
    if pick.random() < 0.5:
        case["layout"] = {pick.choice(("tp", "pp", "ep", "dp")): pick.choice((1, 2, 3, 8, 16, 64))}
    if pick.random() < 0.4:
        case["precision"] = {"weights": pick.choice(("fp8", "int4", "bf16", "mxfp4", "fp32", "gguf-q4_k_m"))}
    if pick.random() < 0.4:
        case["engine"] = pick.choice(("vllm", "sglang", "tensorrt-llm", "llama.cpp", "transformers", "tgi"))
    return case


def _train(pick: random.Random) -> dict[str, Any]:
    return {
        "kind": "train", "model": pick.choice(MODELS), "accelerator": pick.choice(ACCELERATORS),
        "method": pick.choice(("pretrain", "full", "lora", "qlora")), "sequence": pick.choice(WHOLE),
        "micro_batch": pick.choice(WHOLE), "num_accelerators": pick.choice((1, 2, 8, 64, 4096, 0)),
        **({"layout": {"tp": pick.choice((1, 2, 8)), "pp": pick.choice((1, 4, 7))}} if pick.random() < 0.5 else {}),
    }  # fmt: skip


def _infer(pick: random.Random) -> dict[str, Any]:
    model = pick.choice(("resnet50", "8B", "yolov8n", "vit-b-16"))
    return {"kind": "infer", "model": model, "batch": pick.choice(WHOLE), "accelerator": pick.choice(ACCELERATORS)}


def _predicted(case: dict[str, Any]) -> object:
    from tonnage.questions.predict.case_lines import case_of_object
    from tonnage.questions.predict.predict import predict

    return predict(case_of_object(case))


def _fitted(pick: random.Random) -> Callable[[], object]:
    import tonnage

    asked = {
        "context": pick.choice(WHOLE), "concurrency": pick.choice(WHOLE), "accelerator": pick.choice(ACCELERATORS),
        **({"tp": pick.choice((1, 2, 3, 8))} if pick.random() < 0.4 else {}),
        **({"weights": pick.choice(("fp8", "int4", "bf16"))} if pick.random() < 0.4 else {}),
    }  # fmt: skip
    model = pick.choice(MODELS)
    return lambda: tonnage.fit(model, **asked)


def question(seed: int, number: int) -> tuple[str, Callable[[], object]]:
    """One question, as text, and how it is answered."""
    pick = random.Random(f"answers/{seed}/{number}")
    kind = pick.choice((_serve, _serve, _train, _infer, None))
    if kind is None:
        return "fit", _fitted(pick)
    case = kind(pick)
    return json.dumps(case), lambda: _predicted(case)


def _refuse_constant(name: str) -> float:
    raise ValueError(f"{name} is no JSON")


def wrong_in(answer: object) -> str | None:
    """What is wrong in an answer, or nothing."""
    try:
        text = msgspec.json.encode(answer)
        value = json.loads(text, parse_constant=_refuse_constant)
        # msgspec writes null for what is no number: the value itself is looked at, too.
        return _not_finite(msgspec.to_builtins(answer), "answer") or _wrong(value, "answer")
    except (ValueError, TypeError) as error:
        return f"no JSON: {error}"


def _not_finite(value: Any, where: str, *, endless: bool = False) -> str | None:
    """A number that is none; where more arrives than is served, a wait has no upper end, and says so (`Latency`)."""
    if isinstance(value, float) and not math.isfinite(value):
        return None if endless and value > 0 and where.endswith(".high") else f"{where} is {value}"
    if isinstance(value, dict):
        endless = endless or value.get("saturated") is True
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list | tuple) else ()
    return next((told for name, item in inner if (told := _not_finite(item, f"{where}.{name}", endless=endless))), None)


def _wrong(value: Any, where: str) -> str | None:
    if isinstance(value, dict):
        low, high = value.get("low"), value.get("high")
        middle = next((value[name] for name in ("value", "mean") if isinstance(value.get(name), int | float)), None)
        if isinstance(low, int | float) and isinstance(high, int | float):
            slack = SLACK * max(abs(low), abs(high))
            if low > high + slack:
                return f"{where}: from {low} to {high}"
            if middle is not None and not low - slack <= middle <= high + slack:
                return f"{where}: {middle} outside {low} to {high}"
        items = value.items()
        return next((told for name, item in items if (told := _wrong(item, f"{where}.{name}"))), None)
    if isinstance(value, list):
        return next((told for i, item in enumerate(value) if (told := _wrong(item, f"{where}.{i}"))), None)
    if isinstance(value, int | float) and value < 0 and not any(word in where for word in SIGNED):
        return f"{where} is {value}"
    return None


def child(seed: int, first: int, last: int) -> None:
    """Ask some questions; one line each says how it ended: an answer, a sentence, or what was wrong."""
    sentences = allowed()
    for number in range(first, last):
        what, ask = question(seed, number)
        try:
            told = wrong_in(ask()) or "answered"
        except sentences as error:
            told = "refused" if str(error).strip() and "\n" not in str(error) else f"no sentence: {error!r}"
        except Exception:
            told = traceback.format_exc(limit=-3)
        print(json.dumps([what, told]), flush=True)


def run(*, inputs: int, seed: int) -> tuple[int, int, list[str]]:
    """Ask so many questions; how many were answered, how many refused, and the findings."""
    counts = {"answered": 0, "refused": 0}
    findings: list[str] = []
    number = 0
    while number < inputs:
        command = [sys.executable, "-m", "tools.fuzz.answers", str(seed), str(number), str(inputs)]
        with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE) as asked:
            assert asked.stdout is not None
            while select.select([asked.stdout], [], [], MOST_WALL_S)[0] and (line := asked.stdout.readline()):
                what, told = json.loads(line)
                number += 1
                if told in counts:
                    counts[told] += 1
                else:
                    findings.append(f"{what}: {told}")
            asked.kill()
        if number < inputs:
            what, _ = question(seed, number)
            findings.append(f"{what}: no answer in {MOST_WALL_S:.0f} s, or the process died")
            number += 1
    return counts["answered"], counts["refused"], findings


if __name__ == "__main__":
    child(*map(int, sys.argv[1:4]))
