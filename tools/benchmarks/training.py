"""How fast are training layouts searched? One job on one accelerator and count, every legal arrangement."""

from __future__ import annotations

import time

from tools.benchmarks.measuring import Row


def layouts() -> list[Row]:
    """Searches of a large and a middling job, from a cold start of the search."""
    return [
        Row(
            "layout search, 405B on 16,384 H100",
            _searched("meta-llama/Llama-3.1-405B", 16384, batch=2048),
            "CPU s",
            5.0,
        ),
        Row("layout search, 70B on 64 H100", _searched("meta-llama/Llama-3.1-70B", 64, batch=512), "CPU s", 0.5),
    ]


def _searched(name: str, count: int, *, batch: int) -> float:
    from tonnage import catalog
    from tonnage.domain.case import TrainCase
    from tonnage.questions.train.job import Job
    from tonnage.questions.train.search import Place, fastest_arrangements

    job = Job(
        kind="train",
        case=TrainCase(model=name, accelerator=""),
        sequences=1e6,
        seq_len=8192,
        global_batch=batch,
    )
    place = Place(accelerator=catalog.accelerator("h100-sxm5-80gb"), count=count, per_node=8, inter_bytes_per_s=50e9)
    model = catalog.model(name)
    start = time.process_time()  # once, as a user's first search is: nothing is kept from an earlier one
    found = fastest_arrangements(model, place, job=job)
    spent = time.process_time() - start
    assert found.best, f"{name} fits on {count}"
    return spent
