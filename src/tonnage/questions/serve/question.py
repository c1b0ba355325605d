"""Serving: what people write becomes a `Serve`, its sessions and images with it; how the faces ask it."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from typing import Any, Final

from msgspec.structs import replace

from tonnage import catalog
from tonnage.catalog import Additions
from tonnage.catalog.traffic import session_profile
from tonnage.core.load_fields import read_filters, read_lengths, read_shape
from tonnage.core.reading import build, need_model, read_fields
from tonnage.domain.layout import SERVING_ENGINE
from tonnage.domain.plan import ServePlan
from tonnage.domain.requests.field import fields_of
from tonnage.domain.requests.groups import AdapterFields, SessionFields, pixels_of
from tonnage.domain.requests.serve import Serve
from tonnage.errors import BadRequest
from tonnage.questions.question import LENGTHS, QUICKER, Form, Question
from tonnage.units import show

SECONDS_BETWEEN_REQUESTS: Final = 60.0
"""Of one active user, when the request does not say. Assumed, and said so in the plan. [s]"""


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
    given = read_fields(_flat(values), Serve)
    need_model(given)
    loads = [name for name in ("rate", "concurrency", "users") if name in given]
    if len(loads) != 1:
        what = " and ".join(loads) + " contradict" if loads else "no load is given"
        raise BadRequest(f"{what}: give exactly one of rate ('4/s'), concurrency (64) or users (1000)")
    if "think_time" in given and "users" not in given:
        raise BadRequest("think_time only makes sense with users: give users (1000) instead of " + loads[0])
    if given.get("pools") and ("concurrency" in given or not {"ttft", "tpot", "e2e"} & given.keys()):
        raise BadRequest("pools are looked for at a rate and within an objective: give rate ('4/s') and ttft or tpot")
    _check_adapters(given, additions)
    if "users" in given:
        given["rate"] = given["users"] / given.get("think_time", SECONDS_BETWEEN_REQUESTS)
    return build(
        Serve,
        given,
        additions=additions,
        **_with_images(given, _sessions(given, additions), additions),
        shape=read_shape(given),
        filters=read_filters(given, additions),
    )


def refuse_adapters(values: Mapping[str, Any], *, what: str) -> None:
    """Refuses fields of LoRA adapters, which are planned for one service, where several share accelerators."""
    known = {field.name for field in fields_of(AdapterFields)}
    stray = next((str(name) for name in values if str(name).replace("-", "_") in known), None)
    if stray is not None:
        raise BadRequest(
            f"{stray}: {what} plans no LoRA adapters; plan that service by itself with `tonnage plan serve MODEL "
            "--adapters N`, and leave it or its adapters out here"
        )


def _check_adapters(given: Mapping[str, Any], additions: Additions) -> None:
    """Refuses adapter fields that do not go together, or that no engine of the request serves."""
    fields = build(AdapterFields, given, additions=additions)
    if fields.adapters is None:
        lone = next((name for name in ("adapter_rank", "adapter_skew", "adapter_targets") if name in given), None)
        if lone is not None:
            raise BadRequest(f"{lone} says nothing without adapters: give adapters, how many there are ('64')")
        return
    least = min(("adapters", fields.adapters), ("adapter_rank", fields.adapter_rank), key=lambda each: each[1])
    if least[1] < 1:
        raise BadRequest(f"{least[0]}: {least[1]} must be at least 1; leave adapters out where there are none")
    if given.get("pools"):
        raise BadRequest("pools and adapters contradict: separate workers are not planned with adapters; drop one")
    from tonnage.questions.serve.drafts import check_adapters

    check_adapters(fields, engines=tuple(given.get("engine") or (SERVING_ENGINE,)))


def _flat(values: Mapping[str, Any]) -> Mapping[str, Any]:
    """
    The values with fields of a `traffic:` block beside the others, its profile as the traffic; unchanged without such a
    block.
    """
    block = values.get("traffic")
    if not isinstance(block, Mapping):
        return values
    if not block:
        raise BadRequest("traffic: it is empty; give a profile such as chat, or leave it out")
    twice = sorted(set(block) & set(values))
    if twice:
        raise BadRequest(f"traffic.{twice[0]} and {twice[0]} contradict; write it once")
    named = {("traffic" if name == "profile" else name): value for name, value in block.items()}
    return {**{name: value for name, value in values.items() if name != "traffic"}, **named}


_OF_IMAGES: Final = ("image_size", "image_hits", "distinct_images")
_OF_SESSIONS: Final = ("turns", "turn_gap", "system_prompt", "branching", "kv_host", "kv_nvme", "kv_store")


def _with_images(given: Mapping[str, Any], read: dict[str, Any], additions: Additions) -> dict[str, Any]:
    """
    Lengths whose prompts hold the tokens of images beside the text, as the model itself cuts images up.

    What sessions find again of prompts with images is not known here: it is taken as stated, or as nothing.
    """
    if "images" not in given:
        lone = next((name for name in _OF_IMAGES if name in given), None)
        if lone is not None:
            raise BadRequest(f"{lone} says nothing without images: give images, of each request ('1')")
        return read
    clash = next((name for name in _OF_SESSIONS if name in given), None)
    if clash is not None:
        raise BadRequest(
            f"images and {clash}: sessions whose prompts hold images are not simulated; leave {clash} out, and state"
            " prefix_hits if you know what prompts find again"
        )
    if "image_hits" in given and "distinct_images" in given:
        raise BadRequest("image_hits and distinct_images contradict: the share found again follows from the second")
    if "image_size" not in given:
        raise BadRequest("image_size is missing: say how large the images are, for example '1024x768'")
    from tonnage.catalog.hub.resolve import resolve
    from tonnage.physics.vision import encoder_of, image_of

    tower = encoder_of(resolve(given["model"], additions=additions))
    width, height = pixels_of(given["image_size"])
    images = replace(
        image_of(tower, width=width, height=height, per_request=given["images"]),
        hits=given.get("image_hits"),
        distinct=given.get("distinct_images"),
    )
    lengths, added = read["lengths"], images.prompt_tokens
    tail = lengths.prompt_p95 + added if lengths.prompt_p95 else None
    lengths = replace(lengths, prompt_tokens=lengths.prompt_tokens + added, prompt_p95=tail, images=images)
    return {"lengths": lengths, "sessions": replace(read["sessions"], reuse=False)}


def _sessions(given: Mapping[str, Any], additions: Additions) -> dict[str, Any]:
    """Lengths and sessions, which depend on each other where the request states turns or what sessions share."""
    lengths, fields = read_lengths(given), build(SessionFields, given, additions=additions)
    if lengths.profile is None and session_profile(given.get("traffic")) is not None:
        fields = replace(fields, profile=given["traffic"])
    if fields == SessionFields():
        return {"lengths": lengths, "sessions": fields}
    from tonnage.core.session_reuse import check_sessions, drawn_turns, lengths_of, profile_of

    check_sessions(fields, profile=fields.profile or lengths.profile)
    profile = profile_of(fields, lengths)
    if profile is not None:
        explicit = "prompt_tokens" in given or (fields.turns is None and fields.system_prompt is None)
        lengths = lengths if explicit else lengths_of(profile, lengths)
        drawn_turns(profile, prompt_tokens=lengths.prompt_tokens, output_tokens=lengths.output_tokens)
    return {"lengths": lengths, "sessions": fields}


UNNAMED: Final = "8B"


NOMINAL: Final = "1/s"
"""Model and load that a service is read with before its own are found."""


def service_fields(values: Mapping[str, Any], *, model: str | None) -> dict[str, Any]:
    """
    Fields of one service among the values, others dropped; a nominal load always, and a stand-in model where none is
    named, for both are found later.
    """
    known = {field.name for field in fields_of(Serve)}
    asked = {name: value for name, value in values.items() if name in known}
    return {**asked, "model": model or UNNAMED, "rate": NOMINAL}


QUESTIONS = (
    Question(
        name="serve",
        room="serve",
        request=Serve,
        answer=ServePlan,
        help="""
    Accelerators, layout and replicas that serve MODEL at this load, within the objectives, cheapest first.

    \b
    tonnage plan serve Llama-3.1-70B --rate 4/s --traffic chat --ttft "1 s" --tpot "50 ms"
    tonnage plan serve 8B --users 500 --traffic rag --ttft "2 s" --eu --quick
    tonnage plan serve Qwen/Qwen3-32B --concurrency 32 --traffic code -a H100 --why
    """,
        tool="plan_serving",
        form=Form(
            title="Serve a model",
            short="Serve",
            about="From requests and objectives to accelerators, layout, latency and price.",
            at_first="quick",
            essentials=(
                "model",
                "rate",
                "concurrency",
                "users",
                "traffic",
                *LENGTHS,
                "ttft",
                "tpot",
                "budget",
                "eu",
                "accelerator",
                "precision",
            ),
            example={
                "model": "meta-llama/Llama-3.1-70B-Instruct",
                "rate": "4/s",
                "traffic": "chat",
                "ttft": "1 s",
                "tpot": "50 ms",
            },
            instead=QUICKER,
        ),
    ),
)


def command_of(serve: Serve) -> str:
    """The command that asks for a service: its load, lengths and objectives, and what it may run on."""
    lengths, slo, filters = serve.lengths, serve.slo, serve.filters
    words = ["tonnage", "plan", "serve", serve.model, "--rate", f"{serve.rate_per_s or 1.0:.6g}/s"]
    means = ["--prompt-tokens", f"{lengths.prompt_tokens:.0f}", "--output-tokens", f"{lengths.output_tokens:.0f}"]
    words += ["--traffic", lengths.profile] if lengths.profile else means
    words += ["--context", str(serve.max_context)] if serve.max_context else []
    for name, limit in (("--ttft", slo.ttft_s), ("--tpot", slo.tpot_s), ("--e2e", slo.e2e_s)):
        words += [name, show(limit, "s")] if limit else []
    if serve.adapters.adapters is not None:
        words += ["--adapters", str(serve.adapters.adapters), "--adapter-rank", str(serve.adapters.adapter_rank)]
    parts = tuple(map(catalog.part_name, filters.accelerators))
    named = {
        "engine": serve.engines,
        "precision": serve.precisions,
        "accelerator": parts,
        "provider": filters.providers,
    }
    for name, values in named.items():
        words += [f"--{name}", ",".join(values)] if values else []
    words += ["--eu"] if filters.eu else []
    return shlex.join(words)
