"""Which is the largest model an accelerator holds?

Two answers: the largest of the catalogue's language models, and the size of the largest dense decoder, found by
bisection over bare sizes ("13B").
"""

from __future__ import annotations

from typing import Final

import msgspec

from tonnage import catalog
from tonnage.catalog import NOTHING, Additions
from tonnage.domain.fit import FitAnswer, FitRequest, Largest
from tonnage.domain.layout import Layout
from tonnage.domain.model import Model
from tonnage.errors import BadRequest
from tonnage.optimize.frontier import largest_whole
from tonnage.optimize.layouts import legal
from tonnage.physics.parameters import parameters
from tonnage.planning.fit.model import fit_model
from tonnage.planning.fit.serving import CONTEXT, holds_it

__all__ = ["largest_model"]

LANGUAGE: Final = ("llm", "llm-moe", "hybrid-moe", "ssm", "vlm")
MOST_BILLIONS: Final = 4000


def largest_model(request: FitRequest, *, additions: Additions = NOTHING) -> FitAnswer:
    """The largest catalogue model that fits, answered in full, with the largest bare size beside it."""
    if len(request.accelerators) != 1:
        raise BadRequest("--solve model needs exactly one --accelerator to fill")
    if request.goal != "serve":
        raise BadRequest("--solve model answers for serving; leave out --train and --finetune")
    named = catalog.predictable(request.accelerators[0], additions)

    def holds(model: Model) -> bool:
        own = model.max_context or CONTEXT
        context = request.context or min(CONTEXT, own)
        if context > own and not request.extend_context:
            return False
        layout = Layout(tp=request.tp or 1, pp=request.pp or 1, dp=request.dp or 1, ep=request.ep or 1)
        if not legal(model, layout).ok:
            return False
        return holds_it(model, named, request=msgspec.structs.replace(request, context=context))

    known = sorted(
        (m for m in catalog.models(additions).values() if m.kind in LANGUAGE and m.layers),
        key=lambda m: -parameters(m).value,
    )
    found = next((model for model in known if holds(model)), None)
    billions = largest_whole(lambda n: holds(_bare(n, additions)), most=MOST_BILLIONS)
    if found is None:
        raise BadRequest(
            f"no language model of the catalogue fits {named.name}; ask about one with `tonnage fit MODEL`"
        )
    answer = fit_model(found, msgspec.structs.replace(request, model=found.id, solve=None), additions=additions)
    sizes = (
        Largest(what="model", value=parameters(found).value, unit="parameters", binds="memory", name=found.id),
        Largest(
            what="model", value=billions * 1e9, unit="parameters", binds="memory", name=f"{billions}B dense decoder"
        ),
    )
    rows = tuple(msgspec.structs.replace(row, largest=(*sizes, *row.largest)) for row in answer.rows)
    sentence = (
        f"The largest catalogue model that fits 1 x {named.name} is {found.id} "
        f"({parameters(found).value / 1e9:,.3g} B parameters); a dense decoder may have up to {billions} B."
    )
    return msgspec.structs.replace(answer, sentence=sentence, rows=rows, request=request)


def _bare(billions: int, additions: Additions) -> Model:
    from tonnage.catalog.hub import resolve

    return resolve(f"{billions}B", additions=additions, offline=True)
