"""Fields that cases of several kinds have, declared once: what a case of one configuration is asked by name."""

from __future__ import annotations

from typing import Annotated, Any, Final, Literal

from tonnage.domain.precision import Precision
from tonnage.domain.requests.field import Field, Group, accelerator_field, engine_field, training_field

CaseModel = Annotated[
    Any, engine_field("catalogue id, Hugging Face id, path, bare size, or an inline description", known="models")
]
RunsOn = Annotated[
    str, accelerator_field("what it runs on: id, name, or one of your own", known="names of accelerators")
]
EngineName = Annotated[str, engine_field("engine that runs it", known="engines")]
Release = Annotated[str | None, engine_field("release of the engine")]
EngineSettings = Annotated[dict[str, Any], engine_field("settings of the engine by name: max_num_seqs: 64", "mapping")]
Formats = Annotated[
    Precision | None,
    engine_field("formats of weights, products and KV cache by name; absent = the checkpoint's own", "mapping"),
]
Fraction = Annotated[
    float,
    accelerator_field(
        "share of the catalogue part that one counted device is: one die of an MI250X is 0.5", "fraction", high=1.0
    ),
]
PerNode = Annotated[int | None, accelerator_field("accelerators of one server", "integer")]
LINKS: Final = Group(name="links")
Year = Annotated[int | None, engine_field("when it ran; dates an engine whose version is not known", "integer")]
Recomputed = Annotated[
    Literal["none", "selective", "full"] | None,
    training_field("activations that are computed again in the backward pass"),
]
OptimizerName = Annotated[str, training_field("optimizer of the run", known="optimizers")]
CaseId = Annotated[str | None, Field("name that the answer repeats")]
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
