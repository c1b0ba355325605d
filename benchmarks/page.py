"""How long a person looks at an empty page: from sending each form's example to the first answer as HTML."""

from __future__ import annotations

import asyncio
import time

from benchmarks.measuring import Row

__all__ = ["first_answers"]

TARGET_S = 2.0


def first_answers() -> list[Row]:
    """The application asked in this process, so that what is counted is its work and no browser's."""
    return asyncio.run(_first_answers())


async def _first_answers() -> list[Row]:
    import httpx

    from tonnage.web.app import application
    from tonnage.web.questions import QUESTIONS

    rows = []
    for path, question in QUESTIONS.items():
        seconds = []
        for _ in range(2):  # the first imports and reads the catalogue, once in a server's life
            transport = httpx.ASGITransport(app=application())
            async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1", timeout=600) as client:
                start = time.process_time()
                reply = await client.get(f"/{path}", params=question.example, headers={"accept": "text/html"})
                seconds.append(time.process_time() - start)
                assert reply.status_code == 200 and 'class="sentence"' in reply.text, path
                if question.at_first:  # the simulated answer is still being worked out; it must not weigh on the next
                    await client.get(f"/progress/{path}", params=question.example)
        rows.append(Row(f"page, first answer: {question.title}", min(seconds), "CPU s", TARGET_S))
    return rows


if __name__ == "__main__":
    for row in first_answers():
        print(f"{row.name:<55} {row.value:6.2f} {row.unit}  <= {row.target:g}  {'met' if row.met else 'MISSED'}")
