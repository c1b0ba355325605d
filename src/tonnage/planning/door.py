"""The door: text that people write becomes a request noun; one table for files, command line and HTTP.

Each field of a request is one row: its name, what it measures, and what it means. A YAML file, a
command-line flag and a web form field are the same row, so none can drift from the others. Numbers
are read with their unit here and nowhere else.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Mapping
from typing import Any, Final

import msgspec

from tonnage import catalog, units
from tonnage.catalog import Additions, traffic
from tonnage.domain.layout import SERVING_ENGINE
from tonnage.domain.precision import number_format
from tonnage.domain.workload import Filters, FineTune, Lengths, LoadShape, Serve, Slo, Train
from tonnage.engines.registry import planned_engines
from tonnage.errors import BadRequest, UnknownName, echo, nearest
from tonnage.physics.optimizers import optimizer

__all__ = [
    "ENGINES",
    "FILTER_FIELDS",
    "FINETUNE_FIELDS",
    "QUALITY_FIELD",
    "SERVE_FIELDS",
    "TERMS",
    "TRAIN_FIELDS",
    "Field",
    "finetune_request",
    "read_fields",
    "read_filters",
    "read_lengths",
    "read_shape",
    "serve_request",
    "train_request",
]

ENGINES: Final = planned_engines()
TERMS: Final = ("on-demand", "spot", "reserved-1y", "reserved-3y", "block")
CERTIFICATIONS: Final = ("gdpr", "iso27001", "soc2", "hipaa")
SEGMENTS: Final = ("datacenter", "cloud-only", "workstation", "consumer", "edge", "apple", "cpu")
PROVIDER_KINDS: Final = ("hyperscaler", "neocloud", "serverless", "marketplace", "hosting", "bare-metal", "eu-cloud")
BILLING: Final = {"second": 1.0, "minute": 60.0, "hour": 3600.0}
"""Steps that a request may ask time to be billed in. [s]"""
TRAINING_PRECISIONS: Final = ("bf16", "fp16", "tf32", "fp32", "fp8", "mxfp8", "nvfp4")
SECONDS_BETWEEN_REQUESTS: Final = 60.0
"""Of one active user, when the request does not say. Assumed, and said so in the plan. [s]"""


class Field(msgspec.Struct, frozen=True, kw_only=True):
    """One field of a request: what it measures decides how its text is read."""

    name: str
    reads: str
    """A dimension of `units`, or text, list, flag, integer."""
    help: str
    low: float = 0.0
    """The value must exceed this (or equal it, for flags and integers)."""
    high: float = math.inf
    choices: tuple[str, ...] = ()


FILTER_FIELDS: Final[tuple[Field, ...]] = (
    Field(name="accelerator", reads="list", help="only these accelerators"),
    Field(name="exclude", reads="list", help="not these accelerators"),
    Field(name="vendor", reads="list", help="only these makers"),
    Field(name="segment", reads="list", help="only these segments", choices=SEGMENTS),
    Field(name="provider", reads="list", help="only these providers"),
    Field(name="region", reads="list", help="only these regions"),
    Field(name="country", reads="list", help="only these countries (two letters)"),
    Field(name="eu", reads="flag", help="only regions in the European Union"),
    Field(name="ecc", reads="flag", help="only memory with error correction"),
    Field(name="nvlink", reads="flag", help="only accelerators joined by a switched fast link"),
    Field(name="certification", reads="list", help="provider states: gdpr, iso27001, …", choices=CERTIFICATIONS),
    Field(name="term", reads="list", help="prices that may be used", choices=TERMS),
    Field(name="marketplace", reads="flag", help="include offers whose source states no licence"),
    Field(name="community", reads="flag", help="include community marketplaces, auctions and brokers"),
    Field(name="max_accelerators", reads="integer", help="most accelerators in all", high=1e6),
    Field(name="max_power", reads="W", help="power limit of one accelerator", high=1e6),
    Field(name="mig", reads="flag", help="only accelerators that split into slices"),
    Field(name="always_on", reads="flag", help="only parts meant to work around the clock: no consumer boards"),
    Field(name="provider_kind", reads="list", help="only providers of this kind", choices=PROVIDER_KINDS),
    Field(name="eu_owned", reads="flag", help="only providers owned in the European Union"),
    Field(name="billing", reads="text", help="time is billed in steps no longer than this", choices=tuple(BILLING)),
    Field(name="free_egress", reads="flag", help="only providers that state no charge for bytes that leave"),
    Field(name="provisioning", reads="s", help="longest wait for an instance, as published", high=86400.0 * 365),
)
"""Which accelerators and offers may be used: the same for every kind of plan."""


QUALITY_FIELD: Final = Field(
    name="quality", reads="fraction", high=1.0,
    help="share of the score as released that weights in fewer bits must keep, as published: 99 %",
)  # fmt: skip

SERVE_FIELDS: Final[tuple[Field, ...]] = (
    Field(name="model", reads="text", help="catalogue id, Hugging Face id, path, or a bare size such as 13B"),
    Field(name="rate", reads="1/s", help="requests that arrive, on average: 4/s, 240/min", high=1e7),
    Field(name="concurrency", reads="count", help="requests in flight at once", high=1e7),
    Field(name="users", reads="count", help="people using it at once", high=1e9),
    Field(name="think_time", reads="s", help="seconds between two requests of one user", high=86400.0 * 7),
    Field(name="traffic", reads="text", help="length profile: chat, code, rag, summarise, reasoning, agent, batch"),
    Field(name="prompt_tokens", reads="tokens", help="mean prompt length", high=1e8),
    Field(name="output_tokens", reads="tokens", help="mean answer length", high=1e8),
    Field(name="ttft", reads="s", help="objective for the time to first token", high=86400.0),
    Field(name="tpot", reads="s", help="objective for the time per output token", high=3600.0),
    Field(name="e2e", reads="s", help="objective for the whole answer", high=86400.0),
    Field(name="percentile", reads="count", help="percentile the objectives hold at", low=49.9, high=99.9),
    Field(name="peak_to_mean", reads="count", help="peak rate over mean rate that must be served", low=0.999, high=1e4),
    Field(name="precision", reads="list", help="weight formats that may be used: bf16, fp8, int4, …"),
    QUALITY_FIELD,
    Field(name="kv_precision", reads="text", help="format of the KV cache"),
    Field(name="engine", reads="list", help="serving engines to consider", choices=ENGINES),
    *FILTER_FIELDS,
    Field(name="budget", reads="USD/h", help="most to spend", high=1e7),
    Field(name="headroom", reads="fraction", help="share of capacity kept free at peak", low=-1e-9, high=0.9),
    Field(name="spare_replicas", reads="integer", help="replicas beyond the load (N+k)", low=-1.0, high=1e4),
    Field(name="context", reads="tokens", help="longest context that must fit", high=1e8),
    Field(name="day", reads="list", help="load by the hour: consumer, reasoning-week, … or 24 or 168 rates"),
    Field(name="on_for", reads="s", help="intermittent load: mean length of a burst", high=86400.0 * 30),
    Field(name="off_for", reads="s", help="intermittent load: mean pause between bursts", high=86400.0 * 365),
    Field(name="zones", reads="integer", help="zones to spread over, one of which may be lost", high=64),
    Field(name="idle_timeout", reads="s", help="scale to zero switches off after so long", high=86400.0 * 30),
    Field(
        name="start_from",
        reads="text",
        help="weights of a new replica: network, disk, or cached with compiled code",
        choices=("network", "disk", "cached"),
    ),
    Field(name="cold_start", reads="s", help="from the decision to start a replica to its first token", high=86400.0),
    Field(name="quick", reads="flag", help="rank by averages alone, without simulating"),
    Field(name="pools", reads="flag", help="also look for separate workers for prompts and for answers"),
)
"""Every field of a serving request."""


_RUN_FIELDS: Final[tuple[Field, ...]] = (
    Field(name="global_batch", reads="integer", help="sequences per optimizer step", high=1e8),
    Field(name="deadline", reads="s", help="longest time for the whole run: 30 days, 8 h", high=20 * 8760 * 3600.0),
    Field(name="budget", reads="USD", help="most to spend on the whole run", high=1e12),
    Field(name="count", reads="integer", help="exactly this many accelerators", high=1e6),
    Field(name="precision", reads="text", help="what products are computed in: bf16, fp8, fp16, tf32, fp32"),
    Field(name="optimizer", reads="text", help="adamw, adamw-8bit, adafactor, lion, muon, sgd, …"),
    Field(name="framework", reads="text", help="software: megatron, torchtitan, torchtune, hf, maxtext, …"),
    Field(name="restartable", reads="flag", help="the run may be stopped and taken up again"),
    Field(name="checkpoint", reads="text", help="async or sync", choices=("async", "sync")),
    Field(name="validation", reads="fraction", help="time of validation over that of training", low=-1e-9, high=1.0),
    Field(name="headroom", reads="fraction", help="time kept for retries and experiments over the run's", low=-1e-9,
          high=10.0),
    Field(name="spares", reads="integer", help="instances beyond the job's own", low=-1.0, high=1e5),
    *FILTER_FIELDS,
)  # fmt: skip

TRAIN_FIELDS: Final[tuple[Field, ...]] = (
    Field(name="model", reads="text", help="catalogue id, Hugging Face id, path, or a bare size such as 13B"),
    Field(name="tokens", reads="tokens", help="tokens to train on: 100B, 15T", high=1e16),
    Field(name="seq_len", reads="integer", help="tokens of one sequence", high=1e8),
    *_RUN_FIELDS,
)
"""Every field of a pre-training request."""

FINETUNE_FIELDS: Final[tuple[Field, ...]] = (
    Field(name="model", reads="text", help="catalogue id, Hugging Face id, path, or a bare size such as 13B"),
    Field(name="method", reads="text", help="full, lora, qlora or dora", choices=("full", "lora", "qlora", "dora")),
    Field(name="examples", reads="count", help="examples of one epoch: 50k", high=1e12),
    Field(name="tokens_per_example", reads="tokens", help="mean length of an example", high=1e8),
    Field(name="tokens", reads="tokens", help="tokens of one epoch, instead of examples and their length", high=1e16),
    Field(name="epochs", reads="count", help="passes over the examples", high=1e5),
    Field(name="seq_len", reads="integer", help="tokens of one sequence that examples are packed into", high=1e8),
    Field(name="packed", reads="flag", help="examples share sequences; otherwise each is padded to its own"),
    Field(name="lora_rank", reads="integer", help="rank of the adapters", high=65536),
    Field(name="image_px", reads="integer", help="side of an image, for networks that take one", high=65536),
    *_RUN_FIELDS,
)
"""Every field of a fine-tuning request."""


def serve_request(values: Mapping[str, Any], *, additions: Additions = catalog.NOTHING) -> Serve:
    """
    A serving request from named texts.

    Parameters
    ----------
    values : mapping
        Field name -> what the user wrote; None and absent mean "not given".
    additions : Additions
        The user's own accelerators and offers, whose names are accepted too.

    Raises
    ------
    BadRequest
        An unknown field, a value out of range or of the wrong kind, or fields that contradict.
    """
    given = read_fields(values, SERVE_FIELDS)
    _need_model(given)
    loads = [name for name in ("rate", "concurrency", "users") if name in given]
    if len(loads) != 1:
        what = " and ".join(loads) + " contradict" if loads else "no load is given"
        raise BadRequest(f"{what}: give exactly one of rate ('4/s'), concurrency (64) or users (1000)")
    if "think_time" in given and "users" not in given:
        raise BadRequest("think_time only makes sense with users: give users (1000) instead of " + loads[0])
    for name in given.get("precision", ()):
        number_format(name)
    if given.get("pools") and ("concurrency" in given or not {"ttft", "tpot", "e2e"} & given.keys()):
        raise BadRequest("pools are looked for at a rate and within an objective: give rate ('4/s') and ttft or tpot")
    rate = given.get("rate")
    if "users" in given:
        rate = given["users"] / given.get("think_time", SECONDS_BETWEEN_REQUESTS)
    return Serve(
        model=given["model"],
        lengths=read_lengths(given),
        rate_per_s=rate,
        concurrency=given.get("concurrency"),
        users=given.get("users"),
        slo=Slo(
            ttft_s=given.get("ttft"),
            tpot_s=given.get("tpot"),
            e2e_s=given.get("e2e"),
            percentile=given.get("percentile", 95.0),
        ),
        shape=read_shape(given),
        precisions=tuple(number_format(name).name for name in given.get("precision", ())),
        quality_floor=given.get("quality"),
        kv_precision=number_format(given["kv_precision"]).name if "kv_precision" in given else None,
        engines=given.get("engine", (SERVING_ENGINE,)),
        filters=read_filters(given, additions),
        headroom=given.get("headroom", 0.25),
        spare_replicas=given.get("spare_replicas", 0),
        budget_usd_per_h=given.get("budget"),
        max_context=int(given["context"]) if "context" in given else None,
        quick=given.get("quick", False),
        pools=given.get("pools", False),
        zones=given.get("zones", 1),
        idle_timeout_s=given.get("idle_timeout", 900.0),
        start_from=given.get("start_from", "network"),
        cold_start_s=given.get("cold_start"),
    )


def train_request(values: Mapping[str, Any], *, additions: Additions = catalog.NOTHING) -> Train:
    """
    A pre-training request from named texts.

    Raises
    ------
    BadRequest
        An unknown field, a value out of range or of the wrong kind, or fields that contradict.
    """
    given = read_fields(values, TRAIN_FIELDS)
    _need_model(given)
    if "tokens" not in given:
        raise BadRequest("tokens is missing: say how many to train on, for example '100B'")
    if given["tokens"] < given.get("seq_len", 1024):
        raise BadRequest(f"tokens: {given['tokens']:,.0f} are fewer than one sequence")
    return Train(tokens=given["tokens"], seq_len=given.get("seq_len"), **_run(given, additions))


def finetune_request(values: Mapping[str, Any], *, additions: Additions = catalog.NOTHING) -> FineTune:
    """
    A fine-tuning request from named texts.

    Raises
    ------
    BadRequest
        An unknown field, a value out of range or of the wrong kind, or fields that contradict.
    """
    given = read_fields(values, FINETUNE_FIELDS)
    _need_model(given)
    if "tokens" in given and "examples" in given:
        raise BadRequest("tokens and examples contradict: give tokens, or examples with tokens_per_example")
    if "tokens" not in given and "examples" not in given:
        raise BadRequest("no data is given: give examples (50k) with tokens_per_example (800), or tokens (40M)")
    return FineTune(
        method=given.get("method", "lora"),
        tokens=given.get("tokens"),
        examples=given.get("examples"),
        tokens_per_example=given.get("tokens_per_example"),
        epochs=given.get("epochs", 1.0),
        seq_len=given.get("seq_len", 2048),
        packed=given.get("packed", True),
        lora_rank=given.get("lora_rank", 16),
        image_px=given.get("image_px"),
        **_run(given, additions),
    )


def _need_model(given: Mapping[str, Any]) -> None:
    if "model" not in given:
        raise BadRequest("model is missing: name one, for example 'meta-llama/Llama-3.1-8B-Instruct' or '13B'")


def _run(given: Mapping[str, Any], additions: Additions) -> dict[str, Any]:
    """What pre-training and fine-tuning requests share."""
    precision = number_format(given.get("precision", "bf16")).name
    if precision not in TRAINING_PRECISIONS:
        raise BadRequest(
            f"precision: products of a training step do not run in '{precision}'; give {', '.join(TRAINING_PRECISIONS)}"
        )
    count, most = given.get("count"), given.get("max_accelerators")
    if count is not None and most is not None and count > most:
        raise BadRequest(f"count {count} is beyond max_accelerators {most}; drop one of the two")
    return {
        "model": given["model"],
        "global_batch": given.get("global_batch"),
        "deadline_s": given.get("deadline"),
        "budget_usd": given.get("budget"),
        "precision": precision,
        "optimizer": optimizer(given.get("optimizer", "adamw")).name,
        "restartable": given.get("restartable", True),
        "filters": read_filters(given, additions),
        "count": count,
        "framework": given.get("framework"),
        "checkpoint": given.get("checkpoint", "async"),
        "spares": given.get("spares"),
        **{name: given[name] for name in ("validation", "headroom") if name in given},
    }


def read_fields(values: Mapping[str, Any], fields: tuple[Field, ...]) -> dict[str, Any]:
    """Every given value read by its field's kind; absent ones are left out."""
    known = {field.name: field for field in fields}
    given: dict[str, Any] = {}
    for name, value in values.items():
        key = str(name).replace("-", "_")
        if key not in known:
            raise UnknownName("field", str(name), known=known)
        if value is None or value in ((), []):
            continue
        given[key] = _read(value, known[key])
    return given


