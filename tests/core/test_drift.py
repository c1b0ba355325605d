"""Few points move predictions near them, the same in every answer, and leave intervals that widen with distance."""

import math
from functools import partial
from pathlib import Path
from typing import Any

import msgspec
import pytest

import tonnage
from tonnage.catalog import Additions, gather
from tonnage.catalog.additions import calibration_toml, calibrations
from tonnage.catalog.fitted import priors
from tonnage.catalog.published import published_points
from tonnage.catalog.spreads import spread
from tonnage.core.drift import place_of
from tonnage.domain.calibration import Calibration, Learnt
from tonnage.domain.case import ServeResult
from tonnage.domain.layout import Layout
from tonnage.domain.measurement import MEASUREMENT_SCHEMA, Measurement
from tonnage.errors import BadFact
from tonnage.measure.points import read_pasted
from tonnage.questions.calibrate.calibrate import calibrate
from tonnage.questions.calibrate.loads import Stack
from tonnage.questions.calibrate.posterior import posterior
from tonnage_accuracy.own_engine import next_point

MODEL, PART = "llama-3.1-8b", "h100-sxm5-80gb"
STACK = Stack(model=MODEL, accelerator=PART, engine="vllm")
PATHS: tuple[tuple[str, ...], ...] = ((), ("published",), ("none", "published"))
ROWS = (
    "TTFT 200 ms, TPOT 9 ms at 32 clients, 1024/256 tokens",
    "TTFT 700 ms, TPOT 16 ms at 128 clients, 1024/256 tokens",
)


@pytest.fixture(scope="module")
def fitted() -> Calibration:
    """What two pasted rows teach that no scale of kernels and host times explains: quicker, but later first tokens."""
    points = tuple(read_pasted(row).points[0] for row in ROWS)
    return calibrate([(Measurement(schema=MEASUREMENT_SCHEMA, tool="pasted", points=points), STACK)]).calibration


@pytest.fixture(scope="module")
def own(fitted: Calibration, tmp_path_factory: pytest.TempPathFactory) -> Additions:
    """The same from its file."""
    path = tmp_path_factory.mktemp("own") / "own.toml"
    path.write_text(calibration_toml(fitted))
    return Additions(paths=(str(path),))


def asked(load: dict[str, Any], own: Additions | None = None, *, model: str = MODEL, **more: Any) -> ServeResult:
    """A prediction of such a load."""
    case = {"kind": "serve", "model": model, "accelerator": PART, "engine": "vllm", "isl": 1024, "osl": 256}
    return tonnage.predict(case | more | {"traffic": load}, additions=own)


def test_published_rows_move_their_own_configuration_where_they_are_asked_for() -> None:
    """Nearer to the row at its own place, as sure as its level says, and no other model of the stack moved."""
    part, engine, model = "h200-sxm-141gb", "sglang", "deepseek-ai/DeepSeek-R1"
    points = published_points(part, engine, model=model)
    row = max((one for one in points.learnt if one.quantity == "tpot_s"), key=lambda one: abs(one.left))
    clients, prompt, answer, *degrees = row.place
    tp, dp, pp, ep = map(int, degrees)
    release, weights, kv = row.setting.split()
    case = {
        "kind": "serve",
        "model": model,
        "accelerator": part,
        "engine": engine,
        "engine_version": release,
        "precision": {"weights": weights, "kv": kv},
        "layout": {"tp": tp, "dp": dp, "pp": pp, "ep": ep},
        "isl": prompt,
        "osl": answer,
        "traffic": {"concurrency": clients, "start": "together"},
        "length_spread": [0.8, 1.0],  # so that nothing which it leaves open is quicker, and moves the lower end
        "engine_options": {"max_num_batched_tokens": 8192},
    }
    without, given, none = (tonnage.predict(case, additions=gather(paths=paths)) for paths in PATHS)
    assert none == without
    moved = math.log(given.tpot_s.mean / without.tpot_s.mean)
    assert 0.3 < moved / row.left < 1.2
    assert given.tpot_s.low / given.tpot_s.mean == pytest.approx(spread("serve", "tpot_s", level=given.level).at(-1.0))
    (use,) = given.calibrations
    assert use.published and use.points == points.points and not without.calibrations
    assert use.moved[0].factor == pytest.approx(math.exp(moved))
    other = case | {"model": "mistralai/Mistral-7B-v0.1"}
    assert tonnage.predict(other, additions=gather(paths=PATHS[1])) == tonnage.predict(other)


def test_a_users_own_points_come_before_published_ones(own: Additions) -> None:
    both = msgspec.structs.replace(own, published=True)
    assert asked({"concurrency": 32.0}, both) == asked({"concurrency": 32.0}, own)


def test_what_was_measured_is_met_and_what_is_far_is_less_sure(own: Additions) -> None:
    # Pasted rows are of benchmarks, whose clients start together.
    seen = {load: asked({"concurrency": load, "start": "together"}, own) for load in (32.0, 128.0, 512.0)}
    assert seen[32].tpot_s.mean == pytest.approx(0.009, rel=0.02)
    assert seen[32].ttft_s.mean == pytest.approx(0.2, rel=0.05)
    assert seen[128].tpot_s.mean == pytest.approx(0.016, rel=0.02)
    assert seen[128].ttft_s.mean == pytest.approx(0.7, rel=0.05)
    widths = [seen[load].tpot_s.high / seen[load].tpot_s.mean for load in (32.0, 512.0)]
    plain = asked({"concurrency": 512.0, "start": "together"})
    assert widths[0] < 1.12 < widths[1] < plain.tpot_s.high / plain.tpot_s.mean
    # Its own pace moves the rate with the time per token, but for what prompts take between tokens: Little's law holds
    # of the closed loop as far as those waits are known, and of equal lengths, where no slot is empty at the end.
    even = asked({"concurrency": 32.0, "start": "together"}, own, length_spread=[1.0, 1.0])
    assert even.e2e_s.mean * even.requests_per_s.value == pytest.approx(32.0, rel=0.08)


