"""Configs and logs that contradict themselves, a thousand: each is refused in one sentence, or named in the answer."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from tools.attack.rows import Outcome, Row

CONFIGS: Final = Path(__file__).parents[2] / "tests" / "data" / "hub" / "configs.json"
COUNTS: Final = (0, -1, 1.5, "many", True, [4], 10**12)
"""Of what a model has at least one of."""
FIELDS: Final[dict[str, tuple[Any, ...]]] = {
    **dict.fromkeys(("hidden_size", "num_hidden_layers", "num_attention_heads", "vocab_size"), COUNTS),
    **dict.fromkeys(("num_key_value_heads", "intermediate_size", "head_dim", "moe_intermediate_size"), COUNTS[1:]),
    **dict.fromkeys(("num_experts", "n_routed_experts", "num_local_experts"), COUNTS[1:]),
    "num_experts_per_tok": (*COUNTS[1:], 10**6),
    **dict.fromkeys(("kv_lora_rank", "qk_rope_head_dim", "v_head_dim", "sliding_window"), (-5, 2.5, "many", [4])),
    "layer_types": (["full_attention"], ["bananas"], "full_attention", [7], []),
    "tie_word_embeddings": ("yes", 7),
    "model_type": (7, ["llama"], "a\u202eb"),
}
"""Where a published config has the field, what it may not be."""
ANYWHERE: Final[tuple[dict[str, Any], ...]] = (
    *({"quantization_config": {"quant_method": by, "bits": bits}} for by in ("gptq", "awq") for bits in (0, 3, 2.5)),
    {"quantization_config": {"quant_method": "bitsandbytes", "load_in_4bit": True, "load_in_8bit": True}},
    {"quantization_config": {"quant_method": "bananas"}}, {"quantization_config": "awq"},
    {"torch_dtype": "bananas", "dtype": "bananas"}, {"torch_dtype": 7, "dtype": 7}, {"_name_or_path": "a\u202eb"},
)  # fmt: skip
_CSV: Final = "{time},{prompt},{output}\n"
_JSON: Final = '{{"time": {time}, "prompt_tokens": {prompt}, "output_tokens": {output}}}\n'
TIMES: Final[dict[str, Callable[[int], object]]] = {
    "days of a spreadsheet": lambda n: f"{45246.5 + n / 86400:.8f}",
    "milliseconds of the clock": lambda n: 1_700_000_000_123 + 60_000 * n,
    "microseconds of the clock": lambda n: (1_700_000_000_123 + 60_000 * n) * 1000,
    "nanoseconds of the clock": lambda n: (1_700_000_000_123 + 60_000 * n) * 10**6,
    "backwards": lambda n: 1000 - n,
    "below zero": lambda n: n - 1000,
    "no number": lambda n: '"soon"',
    "decimal commas": lambda n: f'"{n},5"',
    "a clock without a day": lambda n: f'"10:{n % 60:02}"',
    "dates of no calendar": lambda n: f'"2023-13-{1 + n % 28:02} 10:00:00"',
    "without end": lambda n: "1e999",
}
LENGTHS: Final = (-1, 1.5, '"1,5"', '"many"', "1e999", '""', '"1_000"', '"0x10"')


def configs() -> Iterator[tuple[str, dict[str, Any]]]:
    """What contradicts itself, and the config: each published one with one field that cannot be."""
    for name, entry in json.loads(CONFIGS.read_text(encoding="utf-8")).items():
        whole = entry["config"]
        inner = next((one for one in ("text_config", "llm_config") if one in whole), "")
        model = whole[inner] if inner else whole
        for field, values in FIELDS.items():
            for value in values if field in model else ():
                yield f"{name} {field} {value!a}", _with(whole, inner, {field: value})
        for changes in ANYWHERE:
            yield f"{name} {changes!a}", _with(whole, inner, changes)


def _with(whole: Mapping[str, Any], inner: str, changes: Mapping[str, Any]) -> dict[str, Any]:
    changed = {**whole, **changes}
    return changed | {inner: {**whole[inner], **changes}} if inner else changed


def logs() -> Iterator[tuple[str, str]]:
    """What is wrong, and the log of requests: as CSV and as JSON lines, short and long."""
    for row, head in ((_CSV, "time,prompt_tokens,output_tokens\n"), (_JSON, "")):
        for rows in (2, 60):
            sound = [row.format(time=n, prompt=9, output=9) for n in range(rows)]
            for why, time in TIMES.items():
                yield why, head + "".join(row.format(time=time(n), prompt=9, output=9) for n in range(rows))
            for length in LENGTHS:
                for field in ("prompt", "output"):
                    for place in (0, rows - 1):
                        wrong = row.format(**{"time": place, "prompt": 9, "output": 9, field: length})
                        yield f"{field} {length}", head + "".join([*sound[:place], wrong, *sound[place + 1 :]])
            yield "cut in its last line", head + "".join(sound)[:-5]
            yield "a line of another kind", head + "".join(sound) + "{[\n"
            for old, more in (
                ("time", "timestamp"),
                ("prompt_tokens", "input_tokens"),
                ("output_tokens", "completion_tokens"),
            ):
                if head:
                    yield (
                        f"two of {old}",
                        head.replace("\n", f",{more}\n") + "".join(one.replace("\n", ",5\n") for one in sound),
                    )
                else:
                    yield f"two of {old}", "".join(one.replace("}", f', "{more}": 5}}') for one in sound)


def answered(config: Mapping[str, Any]) -> tuple[str, ...] | None:
    """What an answer about a model says was assumed; None where it is refused."""
    import tonnage
    from tonnage.errors import TonnageError

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "config.json"
        path.write_text(json.dumps(config), encoding="utf-8")
        try:
            tonnage.fit(str(path), accelerator="B200", context="256")
            return tonnage.model(str(path)).assumed
        except TonnageError:
            return None


def read(text: str, *, name: str = "log") -> bool:
    """Whether a simulation takes a log."""
    import tonnage
    from tonnage.errors import TonnageError

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / name
        path.write_text(text, encoding="utf-8")
        try:
            tonnage.simulate(model="8B", accelerator="H100", traffic={"trace": str(path)})
            return True
        except TonnageError:
            return False


def contradictions(share: float) -> Outcome:
    """Each is refused, or its answer names what the sound one's does not."""
    every, findings = max(1, round(1 / share)), list[str]()
    usual = {name: answered(entry["config"]) for name, entry in json.loads(CONFIGS.read_text(encoding="utf-8")).items()}
    findings += [f"{name} itself is refused" for name, said in usual.items() if said is None]
    chosen, refused, named = list(configs())[::every], 0, 0
    for why, config in chosen:
        said = answered(config)
        refused, named = refused + (said is None), named + (said is not None and said != usual[why.split(" ")[0]])
        if said is not None and said == usual[why.split(" ")[0]]:
            findings.append(why)
    taken = [why for why, text in list(logs())[::every] if read(text)]
    count = len(chosen) + len(list(logs())[::every])
    told = f"{refused} configs refused, {named} named; {count - len(chosen) - len(taken)} logs refused"
    return Outcome(count, (*findings, *(f"a log: {why}" for why in taken)), told)


ROWS: Final = (
    Row(
        "what contradicts itself is refused or named",
        "published configs and logs, one thing wrong in each",
        contradictions,
    ),
)