def _read(value: Any, field: Field) -> Any:
    if field.reads == "flag":
        return _flag(value, field)
    if field.reads == "list":
        return _names(value, field)
    if isinstance(value, (dict, list)):
        raise BadRequest(f"{field.name}: one value is expected, not {echo(value)}; {field.help}")
    if field.reads == "text":
        if not str(value).strip():
            raise BadRequest(f"{field.name} is empty; {field.help}")
        if field.choices and str(value).strip() not in field.choices:
            raise UnknownName(field.name, str(value), known=field.choices)
        # One object for one word: defaults are left out of files by identity, whichever face the word came through.
        return sys.intern(str(value).strip())
    number = units.read(value, "count" if field.reads == "integer" else field.reads, field=field.name)
    if not field.low < number <= field.high:
        raise BadRequest(f"{field.name}: '{echo(value)}' is out of range; expected {_range(field)}")
    if field.reads == "integer":
        if number != int(number):
            raise BadRequest(f"{field.name}: '{echo(value)}' must be a whole number")
        return int(number)
    return number


def _range(field: Field) -> str:
    high = "" if field.high == math.inf else f" and at most {units.show(field.high, _dimension(field))}"
    least = (
        f"at least {units.show(0.0, _dimension(field))}"
        if field.low < 0
        else (f"more than {units.show(field.low, _dimension(field))}")
    )
    return f"{least}{high}"


