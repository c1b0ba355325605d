"""Names that hide or move what a screen shows, at every command: none of them reaches an output or a written file."""

from __future__ import annotations

import json
import sqlite3
import tempfile
import unicodedata
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any, Final, NamedTuple

from tools.attack.bodies import CONFIG
from tools.attack.rows import Outcome, Row

DATA: Final = Path(__file__).parents[2] / "tests" / "data" / "measure"
MODEL: Final = "meta-llama/Llama-3.1-8B-Instruct"
NAME: Final = "{NAME}"
HIDDEN: Final = (
    *"\x01\a\b\v\f\r\n\t\x0e\x1b\x1f\x7f\x80\x85\x90\x9b\x9c\x9d\xad\u061c\u115f\u1160\u17b4\u180e\u200b\u200c\u200d\u200e\u200f",
    *"\u2028\u2029\u202a\u202b\u202c\u202d\u202e\u2060\u2064\u2066\u2067\u2068\u2069\u206f\u3164\ud800\udfff\ufeff\uffa0\ufff9\ufffb",
    "\x1b[2J", "\x1b]0;x\a", "\u202egnp.exe", "\U000e0041", "\U0001d173",
)  # fmt: skip
NAMES: Final = tuple(f"acme/a{hidden}b" for hidden in HIDDEN)
TEXTLESS: Final = "\u115f\u1160\u17b4\u17b5\u3164\uffa0"
"""Letters by their category, and nothing to see."""


class Door(NamedTuple):
    """A command, and the files that it reads; `NAME` stands for the name in both."""

    command: tuple[str, ...]
    files: dict[str, str] = {}
    """Text by name, in a folder of its own; in JSON, names are escaped."""


@cache
def doors() -> tuple[Door, ...]:
    """Every command, the name as each kind of argument and in each kind of file."""
    return (*_ARGUMENTS, *_files())


_RATE: Final = ("--rate", "1/s", "--traffic", "chat", "--quick")
_ARGUMENTS: Final = tuple(
    Door(tuple(words))
    for words in (
        [NAME], ["fit", NAME, "--accelerator", "H100"], ["fit", "8B", "--accelerator", NAME],
        ["fit", "8B", f"--{NAME}"],
        ["fit", "8B", "--accelerator", "H100", "--set", f"{NAME}.memory=80GB"], ["fit", "8B", "--additions", NAME],
        ["local", "--accelerator", NAME], ["local", "--model", NAME, "--accelerator", "RTX 4090"],
        ["local", "--from", NAME], ["plan", NAME], ["plan", "serve", NAME, *_RATE],
        ["plan", "serve", "8B", *_RATE, "--provider", NAME], ["plan", "serve", "8B", *_RATE, "--quotes", NAME],
        ["plan", "train", NAME, "--tokens", "1B"], ["plan", "finetune", "8B", "--framework", NAME],
        ["plan", "batch", "8B", "--items", NAME], ["plan", "infer", NAME, "--rate", "1/s"], ["plan", "rl", NAME],
        ["plan", "lifecycle", NAME], ["plan", "own", "--machine", NAME], ["plan", "budget", NAME],
        ["plan", "fleet", NAME], ["cost", "rent-or-buy", NAME], ["cost", "rent-or-buy", "H100", "--country", NAME],
        ["predict", NAME], ["predict", "--set", NAME], ["simulate", NAME], ["compare", NAME, NAME], ["sweep", NAME],
        ["explain", NAME], ["explain", "plan.json", "--option", NAME], ["export", NAME, "--to", "vllm"],
        ["export", "plan.json", "--to", NAME], ["advise", NAME, NAME], ["adopt", NAME], ["adopt", NAME, "-a", "H100"],
        ["check", NAME, "--baseline", NAME], ["verify", NAME], ["accuracy", NAME], ["accuracy", "--block", NAME],
        ["measure", "import", NAME], ["measure", "capacity", NAME], ["measure", NAME], ["diagnose", NAME],
        ["measure", "serve", NAME, "--model", NAME], ["history", "show", NAME], ["history", "--db", NAME, "list"],
        ["calibrate", NAME, "--accelerator", "H100", "--engine", "vllm"], ["calibrate", "--point", NAME],
        ["trace", NAME], ["trace", f"{NAME}:f"], ["fields", NAME], ["data", "diff", NAME], ["data", "pin", NAME],
        ["data", "update", "--from", NAME], ["data", "verify", NAME], ["catalog", "models", NAME],
        ["catalog", "accelerators", NAME], ["catalog", "offers", "--provider", NAME], ["catalog", "traces", NAME],
        ["catalog", "prices", NAME], ["catalog", "refresh", NAME], ["catalog", NAME], ["web", "--host", NAME],
    )
)  # fmt: skip


