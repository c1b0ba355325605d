"""Parts that are only announced never lead; parts without a published throughput are refused in one sentence."""

from collections.abc import Callable
from pathlib import Path

import pytest

from tonnage import catalog
from tonnage.catalog import NOTHING, Additions
from tonnage.core.load_fields import read_filters
from tonnage.core.sites import sites
from tonnage.domain.case import InferCase, ServeCase, Traffic, TrainCase
from tonnage.errors import BadRequest
from tonnage.questions.fit.fit import fit_model
from tonnage.questions.fit.question import FitAnswer, fit_request
from tonnage.questions.predict.inference import predict_infer
from tonnage.questions.predict.serving import predict_serve
from tonnage.questions.predict.training import predict_train
from tonnage.questions.serve.question import serve_request

MODEL = "meta-llama/Meta-Llama-3.1-8B"
OFFERS = """
[[offer]]
provider = "cellar"
accelerator = "mi455x"
count = 4
on_demand = "$0.01/h"
country = "fr"
as_of = 2026-11-01
source = "own list"
"""


def fit(accelerator: str = "") -> FitAnswer:
    named = {"accelerator": accelerator} if accelerator else {}
    return fit_model(catalog.model(MODEL), fit_request({"model": MODEL, **named}))


def serve(accelerator: str) -> ServeCase:
    return ServeCase(model=MODEL, accelerator=accelerator, traffic=Traffic(concurrency=4), isl=1024, osl=256)


def offered(folder: Path) -> Additions:
    path = folder / "own.toml"
    path.write_text(OFFERS, encoding="utf-8")
    return Additions(paths=(str(path),))


def test_no_part_that_is_not_on_sale_is_put_forward() -> None:
    known = catalog.accelerators()
    assert all(known[row.accelerator].status == "released" for row in fit().rows)
    assert all(site.accelerator.status == "released" for site in sites(read_filters({}, NOTHING), additions=NOTHING)[0])


def test_an_offer_far_too_cheap_does_not_make_an_announced_part_lead(tmp_path: Path) -> None:
    additions = offered(tmp_path)
    found, excluded = sites(read_filters({}, additions), additions=additions)
    assert "mi455x" not in {site.accelerator.id for site in found}
    assert [loser.verdict.limit for loser in excluded if loser.what == "mi455x"] == ["announced"]
    found, _ = sites(read_filters({"accelerator": ("mi455x",)}, additions), additions=additions)
    assert [site.accelerator.id for site in found] == ["mi455x"]


def test_a_named_part_that_is_announced_is_answered_and_said_to_be() -> None:
    assert any("MI455X is announced, not measured" in told for told in fit("MI455X").assumed)
    assert any("is announced, not measured" in note for note in predict_serve(serve("mi455x")).notes)
    assert not any("announced" in told for told in fit("mi355x").assumed)


@pytest.mark.parametrize(
    "ask",
    [
        fit,
        lambda part: predict_serve(serve(part)),
        lambda part: predict_train(TrainCase(model=MODEL, accelerator=part, count=8, seq_len=1024, global_batch=8)),
        lambda part: predict_infer(InferCase(model="resnet50", accelerator=part)),
        lambda part: serve_request({"model": MODEL, "rate": "1/s", "traffic": "chat", "accelerator": part}),
    ],
)
@pytest.mark.parametrize("part", ["cerebras-wse-3", "groq", "Corsair", "n300"])
def test_nothing_is_predicted_without_a_published_throughput(ask: Callable[[str], object], part: str) -> None:
    with pytest.raises(BadRequest, match=r"is not published, so nothing is predicted for it; `tonnage catalog") as told:
        ask(part)
    assert "\n" not in str(told.value)
    assert catalog.accelerator(part).id in str(told.value)
