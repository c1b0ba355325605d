"""The question of `tonnage adopt`: what does this file run, what does it cost, and what should run instead?"""

from __future__ import annotations

from typing import Annotated

import msgspec

from tonnage.domain.requests.common import MODEL, Slo
from tonnage.domain.requests.field import Field, Group

__all__ = ["Adopt"]


class Adopt(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A running deployment's own file, and what it does not say; absent = as the file says, or assumed and said so."""

    file: Annotated[str, Field(help="the file's text: vLLM command, manifest, Compose, Slurm, axolotl, TRL, …")]
    model: Annotated[
        str | None, msgspec.structs.replace(MODEL, help="the network, where the file's name for it is not known")
    ] = None
    accelerator: Annotated[
        str | None,
        Field(
            group="Accelerators",
            known="planned accelerators",
            short="-a",
            help="what it runs on, where the file does not say",
        ),
    ] = None
    count: Annotated[
        int | None, Field(reads="integer", group="Accelerators", high=1e6, help="training: accelerators of the job")
    ] = None
    replicas: Annotated[
        int | None,
        Field(reads="integer", high=1e6, help="copies of the server that share the load; else as the file says"),
    ] = None
    rate_per_s: Annotated[
        float | None,
        Field(name="rate", reads="1/s", high=1e7, help="requests that arrive: 4/s; else what it carries now"),
    ] = None
    profile: Annotated[
        str | None, Field(name="traffic", known="profiles", help="lengths of prompts and answers by profile; else chat")
    ] = None
    prompt_tokens: Annotated[float | None, Field(reads="tokens", high=1e8, help="mean prompt length")] = None
    output_tokens: Annotated[float | None, Field(reads="tokens", high=1e8, help="mean answer length")] = None
    slo: Annotated[Slo, Group()] = Slo()
    tokens: Annotated[
        float | None, Field(reads="tokens", high=1e16, help="training: tokens of one epoch of the data")
    ] = None
    providers: Annotated[
        tuple[str, ...],
        Field(
            name="provider",
            reads="list",
            group="Offers",
            known="providers",
            help="who it is rented from, where the file does not say",
        ),
    ] = ()
