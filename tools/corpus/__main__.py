"""`python -m tools.corpus` asks every question and lists what differs from the kept answers; ends with 1 if any does.

`--write` keeps the new answers; `--match TEXT` asks those with a text in them. Words of a question for people are kept
in `tests/golden/corpus`.
"""

from __future__ import annotations

import argparse
import importlib.metadata
import json
import lzma
import sys
import time
from collections import defaultdict
from pathlib import Path
from typing import Any, Final

from tools.corpus.asking import CRASHED, HERE, ROOT, Answer, Question, ask, questions, workplace
from tools.corpus.layers import Layers, differences, layers_of

KEPT: Final = HERE / "kept.jsonl.xz"
TEXTS: Final = ROOT / "tests/golden/corpus"
PINNED: Final = ("numpy", "numba")
SHOWN: Final = 40


def kept_answers() -> dict[str, Layers]:
    """The layers of each question as they are kept, by its line."""
    if not KEPT.exists():
        return {}
    lines = lzma.decompress(KEPT.read_bytes()).decode().splitlines()
    return {row["question"]: row for row in map(json.loads, lines)}


def text_path(question: Question) -> Path:
    """Where the text of a question for people is kept."""
    name = "".join(letter if letter.isalnum() or letter in ".-" else "_" for letter in question.line)
    return TEXTS / f"{name[:200]}.txt"


def text_of(answer: Answer) -> str:
    """What somebody would read."""
    return f"{answer.out}{answer.error}"


def compare(question: Question, answer: Answer, kept: Layers | None) -> list[tuple[str, str, str]]:
    """What differs from the kept answer."""
    if kept is None:
        return [("decisions", "question", "absent -> asked")]
    found = differences(kept, layers_of(answer))
    path = text_path(question)
    if question.shown and (not path.exists() or path.read_text(encoding="utf-8") != text_of(answer)):
        found.append(("text", path.name, "differs: --write, then git diff"))
    return found


def _environment() -> str:
    """What answers may depend on beside the checkout."""
    versions = " ".join(f"{name} {importlib.metadata.version(name)}" for name in PINNED)
    return f"Python {sys.version_info[0]}.{sys.version_info[1]} {versions}"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--write", action="store_true")
    parser.add_argument("--match", default="")
    asked = parser.parse_args()
    kept, causes = kept_answers(), defaultdict(list)
    rows: dict[str, Layers] = {}
    every = [q for q in questions() if asked.match in q.line]
    with workplace():
        for question in every:
            answer = ask(question)
            if answer.code == CRASHED:
                print(f"tonnage {question.line}\n{answer.error}", flush=True)
                causes["decisions", "crash"].append((question.line, answer.error.strip().rpartition("\n")[2]))
                continue
            rows[question.line] = {"question": question.line, **layers_of(answer)}
            for layer, cause, values in compare(question, answer, kept.get(question.line)):
                causes[layer, cause].append((question.line, values))
            if asked.write and question.shown:
                TEXTS.mkdir(parents=True, exist_ok=True)
                text_path(question).write_text(text_of(answer), encoding="utf-8")
    _report(causes)
    differ = sorted({line for found in causes.values() for line, _ in found})
    print("".join(f"differs: tonnage {line}\n" for line in differ), end="")
    print(f"{len(every)} questions in {time.process_time():.0f} CPU s, {len(differ)} differ ({_environment()})")
    if asked.write:
        _write(kept | rows)
    return 1 if causes and not asked.write else 0


def _report(causes: dict[tuple[str, str], list[tuple[str, str]]]) -> None:
    """Causes, those of most questions first, each with an example."""
    for (layer, cause), found in sorted(causes.items(), key=lambda item: (item[0][0], -len(item[1])))[:SHOWN]:
        line, values = found[0]
        print(f"{layer}: {cause}: {len({line for line, _ in found})} questions; {values}  (tonnage {line})")
    if len(causes) > SHOWN:
        print(f"and {len(causes) - SHOWN} further causes")


def _write(rows: dict[str, Any]) -> None:
    known = [rows[q.line] for q in questions() if q.line in rows]
    text = "".join(json.dumps(row, separators=(",", ":")) + "\n" for row in known)
    KEPT.write_bytes(lzma.compress(text.encode(), preset=9))
    texts = {text_path(q) for q in questions() if q.shown}
    for path in set(TEXTS.iterdir()) - texts:
        path.unlink()


if __name__ == "__main__":
    sys.exit(main())