def _dimension(field: Field) -> str:
    return "count" if field.reads == "integer" else field.reads


def _flag(value: Any, field: Field) -> bool:
    if isinstance(value, bool):
        return value
    text = str(value).strip().lower()
    if text in {"true", "yes", "on", "1"}:
        return True
    if text in {"false", "no", "off", "0"}:
        return False
    raise BadRequest(f"{field.name}: '{echo(value)}' must be true or false")


def _names(value: Any, field: Field) -> tuple[str, ...]:
    if isinstance(value, dict):
        raise BadRequest(f"{field.name}: a list of names is expected, not {echo(value)}")
    parts = value if isinstance(value, (list, tuple)) else str(value).split(",")
    names = tuple(str(part).strip() for part in parts if str(part).strip())
    if not names:
        raise BadRequest(f"{field.name} is empty; {field.help}")
    for name in names:
        if field.choices and name not in field.choices:
            raise UnknownName(field.name, name, known=field.choices)
    return names


def read_lengths(given: Mapping[str, Any]) -> Lengths:
    """Prompt and answer lengths from fields already read: both, or those of a traffic profile."""
    explicit = [name for name in ("prompt_tokens", "output_tokens") if name in given]
    if "traffic" not in given and len(explicit) == 1:
        missing = "output_tokens" if explicit == ["prompt_tokens"] else "prompt_tokens"
        raise BadRequest(f"{missing} is missing: give both lengths, or a traffic profile such as chat")
    lengths = traffic.profile(given.get("traffic", "chat")).lengths if len(explicit) < 2 else None
    if not explicit and lengths is not None:
        return lengths
    prompt, output = given.get("prompt_tokens"), given.get("output_tokens")
    if min(value for value in (prompt, output, 1.0) if value is not None) < 1:
        raise BadRequest("prompt_tokens and output_tokens must be at least 1")
    if lengths is None:
        assert prompt is not None and output is not None
        return Lengths(prompt_tokens=prompt, output_tokens=output)
    return msgspec.structs.replace(
        lengths,
        prompt_tokens=prompt or lengths.prompt_tokens,
        output_tokens=output or lengths.output_tokens,
        prompt_p95=None if prompt else lengths.prompt_p95,
        output_p95=None if output else lengths.output_p95,
    )


