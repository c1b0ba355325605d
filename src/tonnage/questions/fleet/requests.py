"""The requests of a workload of a fleet: drawn once, cut into buckets of like lengths, dealt out to replicas."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np

from tonnage.domain.requests.common import Lengths
from tonnage.domain.requests.serve import Serve
from tonnage.questions.fleet.answer import Bucket, FleetWorkload
from tonnage.simulation.simulated import Requests

SEED = 20261121


def cut(serve: Serve, number: int) -> tuple[Bucket, ...]:
    """Buckets of a traffic profile that hold equal shares of its tokens, short requests first."""
    from tonnage.questions.serve.capacity_search import draw_requests

    requests = draw_requests(serve)
    whole = requests.prompt + requests.output
    ranked = np.sort(whole)
    passed = np.cumsum(ranked) / ranked.sum()
    inner = [float(ranked[np.searchsorted(passed, (i + 1) / number)]) for i in range(number - 1)]
    edges = [0.0, *sorted(set(inner)), float(whole.max()) + 1.0]
    found = []
    for low, high in itertools.pairwise(edges):
        mine = (whole >= low) & (whole < high)
        if not mine.any():
            continue
        prompt, output = requests.prompt[mine], requests.output[mine]
        found.append(
            Bucket(
                share=float(mine.mean()),
                lengths=Lengths(
                    prompt_tokens=float(prompt.mean()),
                    output_tokens=float(output.mean()),
                    prompt_p95=float(np.percentile(prompt, 95)),
                    output_p95=float(np.percentile(output, 95)),
                    profile=serve.lengths.profile,
                ),
                edges=(low, high),
            )
        )
    return tuple(found)


def draw_for_workload(workload: FleetWorkload) -> tuple[Requests, Any]:
    """The workload's requests at a nominal rate, and the bucket each belongs to."""
    from tonnage.questions.serve.capacity_search import draw_requests

    assert workload.serve is not None
    requests = draw_requests(workload.serve)
    n, buckets = len(requests.prompt), workload.buckets
    if len(buckets) == 1:
        return requests, np.zeros(n, np.int64)
    if buckets[0].edges is not None:
        inner = [bucket.edges[0] for bucket in buckets[1:] if bucket.edges is not None]
        return requests, np.searchsorted(np.array(inner), requests.prompt + requests.output, side="right")
    rng = np.random.Generator(np.random.PCG64(SEED))
    which = rng.choice(len(buckets), size=n, p=[bucket.share for bucket in buckets])
    return _with_lengths(requests, buckets, which), which


def _with_lengths(requests: Requests, buckets: tuple[Bucket, ...], which: Any) -> Requests:
    prompt = np.array([round(bucket.lengths.prompt_tokens) for bucket in buckets], np.int64)
    output = np.array([round(bucket.lengths.output_tokens) for bucket in buckets], np.int64)
    return requests._replace(prompt=prompt[which], output=output[which])


def of_bucket(requests: Requests, which: np.ndarray[Any, Any], *, bucket: int) -> Requests:
    """As many requests as there were, all with lengths of one bucket."""
    mine = np.flatnonzero(which == bucket)
    if len(mine) == len(which):
        return requests
    rows = mine[np.arange(len(which)) % len(mine)]
    return requests._replace(prompt=requests.prompt[rows], output=requests.output[rows])
