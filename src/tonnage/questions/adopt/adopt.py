"""
From a running deployment to what should run: what it does today, by prediction, and the better plan with its switch.

The load is what the user states; else what today's replicas carry within the objectives, so that the better plan does
the same work. Everything that the file does not say is assumed once, for both, and listed. Both are simulated, or both
ranked by averages (`quick`), so that their difference is not one of method; each has its chance of the objectives.
"""

from __future__ import annotations

import shlex
from datetime import date
from typing import Any, Final

from msgspec.structs import replace

from tonnage import catalog
from tonnage.catalog import Additions, accelerators_text, model_name, parts_name, provider_name
from tonnage.catalog.fitted import with_training_totals
from tonnage.catalog.hub.resolve import resolve
from tonnage.catalog.models import models
from tonnage.core.header import model_facts, provenance
from tonnage.core.sites import sites
from tonnage.domain.case import Links, TrainCase, TrainCaseLayout
from tonnage.domain.model import Attention, Mlp, Model, Moe
from tonnage.domain.plan import PLAN_SCHEMA, Configuration, ServeOption
from tonnage.domain.precision import number_format
from tonnage.domain.requests.common import Filters
from tonnage.domain.train_plan import FineTune, Train, TrainOption, TrainPlan
from tonnage.engines.registry import engine_release, framework_words
from tonnage.errors import BadRequest, TonnageError
from tonnage.questions.adopt.question import (
    ADOPTION_SCHEMA,
    Action,
    Adopt,
    Adoption,
    Machine,
    Running,
    Saving,
    ServeSides,
    TrainSides,
)
from tonnage.questions.adopt.serve import name_of_model, read_server, served_today
from tonnage.questions.adopt.upgrade import upgraded
from tonnage.questions.calibrate.calibrated import with_calibrations
from tonnage.questions.train import narrative
from tonnage.questions.train.job import TrainContext, job_of
from tonnage.questions.train.option import option_of_setup
from tonnage.questions.train.places import Rental, rentals
from tonnage.questions.train.plan import plan_train
from tonnage.questions.train.setup import resolve_setup
from tonnage.report.wording import money
from tonnage.units import percent, show

WORTH: Final = 0.01
"""A saving below this share of today's cost is none: prices move more. [-]"""


def adopt(
    request: Adopt, running: Running, *, additions: Additions = catalog.NOTHING, today: date | None = None
) -> Adoption:
    """
    What runs, what it does, and what should run.

    Parameters
    ----------
    request : Adopt
        What the file does not say.
    running : Running
        What it says, as `tonnage.adopt` reads it.
    additions : Additions
        The user's own accelerators, models and offers.
    today : date, optional
        The day prices are aged from.

    Raises
    ------
    TonnageError
        Model or accelerator cannot be known: the sentence says which field names it.
    """
    day = today or date.today()
    accelerator = accelerator_of(request, running.machine, additions=additions)
    looking = served_today if running.kind == "serve" else trained_today
    found = looking(request, running, accelerator=accelerator, additions=additions, today=day)
    saving = _saving(found.sides)
    found = replace(found, saving=saving, changes=_changes(found.sides) if saving is not None else ())
    told = replace(found, sentence=_sentence(found))
    if request.upgrade is not None:
        told = replace(told, upgrade=_upgrade(request, told, accelerator=accelerator, additions=additions, today=day))
    return with_calibrations(told, additions=additions)


def _upgrade(request: Adopt, found: Adoption, *, accelerator: str, additions: Additions, today: date) -> Action | None:
    """What the release that was asked for is expected to change of a server; None where it cannot run today."""
    if found.serve is None:
        raise BadRequest("upgrade only means something for a server: it names a release of its engine")
    current = found.serve.current
    if current is None:
        return None
    made = read_server(request, found.running, accelerator=accelerator, additions=additions)
    made = made._replace(replicas=current.options[0].replicas)
    return upgraded(made, replace(current.request, quick=True), upgrade=request.upgrade or "", today=today)


