"""Fields that cases of several kinds have, declared once: what a case of one configuration is asked by name."""

from __future__ import annotations

from typing import Final

from tonnage.domain.requests.field import Field, Group

__all__ = [
    "CALIBRATION", "DOCUMENT_LEN", "ENGINE", "FORMATS", "FRACTION", "FUSED_EXPERTS", "ID", "LINKS", "MODEL",
    "OPTIMIZER", "PER_NODE", "PREDICTED_AHEAD", "RECOMPUTE", "RELEASE", "RUNS_ON", "SETTINGS", "YEAR",
]  # fmt: skip

MODEL: Final = Field(
    group="Model and engine",
    known="models",
    help="catalogue id, Hugging Face id, path, bare size, or an inline description",
)
RUNS_ON: Final = Field(
    group="Accelerators", known="names of accelerators", help="what it runs on: id, name, or one of your own"
)
ENGINE: Final = Field(group="Model and engine", known="engines", help="engine that runs it")
RELEASE: Final = Field(group="Model and engine", help="release of the engine")
SETTINGS: Final = Field(
    group="Model and engine", reads="mapping", help="settings of the engine by name: max_num_seqs: 64"
)
FORMATS: Final = Field(
    group="Model and engine",
    reads="mapping",
    help="formats of weights, products and KV cache by name; absent = the checkpoint's own",
)
FRACTION: Final = Field(
    group="Accelerators",
    reads="fraction",
    high=1.0,
    help="share of the catalogue part that one counted device is: one die of an MI250X is 0.5",
)
PER_NODE: Final = Field(group="Accelerators", reads="integer", help="accelerators of one server")
LINKS: Final = Group(name="links")
YEAR: Final = Field(
    group="Model and engine", reads="integer", help="when it ran; dates an engine whose version is not known"
)
RECOMPUTE: Final = Field(group="Training", help="activations that are computed again in the backward pass")
OPTIMIZER: Final = Field(group="Training", known="optimizers", help="optimizer of the run")
ID: Final = Field(help="name that the answer repeats")
CALIBRATION: Final = Field(
    name="calibration",
    group="Model and engine",
    choices=("none", "published"),
    help="measurements that count: your own (nothing chosen), none, or published rows of the same stack as well",
)
"""Of every form whose answer may rest on measurements, as `--calibration` of every such command."""

DOCUMENT_LEN: Final = Field(
    reads="tokens",
    group="Training",
    help="mean length of the examples packed into a sequence, if attention stays inside each; absent = it does not",
)
PREDICTED_AHEAD: Final = Field(
    reads="integer",
    group="Training",
    low=-1.0,
    help="tokens beyond the next that each position learns to predict, by a layer and a head each",
)
FUSED_EXPERTS: Final = Field(
    group="Training",
    reads="flag",
    help="grouped products of experts in one kernel and the step one graph; absent = as the framework does",
)
