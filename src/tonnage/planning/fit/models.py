"""Which models does an accelerator hold?

Those that people can download, ranked by a published score where the catalogue has one and by size behind them; and the
size of the largest dense decoder, found by bisection over bare sizes ("13B"). The first is answered in full.
"""

from __future__ import annotations

from typing import Final

import msgspec

from tonnage import catalog
from tonnage.catalog import NOTHING, Additions
from tonnage.catalog.downloads import BENCHMARK, downloads, published_score
from tonnage.domain.accelerator import Accelerator
from tonnage.domain.fit import FitAnswer, FitRequest, Largest
from tonnage.domain.layout import Layout
from tonnage.domain.model import Model
from tonnage.errors import BadRequest
from tonnage.optimize.largest import largest_whole
from tonnage.optimize.layouts import legal
from tonnage.physics.parameters import parameters
from tonnage.planning.fit.model import fit_model
from tonnage.planning.fit.serving import CONTEXT, holds_it
from tonnage.planning.fit.training import smallest_training

__all__ = ["largest_model"]

LANGUAGE: Final = ("llm", "llm-moe", "hybrid", "hybrid-moe", "ssm", "vlm")
MOST_BILLIONS: Final = 4000
SHOWN: Final = 8
"""Models that are named in the answer."""


def largest_model(request: FitRequest, *, additions: Additions = NOTHING) -> FitAnswer:
    """Downloadable models that fit, best first; the first answered in full, the largest bare size beside it."""
    if len(request.accelerators) != 1:
        raise BadRequest("--solve model needs exactly one --accelerator to fill")
    named = catalog.predictable(request.accelerators[0], additions)
    known = _known(additions)
    found = [model for model in known if _holds(model, named, request)]
    if not found:
        raise BadRequest(
            f"no language model of the catalogue fits {named.name}; ask about one with `tonnage fit MODEL`"
        )
    billions = largest_whole(lambda n: _holds(_bare(n, additions), named, request), most=MOST_BILLIONS)
    best = found[0]
    answer = fit_model(best, msgspec.structs.replace(request, model=best.id, solve=None), additions=additions)
    sizes = [_size(model, given=_score(model)) for model in found[:SHOWN]]
    sizes.append(
        Largest(
            what="model", value=billions * 1e9, unit="parameters", binds="memory", name=f"{billions}B dense decoder"
        )
    )
    rows = tuple(msgspec.structs.replace(row, largest=(*sizes, *row.largest)) for row in answer.rows)
    return msgspec.structs.replace(
        answer, sentence=_sentence(found, known=len(known), named=named, billions=billions), rows=rows, request=request
    )


def _known(additions: Additions) -> list[Model]:
    """Downloadable models and the user's own, best first; all of the catalogue stand in for none."""
    every = catalog.models(additions)
    shipped = catalog.models()
    own = [model for id, model in every.items() if id not in shipped]
    wanted = [*(every[download.model] for download in downloads()), *own]
    fitting = [model for model in wanted if model.kind in LANGUAGE and model.layers]
    return sorted(fitting, key=_rank)


def _rank(model: Model) -> tuple[bool, float, float]:
    score = published_score(model.id)
    return score is None, -(score or 0.0), -parameters(model).value


def _holds(model: Model, accelerator: Accelerator, request: FitRequest) -> bool:
    if request.goal != "serve":
        job = msgspec.structs.replace(request, solve=None, count=request.count or 1)
        return smallest_training(model, accelerator, request=job) is not None
    own = model.max_context or CONTEXT
    context = request.context or min(CONTEXT, own)
    if context > own and not request.extend_context:
        return False
    layout = Layout(tp=request.tp or 1, pp=request.pp or 1, dp=request.dp or 1, ep=request.ep or 1)
    if not legal(model, layout).ok:
        return False
    return holds_it(model, accelerator, request=msgspec.structs.replace(request, context=context))


def _size(model: Model, *, given: str) -> Largest:
    return Largest(
        what="model", value=parameters(model).value, unit="parameters", binds="memory", given=given, name=model.id
    )


def _score(model: Model) -> str:
    score = published_score(model.id)
    return "" if score is None else f"{BENCHMARK} {score:g}"


def _sentence(found: list[Model], *, known: int, named: Accelerator, billions: int) -> str:
    best, largest = found[0], max(found, key=lambda model: parameters(model).value)
    by = f"by published {BENCHMARK}" if published_score(best.id) is not None else "by size"
    beside = "" if largest is best else f", the largest {largest.id} ({parameters(largest).value / 1e9:,.3g} B)"
    return (
        f"{len(found)} of {known} downloadable models fit 1 x {named.name}: the best {by} is {best.id} "
        f"({parameters(best).value / 1e9:,.3g} B parameters){beside}; a dense decoder may have up to {billions} B."
    )


def _bare(billions: int, additions: Additions) -> Model:
    from tonnage.catalog.hub import resolve

    return resolve(f"{billions}B", additions=additions, offline=True)
