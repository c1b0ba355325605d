"""Which questions are there, and which struct declares each?"""

from __future__ import annotations

from typing import Final

import msgspec

from tonnage.domain.case import InferCase, ServeCase, TrainCase
from tonnage.domain.requests.accuracy import AccuracyRequest
from tonnage.domain.requests.adopt import Adopt
from tonnage.domain.requests.calibrate import CalibrateRequest
from tonnage.domain.requests.composed import Budget, LifecycleRequest, Own
from tonnage.domain.requests.cost import RentOrBuyRequest
from tonnage.domain.requests.fit import FitRequest
from tonnage.domain.requests.fleet import FleetRequest
from tonnage.domain.requests.infer import Infer
from tonnage.domain.requests.rl import Rl
from tonnage.domain.requests.serve import Batch, Serve
from tonnage.domain.requests.simulate import Simulation
from tonnage.domain.requests.sweep import Sweep
from tonnage.domain.requests.train import FineTune, Train
from tonnage.domain.rl import RlCase

CASES: Final[dict[str, type[msgspec.Struct]]] = {
    "serve": ServeCase,
    "train": TrainCase,
    "infer": InferCase,
    "rl": RlCase,
}
"""By the `kind` of a case that `tonnage predict` reads."""

REQUESTS: Final[dict[str, type[msgspec.Struct]]] = {
    "serve": Serve,
    "batch": Batch,
    "train": Train,
    "finetune": FineTune,
    "rl": Rl,
    "infer": Infer,
    "lifecycle": LifecycleRequest,
    "fleet": FleetRequest,
    "own": Own,
    "budget": Budget,
    "fit": FitRequest,
    "rent-or-buy": RentOrBuyRequest,
    "simulate": Simulation,
    "adopt": Adopt,
    "calibrate": CalibrateRequest,
    "accuracy": AccuracyRequest,
    "sweep": Sweep,
    **{f"predict-{kind}": case for kind, case in CASES.items()},
}
"""By the name that `tonnage fields` and plan files use, in the order people meet them."""