def accelerator_of(request: Adopt, machine: Machine, *, additions: Additions) -> str:
    """
    The accelerator's id: as the user says, else the first of the file's words that the catalogue knows, else what the
    only accelerator of its instance type is; refuses where none says it.
    """
    if request.accelerator is not None:
        return catalog.predictable_accelerator(request.accelerator, additions).id
    for name in machine.accelerators:
        try:
            return catalog.predictable_accelerator(name, additions).id
        except TonnageError:
            continue
    offered = {
        offer.accelerator
        for offer in catalog.offers(additions=additions)
        if machine.instance_type and offer.instance_type.lower() == machine.instance_type.lower()
    }
    if len(offered) == 1:
        return catalog.predictable_accelerator(offered.pop(), additions).id
    said = (
        f"says '{machine.words}', which names no accelerator of the catalogue"
        if machine.words
        else "does not say what it runs on"
    )
    raise BadRequest(f"accelerator is missing: the file {said}; give it, for example H100")


def _saving(sides: ServeSides | TrainSides) -> Saving | None:
    """
    What the better plan's first option costs less than today's, in USD a month of serving or of the whole run of
    training; None below `WORTH` of today's cost, or where one of the two is missing.
    """
    if sides.current is None or sides.better is None or not sides.better.options:
        return None
    before, after = (
        option.usd_per_month if isinstance(option, ServeOption) else option.cost.value
        for option in (sides.current.options[0], sides.better.options[0])
    )
    if before <= 0 or (before - after) / before < WORTH:
        return None
    return Saving(
        usd=before - after, share=(before - after) / before, unit="month" if isinstance(sides, ServeSides) else "run"
    )


def _sentence(found: Adoption) -> str:
    """The answer in one sentence."""
    sides, saving = found.sides, found.saving
    current, better = sides.current, sides.better
    if current is None:
        after = f" {better.sentence}" if better is not None and better.feasible else ""
        why = found.findings[0] if found.findings else "it does not fit"
        return f"What the {found.running.format} starts cannot run: {why}.{after}"
    option = current.options[0]
    cost = show(option.bill.usd_per_hour, "USD/h")
    now = f"Today {accelerators_text(option)} at {cost} ({provider_name(option.bill.provider)})"
    first = better.options[0] if better is not None and better.options else None
    then = "" if first is None else f"{accelerators_text(first)} at {show(first.bill.usd_per_hour, 'USD/h')}"
    if not found.feasible:
        does = "nothing that was found does" if first is None else f"{then} ({provider_name(first.bill.provider)}) does"
        return f"{now} {'do' if option.accelerators > 1 else 'does'} not carry the load; {does}."
    if saving is None or first is None:
        return f"{now}: nothing cheaper does the same."
    per = "a month" if saving.unit == "month" else "on the run"
    does = f"carries the same load with {', '.join(found.changes)}" if found.changes else "does the same"
    there = provider_name(first.bill.provider)
    return f"{now}; {then} ({there}) {does} and saves {money(saving.usd)} {per} ({percent(saving.share)})."


def _changes(sides: ServeSides | TrainSides) -> tuple[str, ...]:
    """What of the better first option changes answers or has to be installed: fewer bits, drafts, another release."""
    assert sides.current is not None and sides.better is not None, "something is saved"
    today, better = sides.current.options[0].configuration, sides.better.options[0].configuration
    if not isinstance(today, Configuration) or not isinstance(better, Configuration):
        return ()
    before, after = today.precision, better.precision
    changes = [
        f"{name.upper()} {what}"
        for what, old, name in (("weights", before.stored, after.stored), ("KV cache", before.kv, after.kv))
        if number_format(name).bits < number_format(old).bits
    ]
    if better.engine.speculative_tokens and not today.engine.speculative_tokens:
        changes.append(f"drafts of {better.engine.draft_model or 'its own layers'}")
    release = engine_release(better.engine.name, better.engine)
    changes += [release] if release != engine_release(today.engine.name, today.engine) else []
    return tuple(changes)