def read_shape(given: Mapping[str, Any]) -> LoadShape:
    """How the load varies: by the hour, in bursts and pauses, or by its peak alone."""
    measured = traffic.profile(given["traffic"]).dispersion if "traffic" in given else None
    ways = [name for name in ("day", "on_for", "peak_to_mean") if name in given]
    if len(ways) > 1:
        raise BadRequest(f"{' and '.join(ways)} contradict: each says by itself how far the peak is above the mean")
    if ("on_for" in given) != ("off_for" in given):
        raise BadRequest("an intermittent load needs both on_for ('10 min') and off_for ('2 h')")
    if ways and ways[0] != "peak_to_mean" and "concurrency" in given:
        raise BadRequest(f"{ways[0]} needs a rate or users: a fixed concurrency does not rise and fall")
    if "day" in given:
        return _by_the_hour(given["day"], measured or 1.0)
    if "on_for" in given:
        on, off = given["on_for"], given["off_for"]
        return LoadShape(
            kind="intermittent", peak_to_mean=(on + off) / on, dispersion=measured or 1.0, on_s=on, off_s=off
        )
    peak = given.get("peak_to_mean", 1.0)
    return LoadShape(kind="bursty" if peak > 1 else "flat", peak_to_mean=peak, dispersion=measured or 1.0)


