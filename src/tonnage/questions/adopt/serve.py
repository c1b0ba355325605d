"""A running server as a plan of one option, and the plan for the same load."""

from __future__ import annotations

import math
from datetime import date
from functools import partial
from typing import Any, Final, NamedTuple

import msgspec
from msgspec.structs import replace

from tonnage.catalog import Additions, model_name, part_name, traffic
from tonnage.catalog.hub.resolve import resolve
from tonnage.core.header import Context, Infeasible, model_facts, provenance
from tonnage.core.sites import Site, sites
from tonnage.domain.layout import Engine, Layout
from tonnage.domain.metrics import objectives, objectives_text
from tonnage.domain.model import Model, Moe
from tonnage.domain.plan import PLAN_SCHEMA, Configuration, ServeOption, ServePlan
from tonnage.domain.precision import Precision, number_format
from tonnage.domain.requests.common import Filters, Lengths, Slo
from tonnage.domain.requests.groups import AdapterFields, Adapters
from tonnage.domain.requests.serve import Serve
from tonnage.engines.registry import engine_spec, planned_engines
from tonnage.errors import BadRequest, TonnageError
from tonnage.physics.memory import resolve_precision
from tonnage.questions.adopt.question import ADOPTION_SCHEMA, Adopt, Adoption, Running, ServeSides
from tonnage.questions.serve import narrative
from tonnage.questions.serve.decide import closely
from tonnage.questions.serve.option import Candidate, add_costs, bills_of, is_sure, option_of
from tonnage.questions.serve.plan import plan_serve
from tonnage.questions.serve.question import command_of
from tonnage.questions.serve.settings import outcome_of
from tonnage.units import percent, show
from tonnage.version import can_simulate

USUAL_OBJECTIVES: Final = Slo(ttft_s=1.0, tpot_s=0.05)
"""Of chat, where the user states none: MLPerf's interactive limits lie on either side (assumed, and said so). [s]"""
_FORMATS: Final = {
    "awq_marlin": "awq", "gptq_marlin": "gptq", "bitsandbytes": "nf4", "w8a8_int8": "int8", "w8a8_fp8": "fp8",
    "fp8_e4m3": "fp8", "fp8_e5m2": "fp8", "fp8_inc": "fp8", "q8_0": "gguf-q8_0", "q4_0": "gguf-q4_0", "f16": "fp16",
    "f32": "fp32", "mxfp4": "mxfp4",
}  # fmt: skip
"""Engines' names of formats that are not ours. What is not here and is no format of ours is the checkpoint's own."""
WIDE: Final = frozenset({"bf16", "fp16", "fp32"})
"""Formats of unquantised values; an engine's word `auto` means the checkpoint's own."""


class Started(NamedTuple):
    """What a file starts: the question it answers, where it is rented, how one replica is arranged, and how many."""

    serve: Serve
    model: Model
    site: Site
    configuration: Configuration
    replicas: int
    assumed: tuple[str, ...]
    findings: tuple[str, ...]


def read_server(request: Adopt, running: Running, *, accelerator: str, additions: Additions) -> Started:
    """
    A running server as the question that it answers, its site and its configuration.

    Raises
    ------
    TonnageError
        The model is not known, or nobody in the catalogue rents the accelerator.
    """
    model, name = _model(request, running, additions)
    assumed = list(running.notes)
    serve = _request(request, running, model, name, accelerator=accelerator, assumed=assumed)
    configuration, replicas, findings = _configuration(running, model, accelerator, request)
    site = _site(request, running, accelerator, additions, assumed)
    configuration = replace(configuration, intra_link=site.intra_link)
    return Started(serve, model, site, configuration, replicas, tuple(assumed), tuple(findings))


