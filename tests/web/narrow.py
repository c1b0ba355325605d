"""The examples of the forms over few kinds of accelerator: read and answered the same, in a tenth of the time."""

from typing import Any

FEW = "H100,L40S"
ADDED: dict[str, dict[str, Any]] = {
    "plan/serve": {"accelerator": FEW, "quick": True},
    "plan/finetune": {"accelerator": FEW},
    "plan/train": {"accelerator": FEW},
    "plan/batch": {"accelerator": FEW},
    "plan/lifecycle": {"finetune.accelerator": FEW, "serve.accelerator": FEW, "quick": True},
    "plan/infer": {"accelerator": FEW},
    "plan/fleet": {"accelerator": "L4", "quick": True},
    "plan/budget": {"accelerator": FEW},
    "adopt": {"provider": "lambda"},
}
"""By form."""


def narrowed(path: str, example: dict[str, Any]) -> dict[str, Any]:
    """The body of a request, its groups as objects."""
    body = dict(example)
    for name, value in ADDED.get(path, {}).items():
        group, dot, inner = name.partition(".")
        body |= {group: {**body.get(group, {}), inner: value}} if dot else {name: value}
    return body
