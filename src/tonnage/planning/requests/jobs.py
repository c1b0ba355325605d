"""`tonnage plan train`, `finetune`, `rl` and `infer`: what people write becomes the request of each."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final, TypeVar

from tonnage import catalog
from tonnage.catalog import Additions
from tonnage.domain.requests.infer import Infer, Video
from tonnage.domain.requests.rl import Rl
from tonnage.domain.requests.train import FineTune, Train
from tonnage.errors import BadRequest, echo
from tonnage.planning.requests.reading import build, need_model, read_fields
from tonnage.planning.requests.serve import read_filters

PRECISIONS: Final = ("bf16", "fp16", "tf32", "fp32", "fp8", "mxfp8", "nvfp4")
"""What products of a training step run in."""

Job = TypeVar("Job", Train, FineTune)


def train_request(values: Mapping[str, Any], *, additions: Additions = catalog.NOTHING) -> Train:
    """
    A pre-training request from named texts.

    Raises
    ------
    BadRequest
        An unknown field, a value out of range or of the wrong kind, or fields that contradict.
    """
    given = read_fields(values, Train)
    need_model(given)
    if "tokens" not in given:
        raise BadRequest("tokens is missing: say how many to train on, for example '100B'")
    if given["tokens"] < given.get("seq_len", 1024):
        raise BadRequest(f"tokens: {given['tokens']:,.0f} are fewer than one sequence")
    return _job(Train, given, additions)


def finetune_request(values: Mapping[str, Any], *, additions: Additions = catalog.NOTHING) -> FineTune:
    """
    A fine-tuning request from named texts.

    Raises
    ------
    BadRequest
        An unknown field, a value out of range or of the wrong kind, or fields that contradict.
    """
    given = read_fields(values, FineTune)
    need_model(given)
    if "tokens" in given and "examples" in given:
        raise BadRequest("tokens and examples contradict: give tokens, or examples with tokens_per_example")
    if "tokens" not in given and "examples" not in given:
        raise BadRequest("no data is given: give examples (50k) with tokens_per_example (800), or tokens (40M)")
    return _job(FineTune, given, additions)


def _job(struct: type[Job], given: Mapping[str, Any], additions: Additions) -> Job:
    """Either of them, after what pre-training and fine-tuning requests share."""
    job = build(struct, given, additions=additions, filters=read_filters(given, additions))
    if job.precision not in PRECISIONS:
        raise BadRequest(
            f"precision: products of a training step do not run in '{job.precision}'; give {', '.join(PRECISIONS)}"
        )
    _check_count(job)
    return job


def _check_count(job: Train | FineTune | Rl) -> None:
    most = job.filters.max_count
    if job.count is not None and most is not None and job.count > most:
        raise BadRequest(f"count {job.count} is beyond max_accelerators {most}; drop one of the two")


def rl_request(values: Mapping[str, Any], *, additions: Additions = catalog.NOTHING) -> Rl:
    """
    A request for reinforcement learning from named texts.

    Raises
    ------
    BadRequest
        An unknown field, a value out of range or of the wrong kind, or fields that contradict.
    """
    given = read_fields(values, Rl)
    need_model(given)
    if "steps" not in given:
        raise BadRequest("steps is missing: say how many steps of rollout and training to run, for example 200")
    if "response_tokens" not in given:
        raise BadRequest("response_tokens is missing: say how long a response is on average, for example 2000")
    longest = given.get("max_response_tokens")
    if longest is not None and longest <= given["response_tokens"]:
        raise BadRequest(
            f"max_response_tokens: {longest:,.0f} is not above the mean of {given['response_tokens']:,.0f}; "
            "raise it, or lower response_tokens"
        )
    request = build(Rl, given, additions=additions, filters=read_filters(given, additions))
    stale, count, rollout = request.staleness, request.count, request.rollout_count
    if rollout is not None and not stale:
        raise BadRequest(
            f"rollout_count: {rollout} accelerators that only generate need staleness 1 or more; on policy they would "
            "wait while the others train"
        )
    if rollout is not None and count is not None and rollout >= count:
        raise BadRequest(f"rollout_count: {rollout} of {count} leave none to train; give less than {count}")
    most = request.filters.max_count
    if rollout is not None and most is not None and rollout >= most:
        raise BadRequest(f"rollout_count: {rollout} of at most {most} (max_accelerators) leave none to train")
    if request.partial_rollouts and not stale:
        raise BadRequest("partial_rollouts: on policy every response ends before the update; give staleness 1 or more")
    if request.algorithm != "ppo" and request.responses_per_prompt < 2:
        raise BadRequest("responses_per_prompt: a group needs 2 or more to compare; give 2 or more, or algorithm ppo")
    if request.turns <= 1.0 and (lone := next((n for n in ("environment", "observation_tokens") if given.get(n)), "")):
        raise BadRequest(f"{lone}: a response of one turn has no environment; give turns above 1, or leave {lone} out")
    responses = request.prompts_per_step * request.responses_per_prompt
    if request.train_batch is not None and request.train_batch > responses:
        raise BadRequest(f"train_batch: {request.train_batch} is more than the {responses} responses of a step")
    _check_count(request)
    return request


FRAMES: Final = {"480p": (854, 480), "720p": (1280, 720), "1080p": (1920, 1080), "1440p": (2560, 1440),
                 "4k": (3840, 2160), "2160p": (3840, 2160)}  # fmt: skip


def infer_request(values: Mapping[str, Any], *, additions: Additions = catalog.NOTHING) -> Infer:
    """
    An inference request from named texts.

    Raises
    ------
    BadRequest
        An unknown field, a value out of range, no load, or two.
    """
    given = read_fields(values, Infer)
    need_model(given, "ultralytics/yolov8m' or 'openai/whisper-large-v3")
    loads = [name for name in ("rate", "streams", "audio") if name in given]
    if len(loads) != 1:
        said = f"{' and '.join(loads)} contradict each other" if loads else "no load is given"
        raise BadRequest(
            f"{said}; say one of rate (400/s), streams with fps (20 cameras at 25), or audio (hours per hour)"
        )
    video = _video(given)
    rate = given.get("rate") or given.get("audio") or 0.0
    if video is not None:
        rate = video.streams * video.frames_per_s / video.every
    if "hours" in given and "battery" not in given:
        raise BadRequest("hours is how long a battery must last; give battery as well, such as '90 Wh'")
    return build(
        Infer, given, additions=additions, rate_per_s=rate, video=video, filters=read_filters(given, additions)
    )


def _video(given: Mapping[str, Any]) -> Video | None:
    if "streams" not in given:
        stray = [name for name in ("fps", "every", "frame", "codec", "decode") if name in given]
        if stray:
            raise BadRequest(f"{stray[0]} belongs to video; give streams as well, such as 20")
        return None
    if "fps" not in given:
        raise BadRequest("streams without fps: say how many frames a second each has, such as 25")
    return build(Video, {**given, "frame": _frame(given["frame"])} if "frame" in given else given)


def _frame(text: str) -> tuple[int, int]:
    name = text.strip().lower()
    sized = re.fullmatch(r"(\d{2,5})x(\d{2,5})", name)
    if sized:
        return int(sized.group(1)), int(sized.group(2))
    if name not in FRAMES:
        raise BadRequest(f"frame: '{echo(text)}' is no frame size; write 1280x720 or one of {', '.join(FRAMES)}")
    return FRAMES[name]