def served_today(request: Adopt, running: Running, *, accelerator: str, additions: Additions, today: date) -> Adoption:
    """
    Today's server under the load it carries or is said to carry, and what would carry it better; the sentence is left
    empty, for the caller.

    Raises
    ------
    TonnageError
        The model is not known, or nobody in the catalogue rents the accelerator.
    """
    made = read_server(request, running, accelerator=accelerator, additions=additions)
    serve, model, site, configuration = made.serve, made.model, made.site, made.configuration
    replicas, assumed, findings = made.replicas, list(made.assumed), list(made.findings)
    outcome = outcome_of(serve, model, site=site, configuration=configuration)
    if isinstance(outcome, Infeasible) and outcome.verdict.limit in {"ttft", "tpot"} and not objectives(request.slo):
        assumed.append(
            f"no objectives: {objectives_text(serve.slo)} are missed by a lone request ({outcome.verdict.reason})"
        )
        serve = replace(serve, slo=Slo(percentile=serve.slo.percentile))
        outcome = outcome_of(serve, model, site=site, configuration=configuration)
    if isinstance(outcome, Candidate):
        outcome = closely(serve, outcome)
    # What replaces a server takes the longest request that it takes, not only those that came.
    written = running.value("max_model_len")
    longest = _stated_context(written, model)
    if longest is not None and written is not None and longest < written:
        assumed.append(
            f"context: {longest:,} tokens, what {model_name(model.id)} was made for; the file sets {written:,},"
            " which engines refuse unless they are told otherwise"
        )
    current, carries, stays = None, False, tuple[str, ...]()
    if isinstance(outcome, Infeasible):
        nearest = f" (nearest: {outcome.verdict.nearest})" if outcome.verdict.nearest else ""
        findings.append(f"{outcome.verdict.reason}{nearest}")
        serve = replace(serve, rate_per_s=serve.rate_per_s or 1.0)
    else:
        if running.scaled and serve.rate_per_s is not None and request.replicas is None:
            copies = replicas // running.replicas
            needed = math.ceil(serve.rate_per_s / (outcome.best.rate_per_s * copies * (1.0 - serve.headroom)))
            replicas = copies * max(running.scaled[0], min(needed, running.scaled[1]))
        most = outcome.best.rate_per_s * replicas
        if serve.rate_per_s is None:
            serve = replace(serve, rate_per_s=most * (1.0 - serve.headroom))
            carry = "s carry" if replicas > 1 else " carries"
            assumed.append(
                f"load: {show(serve.rate_per_s or 0.0, '1/s')}, what {replicas} replica{carry} "
                f"within the objectives with {percent(serve.headroom)} kept free (--rate states yours)"
            )
        # What is reserved is paid for, used or not.
        reserved = (running.machine.count or 0) * running.machine.nodes
        found = option_at(serve, outcome, replicas=replicas, reserved=reserved, today=today)
        assert found is not None
        at, option, carries = found
        if not carries:
            arrive = show(serve.rate_per_s or 0.0, "1/s")
            findings.append(f"carries at most {show(most, '1/s')} within the objectives, and {arrive} arrive")
        current = _plan(at, model, option, additions=additions, today=today)
        if request.providers or running.machine.provider or running.machine.instance_type:
            stays = (option.bill.provider,)
    serve = replace(serve, max_context=longest)
    better_at = partial(_better, serve, configuration, additions=additions, today=today)
    better, nearby = better_at(request.providers), None
    if stays and better.options and better.options[0].bill.provider not in stays:
        nearby = better_at(stays)
    return Adoption(
        schema=ADOPTION_SCHEMA,
        sentence="",
        running=running,
        assumed=tuple(assumed),
        findings=tuple(findings),
        feasible=carries,
        serve=ServeSides(current=current, better=better, nearby=nearby),
        command=command_of(replace(serve, filters=Filters(), precisions=())),
    )


def option_at(
    serve: Serve, outcome: Candidate, *, replicas: int, reserved: int = 0, today: date
) -> tuple[Serve, ServeOption, bool] | None:
    """
    A configuration on so many replicas: the request at the rate asked for, or at just under what they carry where that
    is less; the option, with its chance at the rate asked for; and whether they carry that.

    None where no offer has that many. `reserved` accelerators of a replica are paid for, used or not.
    """
    most = outcome.best.rate_per_s * replicas
    carries, chance = (serve.rate_per_s or 0.0) <= most, outcome.chance(serve, replicas)
    at = serve if carries else replace(serve, rate_per_s=0.999 * most)
    ranks = max(outcome.configuration.layout.ranks, reserved)
    bills = bills_of(outcome.site, replicas=replicas, ranks=ranks, request=at, today=today)
    if not bills:
        return None
    option = option_of(at, outcome, bills=bills, replicas=replicas)
    option = replace(option, accelerators=replicas * ranks, chance=chance, sure=is_sure(serve, chance))
    return at, add_costs(at, option, found=outcome), carries


def name_of_model(request: Adopt, running: Running) -> str:
    """What the user, else the file, calls the network; refused where that is a variable that nobody sets."""
    name = request.model or running.model
    if "$" in name:
        raise BadRequest(f"the file takes the model from '{name}', which it does not set; give --model")
    return name


