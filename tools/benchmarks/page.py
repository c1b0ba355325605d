"""How long a person looks at an empty page: from sending each form's example to the first answer as HTML."""

from __future__ import annotations

import json
import re
import time
from pathlib import Path

from tools.benchmarks.measuring import Row

TARGET_S = 2.0
FIVE = Path(__file__).parents[2] / "examples" / "fleet-of-five.yaml"


def first_answers() -> list[Row]:
    """What the workers of the page do, done in this process, so that what is counted is their work and no browser's."""
    from tonnage.web.questions import QUESTIONS

    # The first question imports and reads the catalogue, once in a server's life: it has a line of its own, and
    # each later one is asked once, as a stranger asks it.
    first = answer_s("plan/serve", {"model": "13B", "rate": "1/s", "traffic": "chat"})
    rows = [Row("page, first answer of all: Serve a model", first, "CPU s", TARGET_S)]
    asked = [(question.title, path, question.example) for path, question in QUESTIONS.items()]
    asked.append(("Five workloads by the hour", "plan/fleet", _five()))
    for title, path, fields in asked:
        rows.append(Row(f"page, first answer: {title}", answer_s(path, fields), "CPU s", TARGET_S))
    return rows


def answer_s(path: str, fields: dict[str, str]) -> float:
    """
    From a form's fields to the page with an answer. [CPU s]

    Raises
    ------
    AssertionError
        The page holds no answer, or one that it cannot be done.
    """
    from tonnage.catalog import NOTHING
    from tonnage.web.questions import QUESTIONS, at_first, nest_form_names
    from tonnage.web.records import Settings
    from tonnage.web.tasks import TASKS

    settings, start = Settings(additions=NOTHING), time.process_time()
    request = at_first(QUESTIONS[path], fields) or nest_form_names(fields)
    kept = TASKS["ask"](settings, path=path, request=request)
    page = TASKS["page"](settings, path=path, given=fields, kept=("key", kept), waits=False, note="")
    seconds = time.process_time() - start
    assert re.search('class="card answer( estimate)?"', page), path
    return seconds


def _five() -> dict[str, str]:
    """The example of five workloads, as its form sends it."""
    import yaml

    request = yaml.safe_load(FIVE.read_text(encoding="utf-8"))
    del request["plan"]
    return {name: value if isinstance(value, str) else json.dumps(value) for name, value in request.items()} | {
        "term": ",".join(request["term"])
    }