def test_another_model_takes_a_part_of_it(own: Additions) -> None:
    plain, taught = (asked({"concurrency": 128.0}, x, model="Qwen/Qwen3-8B") for x in (None, own))
    seen, before = asked({"concurrency": 128.0}, own), asked({"concurrency": 128.0})
    moved, whole = (math.log(a.tpot_s.mean / b.tpot_s.mean) for a, b in ((taught, plain), (seen, before)))
    assert 0.2 < moved / whole < 0.7
    assert taught.tpot_s.high / taught.tpot_s.mean > seen.tpot_s.high / seen.tpot_s.mean


def test_a_plan_a_prediction_and_a_simulation_say_the_same(own: Additions) -> None:
    fields = {"rate": "6/s", "prompt_tokens": 1024, "output_tokens": 256, "accelerator": [PART], "engine": "vllm"}
    plan = tonnage.plan_serve(MODEL, additions=own, precision=["bf16"], quick=True, ttft="2 s", tpot="50 ms", **fields)
    option = plan.options[0]
    predicted = asked({"rate_per_s": 6.0}, own)
    assert option.replicas == 1 and option.configuration.layout.ranks == 1
    assert option.capacity.tpot_mean_s == pytest.approx(predicted.tpot_s.mean, rel=0.01)
    traffic = {"rate": "6/s", "requests": 400, "prompt_tokens": 1024, "output_tokens": 256}
    run = partial(tonnage.simulate, model=MODEL, accelerator=PART, engine="vllm", traffic=traffic)
    runs = [run(additions=x) for x in (None, own)]
    plain = asked({"rate_per_s": 6.0})
    for name in ("tpot_s", "ttft_s"):
        simulated = getattr(runs[1], name).mean / getattr(runs[0], name).mean
        assert simulated == pytest.approx(getattr(predicted, name).mean / getattr(plain, name).mean, rel=0.1)


def test_a_file_of_an_earlier_schema_opens_and_a_spoilt_one_is_named(fitted: Calibration, tmp_path: Path) -> None:
    text = calibration_toml(fitted)
    back = calibrations(_file(tmp_path, text))[0]
    assert [one.left for one in back.learnt] == pytest.approx([one.left for one in fitted.learnt], rel=1e-4)
    older = text[: text.index("widths.memory")].replace("tonnage.calibration/3", "tonnage.calibration/2")
    assert calibrations(_file(tmp_path, older))[0].learnt == ()
    for right, wrong, said in (
        ("place = [32, ", "place = [", "numbers of a place"),
        ("noise = ", "noisy = ", "learnt"),
    ):
        with pytest.raises(BadFact, match=said):
            calibrations(_file(tmp_path, text.replace(right, wrong)))


def _file(folder: Path, text: str) -> Additions:
    path = folder / f"{abs(hash(text))}.toml"
    path.write_text(text)
    return Additions(paths=(str(path),))


SHARES = (0.7, 0.1, 0.1, 0.05, 0.05, 0.0, 0.0)


def number(load: float, left: float = 0.0, quantity: str = "tpot_s", part: float = 0.0) -> Learnt:
    """A time per token at so many clients."""
    place = place_of(load, Layout(), prompt_tokens=1024, output_tokens=256)
    return Learnt("m", quantity, place, left=left, shares=SHARES, part=part)


def test_nearer_loads_are_moved_more_and_surer() -> None:
    found = posterior([number(8, 0.3)], priors("serve"))
    near, far = number(10), number(1000)
    drifts = found.drift([near, far])
    assert 0.0 < drifts[1] < drifts[0] < 0.3
    assert found.spread([near])[0] < found.spread([far])[0]
    rate = found.drift([number(10, quantity="output_tokens_per_s")])
    assert rate[0] == pytest.approx(-drifts[0])


def test_the_next_point_is_where_nothing_near_was_measured() -> None:
    candidates = [[number(load)] for load in (1, 2, 256)]
    assert next_point(candidates, priors("serve"), taken=[0]) == 2
    widths = msgspec.structs.replace(priors("serve"), drift={"pace": 1e-6, "first": 1e-6})
    assert next_point(candidates, widths, taken=[]) in {0, 1, 2}


def test_waits_for_other_prompts_say_little_of_steps_and_the_rate_holds() -> None:
    """A slow time per token is slower steps where nothing lies between tokens; else it may be waits, there alone."""
    plain, waiting = number(8, 0.3), number(8, 0.3, part=0.6)
    alone, rate = number(8), number(8, quantity="output_tokens_per_s")
    steps = [posterior([one], priors("serve")).drift([alone])[0] for one in (plain, waiting)]
    assert 0.0 < steps[1] < 0.5 * steps[0]
    found = posterior([waiting], priors("serve"))
    met = found.drift([number(8, part=0.6)])[0] + float(found.mean @ SHARES)
    assert met == pytest.approx(0.3, rel=0.1)
    assert found.drift([rate])[0] == pytest.approx(-steps[1])
    # Of like loads the one whose steps can be seen is asked first.
    assert next_point([[number(8, part=0.3)], [number(8)], [number(12)]], priors("serve")) == 1