def _files() -> Iterator[Door]:
    ask = {"plan": "serve", "model": MODEL, "rate": "1/s", "traffic": "chat", "accelerator": "H100", "quick": True}
    case = {"kind": "serve", "model": "8B", "accelerator": "H100", "isl": 9, "osl": 9, "traffic": {"batch": 1}}
    played = {"model": MODEL, "accelerator": "H100", "traffic": {"profile": "chat", "rate": "1/s", "requests": 9}}
    fit = ("fit", "config.json", "--accelerator", "H100")
    for field in ("_name_or_path", "model_type", "torch_dtype", "architectures", NAME):
        yield Door(fit, {"config.json": _json({**CONFIG, field: NAME})})
    for field in (*ask, NAME):
        yield Door(("plan", "ask.json"), {"ask.json": _json({**ask, field: NAME})})
    yield Door(("plan", "ask.yaml"), {"ask.yaml": _json({**ask, "plan": NAME}).replace(",", "\n").strip("{}")})
    for field in (*case, "engine", "id", NAME):
        text = _json({**case, field: NAME})
        yield Door(("predict", "cases.jsonl"), {"cases.jsonl": text})
        yield Door(("explain", "cases.jsonl"), {"cases.jsonl": text})
    for field in ("model", "accelerator", "engine", NAME):
        text = _json({**played, field: NAME})
        yield Door(("simulate", "case.json"), {"case.json": text})
        yield Door(("compare", "case.json"), {"case.json": _json({**played, "ways": {NAME: {field: NAME}}})})
    swept = {"sweep": "fit", "base": {"model": "8B"}, "grid": {"accelerator": ["H100", NAME]}}
    yield Door(("sweep", "sweep.json"), {"sweep.json": _json(swept)})
    yield Door(("sweep", "sweep.json"), {"sweep.json": _json({**swept, "take": {NAME: "model"}})})
    made = _plan()
    for old in ("Llama-3.1-8B-Instruct", '"aws"', '"H100', "vllm", '"chat"'):
        text = made.replace(old, f'"{NAME}"' if old.startswith('"') and old.endswith('"') else NAME)
        for words in (["explain", "plan.json"], ["export", "plan.json", "--to", "slurm"], ["verify", "plan.json"],
                      ["export", "plan.json", "--to", "kubernetes", "-o", "out"], ["compare", "plan.json", "plan.json"],
                      ["check", "ask.json", "--baseline", "plan.json"]):  # fmt: skip
            yield Door(tuple(words), {"plan.json": text, "ask.json": _json(ask)})
    page = (DATA / "vllm_0.32.0_cpu_metrics.prom").read_text(encoding="utf-8")
    serves = f"vllm serve {MODEL} --served-model-name {NAME}"
    for text in (page.replace('"tiny"', f'"{NAME}"'), page.replace("vllm:", NAME), NAME + page):
        yield Door(("diagnose", "page.prom"), {"page.prom": text})
        yield Door(("advise", "run.sh", "page.prom", "-a", "H100"), {"page.prom": text, "run.sh": serves})
    for file in ("vllm_bench_0.32.0.json", "guidellm_0.8.1.json", "aiperf_0.13.0.json"):
        report = (DATA / file).read_text(encoding="utf-8").replace("tiny", NAME)
        for words in (["measure", "import", "r.json"], ["diagnose", "r.json"], ["measure", "capacity", "r.json"],
                      ["calibrate", "r.json", "--accelerator", "H100", "--engine", "vllm"]):  # fmt: skip
            yield Door(tuple(words), {"r.json": report})
    for text in (serves, f"docker run -e X={NAME} {NAME} {serves}", f"#SBATCH --job-name={NAME}\n{serves}"):
        yield Door(("adopt", "run.sh", "-a", "H100"), {"run.sh": text})
    service = {"image": "vllm/vllm-openai:v0.27.0", "command": ["--model", NAME], "environment": {NAME: NAME}}
    yield Door(("adopt", "compose.json", "-a", "H100"), {"compose.json": _json({"services": {NAME: service}})})
    rows = "time,prompt_tokens,output_tokens,session\n" + "".join(f"{n},9,9,{NAME}\n" for n in range(9))
    yield Door(("trace", "log.csv"), {"log.csv": rows})
    yield Door(("trace", "log.csv"), {"log.csv": rows.replace("session", NAME)})
    own = f'[[offers]]\nprovider = "{NAME}"\nsource = "{NAME}"\naccelerator = "H100"\non_demand = "$2/h"\n'
    own += 'as_of = "2026-11-01"\n'
    for words in (["catalog", "offers"], ["plan", "serve", "8B", *_RATE]):
        yield Door((*words, "--additions", "own.toml"), {"own.toml": own})
    yield Door(("measure", "import", "log.txt"), {"log.txt": f"SUT name : {NAME}\nScenario : Server\n"})
    yield Door(("accuracy", "rows.csv"), {"rows.csv": f"id,model,engine\n{NAME},{NAME},{NAME}\n"})


