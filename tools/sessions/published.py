"""
Published hit rates and savings of prefix caches beside ours.

    python -m tools.sessions.published [FOLDER_OF_TRACES]            prints the table of docs/prefix-caches.md
    python -m tools.sessions.published FOLDER_OF_TRACES --write      rewrites it there

Rows of Mooncake's two traces need the folder. Nothing is fitted on these rows, except where a row says so. GPUStack's
runs are played as its page describes them (`benchmark_serving_multi_turn.py` of vLLM): 6 to 9 requests a conversation,
500 shared tokens, a document, 120 to 160 tokens a message, ten conversations at a time. Its runs on 20K print neither
their documents nor their clients: documents make prompts of 20,000 tokens, and two clients follow from the page's own
figures (requests a second times latency is 1.8).
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Final, NamedTuple

from msgspec.structs import replace

from tonnage.catalog.traces import find_trace, read_trace
from tonnage.catalog.traffic import session_profiles
from tonnage.core.deployment import Deployment, resolve
from tonnage.core.replica import replica_of
from tonnage.core.serving_traffic import open_load
from tonnage.core.session_reuse import reused_at
from tonnage.domain.case import ServeCase, ServeResult, Traffic
from tonnage.domain.requests.common import Lengths
from tonnage.domain.requests.groups import SessionFields
from tonnage.domain.requests.serve import Serve
from tonnage.domain.sessions import SessionClass, SessionProfile
from tonnage.questions.predict.predict import predict
from tonnage.questions.sessions.logs import hits_over_size
from tonnage.simulation.session_steady import steady_turns
from tonnage_accuracy.tables import read_table

ROOT = Path(__file__).parents[2]
ROWS: Final = ROOT / "measurements" / "published_reuse.csv"
PAGE: Final = ROOT / "docs" / "prefix-caches.md"
BEGIN: Final = "<!-- published hits and savings: begin -->"
END: Final = "<!-- published hits and savings: end -->"
CONVERSATIONS: Final = 10.0
HOST_BYTES: Final = 50e9
"""LMCache's `max_local_cpu_size` in those runs, of one accelerator. [bytes]"""
ROUNDS, CLOSE = 40, 0.002


class Run(NamedTuple):
    """A closed loop of conversations on one accelerator."""

    document: float
    """Tokens that a conversation begins with. [tokens]"""
    answer: float
    """[tokens]"""
    clients: float


class Served(NamedTuple):
    """What such a run gives."""

    prompt_tokens_per_s: float
    ttft_s: float


RUNS: Final = {
    "lmcache-5k": Run(4000.0, 100.0, 10.0),
    "lmcache-20k": Run(18_570.0, 100.0, 2.0),
    "lmcache-20k-1": Run(18_900.0, 1.0, 2.0),
}


def conversations(run: Run, *, gap_s: float) -> SessionProfile:
    """6 to 9 requests, equally often; messages of 120 to 160 tokens and answers within a fifth of their mean."""
    spread = 0.2 if run.answer > 1.0 else 0.0
    one = SessionClass(
        go_on=(1.0, 1.0, 1.0, 1.0, 1.0, 3 / 4, 2 / 3, 1 / 2, 0.0),
        gap_s=((1.0, gap_s),),
        first_tokens=((0.0, run.document + 120.0), (1.0, run.document + 160.0)),
        growth_tokens=((0.0, 120.0), (1.0, 160.0)),
        output_tokens=((0.0, run.answer * (1.0 - spread)), (1.0, run.answer * (1.0 + spread))),
    )
    return SessionProfile(name="multi-turn", what="", source="GPUStack", classes=(one,), shared=((500.0, 1.0),))


@cache
def closed_loop(run: Run, *, host_bytes: float | None) -> Served:
    """The loop's own balance: a conversation comes back as soon as its clients have been through all others."""
    gap_s = CONVERSATIONS
    for _ in range(ROUNDS):
        turns = steady_turns(conversations(run, gap_s=gap_s))
        prompt = float(turns.prompt.mean())
        at = resolve(
            ServeCase(
                model="Qwen/Qwen3-8B", accelerator="rtx-4090", engine_version="0.10.1", isl=prompt, osl=run.answer,
                traffic=Traffic(concurrency=int(run.clients)),
            )
        )  # fmt: skip
        lengths = Lengths(prompt_tokens=prompt, output_tokens=run.answer)
        plain = replica_of(at, lengths)
        assert plain.times is not None
        of_node = host_bytes * (at.placement.accelerator.max_per_node or 8) if host_bytes else None
        rate = CONVERSATIONS / gap_s
        request = Serve(model="", lengths=lengths, rate_per_s=rate, sessions=SessionFields(kv_host_bytes=of_node))
        token_s = plain.times.prefill_s / prompt
        found, _ = reused_at(request, plain, turns=turns, rate_per_s=rate, token_s=token_s)
        point = open_load(_with_hits(at, 1.0 - found.computed_tokens / prompt), in_flight=True).at(run.clients)
        if abs(CONVERSATIONS / point.rate_per_s / gap_s - 1.0) < CLOSE:
            break
        gap_s = (gap_s * CONVERSATIONS / point.rate_per_s) ** 0.5
    # Of a closed loop Little's law knows the latency, waiting for memory included.
    latency_s = run.clients / point.rate_per_s
    return Served(point.rate_per_s * prompt, latency_s - (run.answer - 1.0) * point.tpot_mean_s)