def _model(request: Adopt, running: Running, additions: Additions) -> tuple[Model, str]:
    """
    The network, and the name it is known by: the file's own, so that what is exported loads the same weights; the bare
    name where only that is known.
    """
    name = name_of_model(request, running)
    bare = name.rsplit("/", 1)[-1].removesuffix("-GGUF").removesuffix("-gguf").removesuffix(".gguf")
    try:
        return resolve(name, additions=additions), name
    except TonnageError as error:
        try:
            return resolve(bare, additions=additions), bare
        except TonnageError:
            raise BadRequest(f"{error}; --model names the network where the file's own name is not known") from None


def _request(
    request: Adopt, running: Running, model: Model, name: str, *, accelerator: str, assumed: list[str]
) -> Serve:
    """
    The load and the objectives, as stated or assumed; without a rate where none is stated. Refuses lengths beyond what
    the server takes.
    """
    profile = traffic.profile(request.profile or "chat").lengths
    if request.prompt_tokens and request.output_tokens:
        lengths = Lengths(prompt_tokens=request.prompt_tokens, output_tokens=request.output_tokens)
    else:
        lengths = replace(
            profile,
            prompt_tokens=request.prompt_tokens or profile.prompt_tokens,
            output_tokens=request.output_tokens or profile.output_tokens,
        )
    longest = running.value("max_model_len") or model.max_context
    if longest and lengths.prompt_tokens + lengths.output_tokens > longest:
        raise BadRequest(
            f"prompts of {lengths.prompt_tokens:,.0f} and answers of {lengths.output_tokens:,.0f} tokens are "
            f"beyond the "
            f"{longest:,} tokens that the server takes; give --prompt-tokens and --output-tokens"
        )
    slo = request.slo
    if not objectives(request.slo):
        slo = replace(USUAL_OBJECTIVES, percentile=slo.percentile)
        assumed.append(f"objectives: {objectives_text(slo)} (--ttft and --tpot state yours)")
    if not (request.profile or request.prompt_tokens):
        assumed.append(
            f"chat: {lengths.prompt_tokens:,.0f} prompt and {lengths.output_tokens:,.0f} output tokens on average "
            "(--traffic, or --prompt-tokens and --output-tokens)"
        )
    return Serve(
        model=name,
        lengths=lengths,
        rate_per_s=request.rate_per_s,
        slo=slo,
        engines=(running.program,) if running.program in planned_engines() else planned_engines()[:1],
        filters=Filters(accelerators=(accelerator,)),
        adapters=_adapter_fields(running),
        confidence=request.confidence,
        quick=request.quick or not can_simulate(),
    )


def _adapters(running: Running) -> Adapters | None:
    """
    LoRA adapters that the server has slots for, and as many as its host keeps, each asked for equally; None without.
    """
    values = running.values()
    if not values.get("enable_lora"):
        return None
    slots = int(values.get("max_loras", 1))
    count = max(slots, int(values.get("max_cpu_loras", slots)))
    return Adapters(count=count, rank=int(values.get("max_lora_rank", 16)), slots=slots)


def _adapter_fields(running: Running) -> AdapterFields:
    kept = _adapters(running)
    return AdapterFields() if kept is None else AdapterFields(adapters=kept.count, adapter_rank=kept.rank)


def _configuration(
    running: Running, model: Model, accelerator: str, request: Adopt
) -> tuple[Configuration, int, list[str]]:
    """
    How one replica is arranged, how many there are, and what the file does that nobody wants. Data parallelism of a
    dense model counts as replicas.
    """
    values = running.values()
    degrees = {name: int(values.get(name, 1)) for name in ("tp", "pp", "dp", "ep")}
    replicas = request.replicas or running.replicas
    moe = any(isinstance(group.feed_forward, Moe) for group in model.layers)
    if degrees["dp"] > 1 and not moe:
        replicas, degrees["dp"] = replicas * degrees["dp"], 1
    if values.get("split") == "layer" and (running.machine.count or 1) > 1:
        degrees["pp"] = running.machine.count or 1
    layout = Layout(**degrees)
    findings = []
    reserved = (running.machine.count or 0) * running.machine.nodes
    used = layout.ranks * (degrees["dp"] if not moe else 1)
    if reserved > used and running.format != "Slurm script":
        findings.append(
            f"{reserved} accelerators are reserved for a replica of {used}: {reserved - used} idle (tp {layout.tp})"
        )
    if 0 < reserved < used:
        findings.append(f"a replica needs {used} accelerators (tp x pp x dp) and {reserved} are reserved for it")
    options = {name: values[name] for name in Engine.__struct_fields__ if name in values}
    options["adapters"] = _adapters(running)
    if engine_spec(running.program).memory.kind == "cells" and "max_model_len" in options:
        slots = 1 if options.get("kv_unified") else options.get("max_num_seqs", 1)
        options["max_model_len"] *= slots  # of all slots
    engine = msgspec.convert({**options, "name": running.program, "version": running.version}, Engine)
    configuration = Configuration(
        accelerator=accelerator, layout=layout, precision=_precision(running, model), engine=engine
    )
    return configuration, replicas, findings


