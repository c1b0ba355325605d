"""How long a person looks at an empty page: from sending each form's example to the first answer as HTML."""

from __future__ import annotations

import asyncio
import json
import time
from pathlib import Path
from typing import Any

from benchmarks.measuring import Row

__all__ = ["first_answers"]

TARGET_S = 2.0
FIVE = Path(__file__).parents[1] / "examples" / "fleet-of-five.yaml"


def first_answers() -> list[Row]:
    """The application asked in this process, so that what is counted is its work and no browser's."""
    return asyncio.run(_first_answers())


async def _first_answers() -> list[Row]:
    import httpx

    from tonnage.web.app import application
    from tonnage.web.questions import QUESTIONS

    transport = httpx.ASGITransport(app=application())
    rows = []
    async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1", timeout=600) as client:
        # The first question imports and reads the catalogue, once in a server's life: it has a line of its own, and
        # each later one is asked once, as a stranger asks it.
        first = await _seconds(client, "plan/serve", {"model": "13B", "rate": "1/s", "traffic": "chat"})
        rows.append(Row("page, first answer of all: Serve a model", first, "CPU s", TARGET_S))
        asked = [(question.title, path, question.example) for path, question in QUESTIONS.items()]
        asked.append(("Five workloads by the hour", "plan/fleet", _five()))
        for title, path, fields in asked:
            seconds = await _seconds(client, path, fields)
            rows.append(Row(f"page, first answer: {title}", seconds, "CPU s", TARGET_S))
    return rows


async def _seconds(client: Any, path: str, fields: dict[str, str]) -> float:
    """From sending the form to the page with an answer; what is worked out after that must not weigh on others."""
    start = time.process_time()
    reply = await client.get(f"/{path}", params=fields, headers={"accept": "text/html"})
    seconds = time.process_time() - start
    assert reply.status_code == 200 and 'class="sentence"' in reply.text, path
    if "data-waits" in reply.text:
        await client.get(f"/progress/{path}", params=fields)
    return seconds


def _five() -> dict[str, str]:
    """The example of five workloads, as its form sends it."""
    import yaml

    request = yaml.safe_load(FIVE.read_text(encoding="utf-8"))
    del request["plan"]
    return {name: value if isinstance(value, str) else json.dumps(value) for name, value in request.items()} | {
        "term": ",".join(request["term"])
    }


if __name__ == "__main__":
    for row in first_answers():
        print(f"{row.name:<55} {row.value:6.2f} {row.unit}  <= {row.target:g}  {'met' if row.met else 'MISSED'}")
