"""The question of `tonnage adopt`: what does this file run, what does it cost, and what should run instead?"""

from __future__ import annotations

from typing import Annotated

import msgspec

from tonnage.domain.requests.common import MODEL, Slo
from tonnage.domain.requests.field import Field, Group, accelerator_field, offer_field
from tonnage.record import SparseRecord


class Adopt(SparseRecord, kw_only=True):
    """A running deployment's own file, and what it does not say; absent = as the file says, or assumed and said so."""

    file: Annotated[str, Field("the file's text: vLLM command, manifest, Compose, Slurm, axolotl, TRL, …")]
    model: Annotated[
        str | None, msgspec.structs.replace(MODEL, help="the network, where the file's name for it is not known")
    ] = None
    accelerator: Annotated[
        str | None,
        accelerator_field("what it runs on, where the file does not say", known="planned accelerators", short="-a"),
    ] = None
    count: Annotated[int | None, accelerator_field("training: accelerators of the job", high=1e6)] = None
    replicas: Annotated[
        int | None, Field("copies of the server that share the load; else as the file says", high=1e6)
    ] = None
    rate_per_s: Annotated[
        float | None, Field("requests that arrive: 4/s; else what it carries now", "1/s", name="rate", high=1e7)
    ] = None
    profile: Annotated[
        str | None, Field("lengths of prompts and answers by profile; else chat", name="traffic", known="profiles")
    ] = None
    prompt_tokens: Annotated[float | None, Field("mean prompt length", "tokens", high=1e8)] = None
    output_tokens: Annotated[float | None, Field("mean answer length", "tokens", high=1e8)] = None
    slo: Annotated[Slo, Group()] = Slo()
    tokens: Annotated[float | None, Field("training: tokens of one epoch of the data", "tokens", high=1e16)] = None
    providers: Annotated[
        tuple[str, ...],
        offer_field("who it is rented from, where the file does not say", name="provider", known="providers"),
    ] = ()
