"""`tonnage plan lifecycle`: a group of fields for the plan that makes a model, one for the plan that serves it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from tonnage import catalog
from tonnage.catalog import Additions
from tonnage.core.reading import build, read_fields
from tonnage.domain.requests.field import groups_of
from tonnage.errors import BadRequest, echo
from tonnage.questions.lifecycle.request import LifecycleRequest
from tonnage.questions.serve.reading import serve_request
from tonnage.questions.train.reading import finetune_request, train_request

GROUPS: Final = tuple(group.name for group in groups_of(LifecycleRequest))


def lifecycle_request(values: Mapping[str, Any], *, additions: Additions = catalog.NOTHING) -> LifecycleRequest:
    """
    A lifecycle request: `serve` and one of `train` and `finetune` hold the fields of those plans.

    A group is a mapping, or texts "name=value" as the command line gives them.

    Raises
    ------
    BadRequest
        A group is missing or contradicts, or a field of either is wrong.
    """
    groups = {name: _group(name, values[name]) for name in GROUPS if values.get(name)}
    given = read_fields({name: value for name, value in values.items() if name not in GROUPS}, LifecycleRequest)
    made = [name for name in ("train", "finetune") if name in groups]
    if len(made) != 1:
        what = "train and finetune contradict" if made else "nothing says how the model is made"
        raise BadRequest(f"{what}: give one of them, for example finetune: {{method: lora, tokens: 40M}}")
    if "serve" not in groups:
        raise BadRequest("nothing says how the model is served: give serve: {rate: 4/s, traffic: chat}")
    if "months" not in given:
        raise BadRequest("months is missing: say how long it serves, for example 12")
    model = {"model": given["model"]} if "model" in given else {}
    quick = {"quick": True} if given.get("quick") else {}
    read = train_request if made == ["train"] else finetune_request
    return build(
        LifecycleRequest,
        given,
        make=read({**model, **groups[made[0]]}, additions=additions),
        serve=serve_request({**model, **groups["serve"], **quick}, additions=additions),
    )


def _group(name: str, value: Any) -> dict[str, Any]:
    if isinstance(value, Mapping):
        return {str(key): item for key, item in value.items()}
    if not isinstance(value, (list, tuple)):
        value = [value]
    found: dict[str, Any] = {}
    for text in value:
        key, equals, item = (part.strip() for part in str(text).partition("="))
        if not equals:
            raise BadRequest(f"{name}: '{echo(text)}' is not a field; write name=value, for example rate=4/s")
        if key in found:
            raise BadRequest(f"{name}: '{echo(key)}' is given twice; keep one")
        found[key] = item
    return found
