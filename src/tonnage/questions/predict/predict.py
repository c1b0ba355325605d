"""
What will one case do? A case of any kind in, its prediction out.

The case is handed to the planner of its kind; each is imported when its first case comes, so that predicting
training loads no serving simulator.
"""

from __future__ import annotations

from typing import Any

from msgspec.structs import replace

from tonnage.catalog import NOTHING, Additions
from tonnage.core.calibration_use import calibrations_among
from tonnage.domain.case import Case, InferCase, Result, TrainCase
from tonnage.domain.rl import RlCase


def predict(case: Case, *, additions: Additions = NOTHING, why: bool = False) -> Result:
    """
    The prediction for one case, under the case's own id; with `why`, latencies and steps opened down to operators.

    Raises
    ------
    TonnageError
        The case names something unknown or contradicts itself. "Does not fit" is no error: `fits` says so.
    """
    result: Result = _of_kind(case, additions, why)
    return replace(result, id=case.id) if case.id is not None and result.id is None else result


def _of_kind(case: Any, additions: Additions, why: bool) -> Any:
    """The prediction by the planner of the case's kind."""
    if isinstance(case, RlCase):
        from tonnage.questions.rl.step import predict_rl

        return predict_rl(case, additions=additions)
    if isinstance(case, TrainCase):
        from tonnage.questions.predict.training import predict_train

        return predict_train(case, additions=additions, why=why)
    if isinstance(case, InferCase):
        from tonnage.questions.predict.inference import predict_infer

        return predict_infer(case, additions=additions)
    from tonnage.questions.predict.serving import predict_serve

    found = predict_serve(case, additions=additions, why=why)
    return replace(found, calibrations=calibrations_among([case], additions=additions))
