"""How is a traced module read? The file that `tonnage trace` wrote becomes a model like any other."""

from __future__ import annotations

from collections.abc import Mapping
from math import isfinite
from typing import Any, Final

import msgspec

from tonnage.domain.model import Model, Network
from tonnage.domain.profile import PROFILE_SCHEMA, Profile
from tonnage.errors import BadFact, echo

__all__ = ["model_of", "read_profile"]

MOST: Final = 1e18


def read_profile(data: Mapping[str, Any], *, where: str) -> Model:
    """
    The model in a profile file.

    Raises
    ------
    BadFact
        Another schema, a field that is missing or of the wrong type, or an impossible count.
    """
    if data.get("schema") != PROFILE_SCHEMA:
        raise BadFact(f"{where}: schema '{echo(data.get('schema'))}'; this version reads '{PROFILE_SCHEMA}'")
    try:
        profile = msgspec.convert(data, Profile)
    except (msgspec.ValidationError, RecursionError) as problem:
        raise BadFact(f"{where}: {echo(problem)}") from None
    _check(profile, where)
    return model_of(profile)


def model_of(profile: Profile) -> Model:
    """A traced module as a model: its totals as a network, its operators in the profile."""
    image = next((shape for shape in (given.shape for given in profile.inputs) if len(shape) == 4), None)
    return Model(
        id=profile.name,
        family="traced",
        kind="traced",
        has_head=False,
        final_norms=0,
        network=Network(
            flop=profile.flop,
            input_px=image[-1] if image is not None and image[-1] == image[-2] else None,
            activation_values=profile.output_values or None,
        ),
        profile=profile,
        native_dtype="bf16" if profile.value_bytes < 3 else "fp32",
        extra_parameters=profile.parameters,
        published_parameters=profile.parameters,
        source=profile.source,
        assumed=profile.notes,
    )


def _check(profile: Profile, where: str) -> None:
    """Counts are finite and not negative: a converted struct only has the right types."""
    if profile.samples < 1:
        raise BadFact(f"{where}: 'samples' is {profile.samples}; at least one sample is traced")
    if not profile.forward:
        raise BadFact(f"{where}: 'forward' is empty; a module does something")
    found: dict[str, Any] = {"": profile}
    for name in ("forward", "backward", "moments"):
        found.update({f"{name}[{place}].": part for place, part in enumerate(getattr(profile, name))})
    for prefix, part in found.items():
        for field in part.__struct_fields__:
            value = getattr(part, field)
            if isinstance(value, float) and not (isfinite(value) and 0 <= value < MOST):
                raise BadFact(f"{where}: '{prefix}{field}' is {value:g}; a count is between 0 and {MOST:g}")
