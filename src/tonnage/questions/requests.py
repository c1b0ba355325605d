"""Which questions are there, and which struct declares each?"""

from __future__ import annotations

from typing import Final

import msgspec

from tonnage.domain.case import InferCase, ServeCase, TrainCase
from tonnage.domain.requests.accuracy import AccuracyRequest
from tonnage.domain.requests.cost import RentOrBuyRequest
from tonnage.domain.requests.simulate import Simulation
from tonnage.domain.rl import RlCase
from tonnage.questions.adopt.request import Adopt
from tonnage.questions.calibrate.request import CalibrateRequest
from tonnage.questions.fit.request import FitRequest
from tonnage.questions.registry import KINDS
from tonnage.questions.sweep.request import Sweep

CASES: Final[dict[str, type[msgspec.Struct]]] = {
    "serve": ServeCase,
    "train": TrainCase,
    "infer": InferCase,
    "rl": RlCase,
}
"""By the `kind` of a case that `tonnage predict` reads."""

REQUESTS: Final[dict[str, type[msgspec.Struct]]] = {
    **{name: question.request for name, question in KINDS.items()},
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