USUAL_STEPS: Final = 1000
"""Of a job that names neither steps nor data; assumed, and said so. [steps]"""


def trained_today(request: Adopt, running: Running, *, accelerator: str, additions: Additions, today: date) -> Adoption:
    """
    Today's job, and what would end no later for less; the sentence is left empty, for the caller.

    Raises
    ------
    TonnageError
        The model is not known or contradicts the file's degrees, or nobody rents so many of the accelerator.
    """
    assumed, findings = list(running.notes), []
    name = name_of_model(request, running)
    model = with_training_totals(resolve(name, additions=additions) if name else _of_shape(running, additions, assumed))
    case = _train_case(request, running, model, accelerator, assumed)
    steps = _steps(request, running, case, assumed)
    asked = _context(
        name or model.id, model, case, steps=steps, accelerator=accelerator, additions=additions, today=today
    )
    part = catalog.accelerator(accelerator, additions)
    chosen = resolve_setup(case, model=model, accelerator=part)
    assumed += chosen.notes
    if chosen.setup.recompute != case.recompute:
        assumed.append(
            f"recompute {case.recompute} is taken as {chosen.setup.recompute}, which this software is known with"
        )
    base = Adoption(schema=ADOPTION_SCHEMA, sentence="", running=running, feasible=False, command=_command(asked))
    if not chosen.fits:
        findings.append(
            f"it does not fit: {show(chosen.memory.value, 'bytes')} are needed on each accelerator, and "
            f"{show(part.driver_memory_bytes, 'bytes')} are there"
        )
        better = plan_train(_on_anything(asked.request), additions=additions, today=today)
        return replace(base, train=TrainSides(better=better), assumed=tuple(assumed), findings=tuple(findings))
    rental = _rental(request, running, case, additions=additions, today=today, assumed=assumed)
    option = option_of_setup(asked, rental, setup=chosen.setup, term=rental.bills[0].term)
    if every := int(running.value("save_steps") or 0):
        planned = max(1, round(option.run.checkpoint_interval_s / option.step_s.value))
        findings.append(f"saves every {every:,} steps; every {planned:,} loses least to interruptions")
        # The file's own interval goes on into what is exported; what it costs beside the best is small.
        option = replace(option, run=replace(option.run, checkpoint_interval_s=every * option.step_s.value))
    current = _plan(asked, option, rotary_base=running.value("rotary_base"))
    wanted = replace(_on_anything(asked.request), deadline_s=option.run.wall_s.value)
    better = plan_train(replace(wanted, filters=Filters(providers=request.providers)), additions=additions, today=today)
    sides = TrainSides(current=current, better=better)
    return replace(base, feasible=True, train=sides, assumed=tuple(assumed), findings=tuple(findings))


def _of_shape(running: Running, additions: Additions, assumed: list[str]) -> Model:
    """
    The catalogue's network of the widths that the file states (Megatron-LM names none); refuses where it has none. What
    was taken is appended to `assumed`.
    """
    wanted = {name: running.value(name) for name in ("num_layers", "hidden_size", "num_attention_heads")}
    narrow = running.value("moe_ffn_hidden_size") or running.value("ffn_hidden_size")
    untied = running.value("untie_embeddings_and_output_weights", otherwise=False)
    groups, experts = running.value("num_query_groups"), running.value("num_experts") or 0
    for known in models(additions).values():
        group = known.layers[-1] if known.layers else None
        if group is None or not isinstance(group.mixer, Attention) or known.hidden_size != wanted["hidden_size"]:
            continue
        if not known.kind.startswith("llm") or known.tie_word_embeddings is bool(untied):
            continue
        feed = group.feed_forward
        width = (
            feed.intermediate_size
            if isinstance(feed, Mlp)
            else feed.moe_intermediate_size
            if isinstance(feed, Moe)
            else 0
        )
        same = (
            known.num_layers == wanted["num_layers"]
            and group.mixer.num_attention_heads == wanted["num_attention_heads"]
            and group.mixer.num_key_value_heads == (groups or group.mixer.num_attention_heads)
            and (feed.num_experts if isinstance(feed, Moe) else 0) == experts
            and (narrow is None or width == narrow)
        )
        if same:
            assumed.append(
                f"the network is that of {model_name(known.id)}, whose widths the file states (--model names another)"
            )
            return known
    stated = ", ".join(f"{name} {value}" for name, value in wanted.items() if value)
    raise BadRequest(
        f"the file names no model, and the catalogue has none of its widths ({stated or 'none stated'}); give --model"
    )


