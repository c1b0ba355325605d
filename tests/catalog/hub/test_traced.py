"""Profile files: what was written is read again, and what is impossible is refused by name."""

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest

from tonnage.catalog.hub.resolve import resolve
from tonnage.domain.profile import PROFILE_SCHEMA, Moment, Profile, TracedInput, TracedOperator
from tonnage.errors import BadFact

PROFILE = Profile(
    schema=PROFILE_SCHEMA,
    name="net",
    inputs=(TracedInput(shape=(2, 3, 32, 32), dtype="float32"),),
    samples=2,
    parameters=1e6,
    trainable_parameters=1e6,
    largest_parameter=1e5,
    output_values=4e5,
    forward=(TracedOperator(kind="convolution", name="convolution", flop=2e9, write_values=4e5, weight_values=1e6),),
    moments=(Moment(activation_values=1e6),),
    notes=("the sum of the outputs stands for the loss",),
)


def written(folder: Path, **changed: Any) -> str:
    path = folder / "net.profile.json"
    path.write_text(json.dumps({**msgspec.to_builtins(PROFILE), **changed}), encoding="utf-8")
    return str(path)


def test_a_profile_is_a_model(tmp_path: Path) -> None:
    model = resolve(written(tmp_path))
    assert (model.id, model.kind, model.profile) == ("net", "traced", PROFILE)
    assert (model.network.flop, model.network.input_px) == (2e9, 32)
    assert model.assumed == PROFILE.notes


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"schema": "tonnage.profile/9"}, "this version reads"),
        ({"samples": 0}, "samples"),
        ({"forward": []}, "forward"),
        ({"parameters": -1.0}, "parameters"),
        ({"forward": [{"kind": "convolution", "name": "c", "flop": 1e30}]}, r"forward\[0\].flop"),
        ({"forward": [{"kind": "magic", "name": "c"}]}, "magic"),
        ({"inputs": "1x3"}, "inputs"),
    ],
)
def test_an_impossible_profile_is_refused_by_field(tmp_path: Path, changed: dict[str, Any], said: str) -> None:
    with pytest.raises(BadFact, match=said):
        resolve(written(tmp_path, **changed))
