"""Which models fit: several that people can download, ranked, to serve and to fine-tune."""

import pytest

from tonnage.catalog.published import downloads
from tonnage.errors import BadRequest
from tonnage.questions.fit.fit import fit
from tonnage.questions.fit.question import FitAnswer, fit_request


def solved(accelerator: str, **fields: object) -> FitAnswer:
    return fit(fit_request({"solve": "model", "accelerator": (accelerator,), **fields}))


def named(answer: FitAnswer) -> list[str]:
    return [one.name for one in answer.rows[0].largest if one.what == "model" and one.name is not None]


def test_several_downloadable_models_are_named_and_the_first_is_opened() -> None:
    answer = solved("RTX 3090")
    models = named(answer)
    assert len(models) > 5
    assert set(models[:-1]) <= {download.model for download in downloads()}
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


def test_fewer_bits_hold_more() -> None:
    def largest(answer: FitAnswer) -> float:
        return next(o.value for o in answer.rows[0].largest if o.name and o.name.endswith("dense decoder"))

    assert largest(solved("RTX 3090", precision="int4")) > 2 * largest(solved("RTX 3090"))


def test_what_can_be_tuned_in_24_gigabytes() -> None:
    plain, quantised = (solved("RTX 3090", finetune=method) for method in ("lora", "qlora"))
    assert plain.fits and quantised.fits
    assert int(quantised.sentence.split(" of ")[0]) > int(plain.sentence.split(" of ")[0])


def test_one_accelerator_is_filled() -> None:
    with pytest.raises(BadRequest, match="exactly one"):
        fit(fit_request({"solve": "model", "accelerator": ("L4", "T4")}))