def _train_case(request: Adopt, running: Running, model: Model, accelerator: str, assumed: list[str]) -> TrainCase:
    """
    The job's configuration, as `predict` takes it; what the file leaves open has a usual value here. The count is the
    user's, else the file's; one accelerator a node where it says none, which `assumed` then says.
    """
    v = running.values()
    machine = running.machine
    count = request.count or (machine.count or 1) * machine.nodes
    if not request.count and machine.count is None:
        assumed.append(f"{count} accelerator{'s' if count > 1 else ''}: the file does not say how many (--count)")
    degrees: dict[str, Any] = {"tp": 1, "pp": 1, "cp": 1}
    degrees |= {name: int(v[name]) for name in ("tp", "pp", "cp", "ep", "etp", "vpp") if v.get(name)}
    dp, left = divmod(count, degrees["tp"] * degrees["pp"] * degrees["cp"])
    if left:
        raise BadRequest(
            f"{count} accelerators are no multiple of tp {degrees['tp']} x pp {degrees['pp']} x cp {degrees['cp']}; "
            f"give --count"
        )
    micro = int(v.get("micro_batch") or 1)
    stated = int(v.get("global_batch") or 0)
    batch = stated if stated > 0 else micro * int(v.get("accumulation") or 1) * dp
    virtual = v.get("layers_per_virtual_stage")
    if virtual and "vpp" not in degrees:
        degrees["vpp"] = max(1, model.num_layers // (int(virtual) * degrees["pp"]))
    return TrainCase(
        model=model,
        accelerator=accelerator,
        method=v.get("method", "full"),
        count=count,
        accelerators_per_node=machine.count if machine.nodes > 1 else None,
        links=Links(),
        layout=TrainCaseLayout(**degrees, sharding=v.get("sharding", "none") if count > 1 else "none"),
        precision=v.get("precision", "bf16"),
        micro_batch=micro,
        global_batch=batch,
        seq_len=int(v.get("seq_len") or min(4096, model.max_context or 4096)),
        recompute=v.get("recompute", "none"),
        optimizer=str(v.get("optimizer", "adamw")),
        lora_rank=int(v.get("lora_rank") or 16),
        framework=_framework(running),
    )


def _framework(running: Running) -> str | None:
    """The program as a framework whose speed is known; None for others."""
    return running.program if any(word in running.program for word in framework_words()) else None


def _steps(request: Adopt, running: Running, case: TrainCase, assumed: list[str]) -> int:
    """
    Optimizer steps of the run: from the user's tokens of one epoch times the file's epochs; else the file's steps; else
    its samples by the global batch; a usual number, with a line in `assumed`, where nothing is said.
    """
    assert case.global_batch and case.seq_len
    a_step = case.global_batch * case.seq_len
    epochs = float(running.value("epochs") or 1.0)
    if request.tokens is not None:
        return max(1, round(request.tokens * epochs / a_step))
    if int(running.value("steps") or 0) > 0:
        return int(running.value("steps"))
    if running.value("samples"):
        return max(1, int(running.value("samples")) // case.global_batch)
    assumed.append(
        f"{USUAL_STEPS:,} steps of {a_step:,} tokens: the file does not say how much data there is (--tokens of "
        f"one epoch)"
    )
    return USUAL_STEPS


def _context(
    name: str, model: Model, case: TrainCase, *, steps: int, accelerator: str, additions: Additions, today: date
) -> TrainContext:
    """The job as a training request on just so many of its accelerator, without validation or headroom."""
    assert case.global_batch and case.seq_len
    common: dict[str, Any] = {
        "model": name,
        "seq_len": case.seq_len,
        "global_batch": case.global_batch,
        "precision": case.precision,
        "optimizer": case.optimizer,
        "filters": Filters(accelerators=(accelerator,)),
        "count": case.count,
        "validation": 0.0,
        "headroom": 0.0,
    }
    tokens = float(steps) * case.global_batch * case.seq_len
    if case.method == "pretrain":
        request: Train | FineTune = Train(tokens=tokens, **common)
    else:
        request = FineTune(tokens=tokens, method=case.method, lora_rank=case.lora_rank, **common)
    return TrainContext(
        request=request,
        model=model,
        job=job_of(request, model),
        today=today,
        additions=additions,
    )


def _on_anything(request: Train | FineTune) -> Train | FineTune:
    """The same job on any accelerators, in any number."""
    return replace(request, filters=Filters(), count=None)


def _rental(
    request: Adopt, running: Running, case: TrainCase, *, additions: Additions, today: date, assumed: list[str]
) -> Rental:
    """
    The cheapest offer that joins so many: of the user's or the file's provider where one is named and rents them, else
    of any. What stands in for it is appended to `assumed`.
    """
    terms = ("spot",) if running.machine.spot else ("on-demand",)
    wanted = request.providers or ((running.machine.provider,) if running.machine.provider else ())
    for providers in (wanted, ()):
        filters = Filters(accelerators=(case.accelerator,), providers=providers, terms=terms)
        found, _ = sites(filters, additions=additions)
        held = [rental for site in found for rental in rentals(site, counts=(case.count,), terms=terms, today=today)]
        if held:
            if wanted and not providers:
                who, parts = ", ".join(map(provider_name, wanted)), parts_name(case.count, case.accelerator)
                assumed.append(f"{who} rents no {parts}: the cheapest offer stands for it")
            elif not wanted:
                parts = parts_name(case.count, case.accelerator)
                assumed.append(f"rented at the cheapest offer of {parts} (--provider states yours)")
            return min(held, key=lambda rental: rental.usd_per_hour)
    raise BadRequest(
        f"nobody in the catalogue rents {case.count} x {case.accelerator} joined: its cost cannot be known; "
        "give --count or another --accelerator, or add an offer with --additions"
    )


def _plan(asked: TrainContext, option: TrainOption, *, rotary_base: int | None) -> TrainPlan:
    """Today's job as a plan of one option, which export and check take."""
    named = replace(option, verdict="what runs today")
    return TrainPlan(
        schema=PLAN_SCHEMA,
        kind="train" if isinstance(asked.request, Train) else "finetune",
        feasible=True,
        sentence=narrative.sentence((named,)).replace("Rent", "Today", 1),
        request=asked.request,
        model=model_facts(asked.model) | ({"rotary_base": rotary_base} if rotary_base else {}),
        options=(named,),
        evaluated=1,
        provenance=provenance([option.bill], today=asked.today, assumed=asked.job.assumed),
    )


def _command(asked: TrainContext) -> str:
    request = asked.request
    words = ["tonnage", "plan", "train" if isinstance(request, Train) else "finetune", request.model]
    words += ["--tokens", f"{asked.job.tokens:.0f}", "--seq-len", str(asked.job.seq_len)]
    words += ["--global-batch", str(asked.job.global_batch)]
    words += ["--method", request.method] if isinstance(request, FineTune) else []
    return shlex.join(words)