@cache
def _plan() -> str:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "plan.json"
        _said("plan", "serve", MODEL, *_RATE, "--accelerator", "H100", "--provider", "aws", "-o", str(path))
        return path.read_text(encoding="utf-8")


def _json(value: Any) -> str:
    return json.dumps(value)


def hidden_in(text: str) -> list[str]:
    """Characters of a text that move the cursor or the direction of writing, or that nobody sees."""
    return sorted({
        f"U+{ord(one):04X}" for one in set(text) - set("\n\t")
        if unicodedata.category(one) in ("Cc", "Cf", "Zl", "Zp", "Cs") or one in TEXTLESS
    })  # fmt: skip


def shown(door: Door, name: str) -> str:
    """All that a command says and writes of a name; or what went wrong."""
    with tempfile.TemporaryDirectory(prefix="tonnage-") as place:
        folder = Path(place)
        for file, text in door.files.items():
            said = json.dumps(name)[1:-1] if file.endswith("json") or file.endswith(("jsonl", "toml")) else name
            (folder / file).write_bytes(text.replace(NAME, said).encode("utf-8", "surrogatepass"))
        (folder / "plan.json").touch()
        known = {*door.files, "plan.json"}
        command = [
            str(folder / word) if word in known or word == "out" else word.replace(NAME, name) for word in door.command
        ]
        told = _said(*command)
        written = [path for path in folder.rglob("*") if path.is_file() and path.name not in known]
        return told + "".join(_text(path) for path in written)


def _text(path: Path) -> str:
    """What a file says: of a store, its rows as SQL."""
    if path.read_bytes().startswith(b"SQLite format 3"):
        return "\n".join(sqlite3.connect(path).iterdump())
    return path.read_text(encoding="utf-8", errors="replace")


def _said(*command: str) -> str:
    from click.testing import CliRunner

    from tonnage.cli import root

    done = CliRunner().invoke(root, command, input="", prog_name="tonnage")
    if done.exception is not None and not isinstance(done.exception, SystemExit):
        raise done.exception
    return done.stdout + done.stderr


def hidden_names(share: float) -> Outcome:
    """Each name at each door."""
    every, findings, count = max(1, round(1 / share)), list[str](), 0
    for number, (door, name) in enumerate((door, name) for door in doors() for name in NAMES):
        if number % every:
            continue
        count += 1
        what = f"{' '.join(door.command)} {[*door.files]} {name!a}"
        try:
            found = hidden_in(shown(door, name))
        except Exception as wrong:
            findings.append(f"{what}: {type(wrong).__name__} {wrong}"[:300])
            continue
        if found:
            findings.append(f"{what}: shows {', '.join(found)}")
    return Outcome(count, tuple(findings), f"{len(NAMES)} names, {len(doors())} doors")


ROWS: Final = (
    Row("no output holds a control or direction character", "hostile names as arguments and in files", hidden_names),
)