def _with_hits(at: Deployment, hits: float) -> Deployment:
    return replace(at, case=replace(at.case, sessions=SessionFields(prefix_hits=max(0.0, hits))))


def change(before: float, after: float) -> str:
    """In percent of the first."""
    return f"{100.0 * (after / before - 1.0):+.0f} %"


def of_run(name: str, quantity: str) -> str:
    """One figure of a run with and without host memory."""
    without = closed_loop(RUNS[name], host_bytes=None)
    if quantity == "cold":
        return f"{without.prompt_tokens_per_s:,.0f}"
    held = closed_loop(RUNS[name], host_bytes=HOST_BYTES)
    return change(*((one.prompt_tokens_per_s if quantity == "rate" else one.ttft_s) for one in (without, held)))


def of_trace(folder: Path, name: str) -> str:
    """Blocks as the paper counts them, and tokens as we do."""
    trace = read_trace(find_trace(str(folder / f"mooncake_fast25_{name}.jsonl.gz")))
    different = len(set(trace.blocks))
    tokens = hits_over_size(trace, (different + 1,), since=0)[0]
    return f"{1.0 - different / len(trace.blocks):.1%} of blocks, {tokens:.1%} of tokens"


def of_profile(name: str) -> str:
    """What the sessions of a profile allow, with room for everything."""
    turns = steady_turns(session_profiles()[name])
    return f"{float(turns.kept.sum() / turns.prompt.sum()):.0%}"


def of_example() -> str:
    """First tokens of the case that the page shows, without its sessions and with them."""
    fields = SessionFields(profile="coding-agent", kv_host_bytes=1e12)
    case = ServeCase(
        model="llama-3.1-8b", accelerator="h100-sxm5-80gb", isl=23_700, osl=400, traffic=Traffic(rate_per_s=0.5)
    )
    found = [predict(one) for one in (case, replace(case, sessions=fields))]
    full, kept = (one.ttft_s.mean for one in found if isinstance(one, ServeResult) and one.ttft_s is not None)
    return f"{full / kept:.1f} times less TTFT ({full:.2f} to {kept:.2f} s) in the `predict` case of that page"


OURS: Final[dict[str, Callable[[], str]]] = {
    "mooncake-toolagent": lambda: f"{of_profile('agent')}: the profile `agent` is set by it",
    "hicache-novita-hits": lambda: (
        f"`coding-agent` allows {of_profile('coding-agent')}; what is found depends on a load that is not published"
    ),
    "hicache-novita-rate": lambda: "less than +200 %: by its own hits 60 % of the prompts become 20 %, answers stay",
    "hicache-novita-ttft": lambda: "at most -67 %, by the same tokens",
    "lmcache-readme": of_example,
    **{
        f"{name}-{quantity}": lambda name=name, quantity=quantity: of_run(name, quantity)  # type: ignore[misc]
        for name in RUNS
        for quantity in ("rate", "cold", "ttft")
    },
}
"""Ours by row, but for those of a trace."""


def table(folder: Path | None) -> str:
    """The rows as Markdown."""
    lines = ["| published | of | | ours |", "|---|---|---|---|"]
    source = ""
    for row in rows():
        told = "as above" if row["source"] == source else f"{row['source']} (read {row['read']})"
        source = row["source"]
        figure = f"{row['quantity']}: {row['published']}" + (f" {row['unit']}" if row["unit"] else "")
        lines.append(f"| {told} | {row['case']} | {figure} | {ours(row['id'], folder)} |")
    return "\n".join(lines)


def rows() -> list[dict[str, str]]:
    return list(read_table(ROWS))


def ours(row: str, folder: Path | None) -> str:
    """Our figure beside a row."""
    if row in OURS:
        return OURS[row]()
    return of_trace(folder, row.removeprefix("mooncake-")) if folder else "needs the folder of traces"


def main(arguments: list[str]) -> int:
    folder = next((Path(one) for one in arguments if not one.startswith("-")), None)
    found = table(folder)
    if "--write" in arguments:
        if folder is None:
            sys.exit("tools.sessions.published: --write needs the folder of traces, for rows of Mooncake's")
        text = PAGE.read_text(encoding="utf-8")
        block = f"{BEGIN}\n{found}\n{END}"
        PAGE.write_text(re.sub(f"{BEGIN}.*{END}", lambda _: block, text, flags=re.S), encoding="utf-8")
    else:
        print(found)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
