"""Fields that cases of several kinds have, declared once: what a case of one configuration is asked by name."""

from __future__ import annotations

from typing import Final

from tonnage.domain.requests.field import Field, Group, accelerator_field, engine_field, training_field

MODEL: Final = engine_field("catalogue id, Hugging Face id, path, bare size, or an inline description", known="models")
RUNS_ON: Final = accelerator_field("what it runs on: id, name, or one of your own", known="names of accelerators")
ENGINE: Final = engine_field("engine that runs it", known="engines")
RELEASE: Final = engine_field("release of the engine")
SETTINGS: Final = engine_field("settings of the engine by name: max_num_seqs: 64", "mapping")
FORMATS: Final = engine_field(
    "formats of weights, products and KV cache by name; absent = the checkpoint's own", "mapping"
)
FRACTION: Final = accelerator_field(
    "share of the catalogue part that one counted device is: one die of an MI250X is 0.5", "fraction", high=1.0
)
PER_NODE: Final = accelerator_field("accelerators of one server", "integer")
LINKS: Final = Group(name="links")
YEAR: Final = engine_field("when it ran; dates an engine whose version is not known", "integer")
RECOMPUTE: Final = training_field("activations that are computed again in the backward pass")
OPTIMIZER: Final = training_field("optimizer of the run", known="optimizers")
ID: Final = Field("name that the answer repeats")
CALIBRATION: Final = engine_field(
    "measurements that count: your own (nothing chosen), none, or published rows of the same stack as well",
    name="calibration",
    choices=("none", "published"),
)
"""Of every form whose answer may rest on measurements, as `--calibration` of every such command."""

DOCUMENT_LEN: Final = training_field(
    "mean length of the examples packed into a sequence, if attention stays inside each; absent = it does not", "tokens"
)
PREDICTED_AHEAD: Final = training_field(
    "tokens beyond the next that each position learns to predict, by a layer and a head each", "integer", low=-1.0
)
FUSED_EXPERTS: Final = training_field(
    "grouped products of experts in one kernel and the step one graph; absent = as the framework does", "flag"
)