def _by_the_hour(said: tuple[str, ...], dispersion: float) -> LoadShape:
    """A built-in shape by its name, or rates of the hours of a day or a week."""
    if len(said) == 1:
        known = traffic.shape(said[0])
        name, hours = known.name, known.hours
    else:
        name, hours = "", tuple(units.read(x, "count", field="day") for x in said)
    if len(hours) not in {24, 168} or min(hours) < 0 or not max(hours) > 0:
        raise BadRequest(
            f"day: {len(hours)} rates from {min(hours):g} to {max(hours):g}; give a name such as consumer, or 24 "
            f"(a day) or 168 (a week) rates of at least 0, one of them above it"
        )
    mean = sum(hours) / len(hours)
    return LoadShape(
        kind="diurnal" if len(hours) == 24 else "weekly",
        peak_to_mean=max(hours) / mean,
        dispersion=dispersion,
        name=name,
        hours=tuple(hour / mean for hour in hours),
    )


def read_filters(given: Mapping[str, Any], additions: Additions) -> Filters:
    """Constraints on accelerators and offers from fields already read, in the catalogue's own spelling."""
    accelerators = tuple(catalog.predictable(name, additions).id for name in given.get("accelerator", ()))
    excluded = tuple(catalog.accelerator(name, additions).id for name in given.get("exclude", ()))
    offers = catalog.offers(additions=additions)
    both = set(accelerators) & set(excluded)
    if both:
        raise BadRequest(f"accelerator '{min(both)}' is both wanted and excluded; drop one of the two")
    return Filters(
        accelerators=accelerators,
        exclude_accelerators=excluded,
        vendors=_known("vendor", given, {a.vendor for a in catalog.accelerators(additions).values()}),
        segments=given.get("segment", ()),
        providers=_known("provider", given, {offer.provider for offer in offers}),
        regions=_known("region", given, {offer.region for offer in offers if offer.region}),
        countries=_known("country", given, {offer.country for offer in offers if offer.country}),
        eu=given.get("eu") or None,
        ecc=given.get("ecc") or None,
        nvlink=given.get("nvlink") or None,
        terms=given.get("term", ("on-demand",)),
        max_count=given.get("max_accelerators"),
        certifications=given.get("certification", ()),
        max_power_w=given.get("max_power"),
        marketplace=given.get("marketplace", True),
        community=given.get("community", False),
        mig=given.get("mig") or None,
        always_on=given.get("always_on") or None,
        provider_kinds=given.get("provider_kind", ()),
        eu_owned=given.get("eu_owned") or None,
        billing_step_s=BILLING[given["billing"]] if "billing" in given else None,
        free_egress=given.get("free_egress") or None,
        provisioning_s=given.get("provisioning"),
    )


def _known(name: str, given: Mapping[str, Any], known: set[str]) -> tuple[str, ...]:
    """Names the catalogue has, in its own spelling."""
    if name not in given:
        return ()
    folded = {item.lower(): item for item in known}
    for wanted in given[name]:
        if wanted.lower() not in folded:
            close = nearest(wanted, known)
            raise _suggest(name, wanted, close) if close else UnknownName(name, wanted, known=known)
    return tuple(folded[wanted.lower()] for wanted in given[name])


def _suggest(name: str, wanted: str, close: tuple[str, ...]) -> BadRequest:
    return BadRequest(f"no {name} '{echo(wanted)}' in the offers; did you mean {' or '.join(close)}?")
