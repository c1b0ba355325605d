"""Which models fit: several that people can download, ranked, to serve and to fine-tune."""

from typing import Any

import pytest

import tonnage
from tonnage.errors import BadRequest


def solved(*accelerators: str, **fields: Any) -> Any:
    return tonnage.fit(None, solve="model", accelerator=accelerators, **fields)  # type: ignore[arg-type]


def named(answer: Any) -> list[str]:
    return [one.name for one in answer.rows[0].largest if one.what == "model" and one.name is not None]


def test_several_downloadable_models_are_named_and_the_first_is_opened() -> None:
    answer = solved("RTX 3090")
    models = named(answer)
    assert len(models) > 5
    assert all("/" in name and tonnage.model(name).id == name for name in models[:-1])
    assert models[-1].endswith("B dense decoder")
    assert answer.fits
    assert answer.model == models[0]
    assert "downloadable models fit" in answer.sentence


def test_they_stand_by_published_score_then_by_size() -> None:
    sizes = [one for one in solved("RTX 3090").rows[0].largest if one.what == "model"][:-1]
    scores = [float(one.given.rpartition(" ")[2]) for one in sizes if one.given]
    assert scores == sorted(scores, reverse=True)
    rest = [one.value for one in sizes if not one.given]
    assert rest == sorted(rest, reverse=True)
    assert all(one.given for one in sizes[: len(scores)])


def test_the_task_says_by_which_score() -> None:
    chat, code = solved("RTX 3090"), solved("RTX 3090", task="code")
    assert "by published MMLU-Pro" in chat.sentence and "by published LiveCodeBench v6" in code.sentence
    assert named(chat) != named(code)
    with pytest.raises(BadRequest, match="task ranks models"):
        tonnage.fit("Qwen/Qwen3-8B", task="code")


def test_fewer_bits_hold_more() -> None:
    def largest(answer: Any) -> float:
        return next(o.value for o in answer.rows[0].largest if o.name and o.name.endswith("dense decoder"))

    assert largest(solved("RTX 3090", precision="int4")) > 2 * largest(solved("RTX 3090"))


def test_what_can_be_tuned_in_24_gigabytes() -> None:
    plain, quantised = (solved("RTX 3090", finetune=method) for method in ("lora", "qlora"))
    assert plain.fits and quantised.fits
    assert int(quantised.sentence.split(" of ")[0]) > int(plain.sentence.split(" of ")[0])


def test_one_accelerator_is_filled() -> None:
    with pytest.raises(BadRequest, match="exactly one"):
        solved("L4", "T4")