def _precision(running: Running, model: Model) -> Precision:
    """The formats that run: the checkpoint's own, but for weights, cache and wide type that the file sets."""
    own = resolve_precision(None, model)
    stated = running.value("weights") or format_named(str(running.value("quantization") or ""))
    kv = format_named(str(running.value("kv") or ""))
    dtype = format_named(str(running.value("dtype") or ""))
    if stated and stated not in (own.weights, own.experts):
        own = Precision(
            weights=stated, kv=own.kv, activations="bf16" if number_format(stated).weight_only else own.activations
        )
    elif dtype in WIDE and own.weights in WIDE:
        own = replace(own, weights=dtype, activations=dtype, kv=dtype)
    return replace(own, kv=kv) if kv else own


def format_named(name: str) -> str:
    """Our name of a format; empty where the engine takes the checkpoint's ("auto", compressed-tensors, modelopt)."""
    key = _FORMATS.get(name.lower(), name.lower())
    try:
        return number_format(key).name if key else ""
    except TonnageError:
        return ""


def _site(request: Adopt, running: Running, accelerator: str, additions: Additions, assumed: list[str]) -> Site:
    """
    Where it is rented: the offers of the file's instance type, provider and region as far as the catalogue lists them,
    else those left without that condition, which `assumed` then says.
    """
    machine = running.machine
    wanted = request.providers or ((machine.provider,) if machine.provider else ())
    filters = Filters(accelerators=(accelerator,), terms=("spot",) if machine.spot else ("on-demand",))
    found, refused = sites(filters, additions=additions)
    if wanted or not found:  # hosts of strangers count where the file names them, or where nobody else rents it
        found, refused = sites(replace(filters, community=True), additions=additions)
    if not found:
        why = refused[0].verdict.reason if refused else "no offer"
        raise BadRequest(
            f"nobody in the catalogue rents {accelerator} ({why}): its cost cannot be known; add an offer with "
            f"--additions"
        )
    site = max(found, key=lambda one: (one.intra_link is None, one.per_node))
    tests: list[tuple[str, Any]] = [
        ("provider " + ", ".join(wanted), lambda o: not wanted or o.provider in wanted),
        (f"instance type {machine.instance_type}",
         lambda o: not machine.instance_type or o.instance_type.lower() == machine.instance_type.lower()),
        (f"region {machine.region}", lambda o: not machine.region or o.region == machine.region),
    ]  # fmt: skip
    offers = site.offers
    for what, test in tests:
        left = tuple(offer for offer in offers if test(offer))
        if left:
            offers = left
        else:
            assumed.append(
                f"the catalogue has no offer of {part_name(accelerator)} with {what}: the cheapest stands for it"
            )
    if not (wanted or machine.instance_type):
        part = part_name(accelerator)
        assumed.append(f"rented at the cheapest offer of {part} that holds a replica (--provider states yours)")
    return replace(site, offers=offers)


def _plan(serve: Serve, model: Model, option: ServeOption, *, additions: Additions, today: date) -> ServePlan:
    """Today's deployment as a plan: what explains, exports and checks plans takes it."""
    named = replace(option, verdict="what runs today")
    asked = Context(request=serve, model=model, today=today, additions=additions)
    return ServePlan(
        schema=PLAN_SCHEMA,
        feasible=True,
        sentence=narrative.sentence(asked, (named,)).replace("Rent", "Today", 1),
        request=serve,
        model=model_facts(model),
        options=(named,),
        evaluated=1,
        provenance=provenance([option.bill], today=today, assumed=narrative.assumptions(asked, (named,))),
    )


def _better(
    serve: Serve, configuration: Configuration, providers: tuple[str, ...], *, additions: Additions, today: date
) -> ServePlan:
    """
    The brief plan for the same load on any accelerator, at any provider or at those named; weights of under 8 bits
    stay as they are.
    """
    weights = configuration.precision.weights
    narrow = number_format(weights).weight_only or number_format(weights).bits < 8
    filters = Filters(providers=providers, terms=serve.filters.terms)
    wanted = replace(serve, filters=filters, precisions=(weights,) if narrow else ())
    return plan_serve(wanted, additions=additions, today=today, brief=True)


def _stated_context(stated: int | None, model: Model) -> int | None:
    """The context that the file sets for its server, as far as the model was made for it. [tokens]"""
    return stated if stated is None or model.max_context is None else min(stated, model.max_context)
