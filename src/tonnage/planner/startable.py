"""A plan made ready to be started: settings the engine would choose by itself are written out, as the plan took them.

An option carries what the user fixed; the rest the planner took from the engine's defaults for that release, model and
accelerator. A file that leaves them out would run whatever the installed release prefers, which is another plan.
"""

from __future__ import annotations

import msgspec

from tonnage import catalog
from tonnage.catalog import Additions
from tonnage.catalog.hub import resolve
from tonnage.engine.engines import defaults
from tonnage.errors import BadRequest, TonnageError
from tonnage.nouns.model import Model
from tonnage.nouns.plan import ServeOption, ServePlan
from tonnage.planner.plans import Plan

__all__ = ["startable"]


def startable(
    plan: Plan, *, rank: int = 1, checkpoint: str | None = None, additions: Additions = catalog.NOTHING
) -> tuple[ServePlan, ServeOption]:
    """
    One option of a plan with every engine setting filled in, and the plan with what is known of its checkpoint.

    Parameters
    ----------
    plan : Plan
        As `read_plan` gives it.
    rank : int
        Which option, 1 = the one ranked first.
    checkpoint : str, optional
        What to load instead of the planned model: the same network in the planned weight format.
    additions : Additions
        The user's own accelerators and models.

    Raises
    ------
    BadRequest
        Not a plan to serve, nothing feasible in it, or no such option.
    """
    if not isinstance(plan, ServePlan):
        raise BadRequest("only plans to serve can be exported; make one with `tonnage plan serve`")
    if not plan.options:
        raise BadRequest("the plan has no option: it is infeasible, and its sentence says what stands in the way")
    if rank > len(plan.options):
        raise BadRequest(f"option {rank} does not exist; choose 1 to {len(plan.options)}")
    option = plan.options[rank - 1]
    model = _resolved(plan, additions)
    facts = dict(plan.model)
    if checkpoint is not None:
        facts["named"] = checkpoint
    if model is None:
        return msgspec.structs.replace(plan, model=facts), option
    facts["checkpoint"] = model.quantization or model.native_dtype
    configuration = option.configuration
    engine = defaults(
        configuration.engine,
        catalog.accelerator(configuration.accelerator, additions),
        model=model,
        layout=configuration.layout,
    )
    filled = msgspec.structs.replace(configuration, engine=engine)
    return msgspec.structs.replace(plan, model=facts), msgspec.structs.replace(option, configuration=filled)


def _resolved(plan: ServePlan, additions: Additions) -> Model | None:
    """The network, without asking anyone else's machine; a file that has moved since is no reason to fail."""
    for name in (plan.request.model, str(plan.model.get("id", ""))):
        try:
            return resolve(name, additions=additions, offline=True)
        except TonnageError:
            continue
    return None
