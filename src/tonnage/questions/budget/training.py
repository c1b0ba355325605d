"""
What a sum of money trains: the compute-optimal size, smaller ones on more tokens, and fine-tunes of current models.

A loss law says which size and tokens are best for an amount of arithmetic; the training plan says what arithmetic
costs at that size. Both depend on each other, so size and price are found in turns, each time with a whole plan, until
the run costs what may be spent. What a smaller model on more tokens saves later is read from serving plans of both.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from datetime import date
from functools import partial
from typing import Final

from msgspec.structs import asdict, replace

from tonnage.catalog import Additions
from tonnage.catalog.hub.resolve import resolve
from tonnage.domain.train_plan import FineTune, Train, TrainOption
from tonnage.physics.parameters import active_parameters
from tonnage.physics.rules import compute_optimal_parameters, loss_of
from tonnage.questions.budget.question import ALL_TOKENS, OPTIMAL, AffordableRun, AffordableTune, Budget, LossLaw
from tonnage.questions.serve.plan import serve_options
from tonnage.questions.train.option import chance_of_run
from tonnage.questions.train.plan import train_options

LAWS: Final = (
    LossLaw(
        name="Chinchilla, refitted",
        source="Besiroglu et al. 2024 (arXiv:2404.10102), from the points of Hoffmann et al.",
        irreducible=1.8172,
        parameter_factor=482.01,
        parameter_exponent=0.3478,
        token_factor=2085.43,
        token_exponent=0.3658,
    ),
    LossLaw(
        name="Chinchilla, approach 3",
        source="Hoffmann et al. 2022 (arXiv:2203.15556), appendix D.3, exponents unrounded",
        irreducible=1.69,
        parameter_factor=406.4,
        parameter_exponent=0.3392,
        token_factor=410.7,
        token_exponent=0.2849,
    ),
)
"""
Constants were compared on 2026-11-23 with programs that cite the same papers (E of the second: also 1.6934).
The first decides: it reproduces the points that both were fitted on; the second shows how far laws differ.
"""
DEADLINE_S: Final = 90 * 86400.0
"""Of a run for which none is stated. [s]"""
FLOP_PER_USD: Final = 5e17
"""Where the search starts: an H100-hour at $2.80 and 40 % of its peak. [FLOP/USD]"""
ROUNDS: Final = 5
FAR: Final = 4.0
"""Times the upper end of a cost: nothing that is sure of its deadline is dearer. [-]"""
CLOSE: Final = 0.02
"""Of the budget, left or missing, at which a run is found. [-]"""
SHRINKS: Final = (1.0, 2.0, 4.0, 8.0)
"""The compute-optimal size over those shown. [-]"""
SMALLEST: Final = 20e6
LARGEST: Final = 5e12
"""Sizes that stand for a decoder whose layers are not stated. [parameters]"""
FULL_RATE: Final = 64.0
"""Load at which serving costs are compared: machines are full, whole replicas matter little. [1/s]"""
TUNED: Final = (
    ("Qwen/Qwen3-8B", "full"), ("Qwen/Qwen3-32B", "lora"), ("meta-llama/Llama-3.3-70B-Instruct", "lora"),
)  # fmt: skip
"""Fine-tunes shown where no model is named."""
METHODS: Final = ("qlora", "lora", "full")


def affordable_runs(request: Budget, *, additions: Additions, today: date) -> tuple[AffordableRun, ...]:
    """
    The compute-optimal run first, or the largest on all tokens that there are, then smaller models on more tokens for
    the same money; empty where no size surely trains within budget and deadline.
    """
    planned = partial(_plan_training, request, additions=additions, today=today)
    best = _optimal(request, planned)
    if best is None:
        return ()
    size, option, tokens = best
    found: list[AffordableRun] = []
    for shrink in SHRINKS:
        n = size / shrink
        if n < SMALLEST:
            break
        filled = (
            (option, tokens)
            if shrink == 1.0
            else _most_tokens(request, partial(planned, n), start=tokens * shrink, close=CLOSE, below=CLOSE / 4.0)
        )
        if filled is None:
            continue
        name = f"1/{shrink:g} of the size"
        if shrink == 1.0:
            limited = request.tokens is not None and tokens >= request.tokens
            name = ALL_TOKENS if limited else OPTIMAL
        found.append(_run(n, option=filled[0], tokens=filled[1], name=name))
    return _with_serving(request, found, additions=additions, today=today)


def optimal_range(run: AffordableRun) -> tuple[float, float]:
    """Compute-optimal sizes of the published laws for the arithmetic of a run. [parameters]"""
    sizes = [_optimum(law, 6.0 * run.parameters * run.tokens) for law in LAWS]
    return min(sizes), max(sizes)


def _optimum(law: LossLaw, flop: float) -> float:
    """The compute-optimal size of a law for an amount of arithmetic. [parameters]"""
    return compute_optimal_parameters(
        compute_flop=flop,
        parameter_factor=law.parameter_factor,
        parameter_exponent=law.parameter_exponent,
        token_factor=law.token_factor,
        token_exponent=law.token_exponent,
    )


def _optimal(
    request: Budget, planned: Callable[[float, float], TrainOption | None]
) -> tuple[float, TrainOption, float] | None:
    """
    The size [parameters] whose best run surely costs as much as the budget allows, that run, and its tokens: with
    little data a larger model. None where no run stays within the budget.
    """
    assert request.usd is not None
    flop = request.usd * FLOP_PER_USD
    best: tuple[float, TrainOption, float] | None = None
    for _ in range(2 * ROUNDS):
        size = _optimum(LAWS[0], flop)
        tokens = min(flop / (6.0 * size), request.tokens or math.inf)
        size = min(LARGEST, max(SMALLEST, flop / (6.0 * tokens)))
        option = planned(size, tokens)
        spent = math.inf if option is None else _surely_usd(request, option) / request.usd
        if option is not None and spent <= 1.0:
            if best is None or size * tokens > best[0] * best[2]:
                best = size, option, tokens
            if spent >= 1.0 - CLOSE:
                break
            flop *= (1.0 - CLOSE / 4.0) / spent
        elif best is not None:
            # Another machine at another size: its price is a step, which proportion does not find.
            flop = math.sqrt(6.0 * best[0] * best[2] * flop)
        else:
            flop *= 0.25 if option is None else (1.0 - CLOSE / 4.0) / spent
    return best


def _most_tokens(
    request: Budget, plan: Callable[[float], TrainOption | None], *, start: float, close: float, below: float
) -> tuple[TrainOption, float] | None:
    """
    The run on as many tokens as the budget pays and the user has, and the tokens: cost goes with them. None where no
    try surely stays within the budget.

    It is found where so little of the budget is left (`close`); each try aims so far below the budget (`below`). [-]
    """
    assert request.usd is not None
    most = request.tokens or math.inf
    tokens = min(start, most)
    best: tuple[TrainOption, float] | None = None
    for _ in range(ROUNDS):
        option = plan(tokens)
        if option is None:
            tokens /= 4.0
            continue
        spent = _surely_usd(request, option) / request.usd
        if spent <= 1.0 and (best is None or tokens > best[1]):
            best = option, tokens
        if 1.0 - close <= spent <= 1.0 or (spent <= 1.0 and tokens == request.tokens):
            break
        tokens = min(tokens / spent * (1.0 - below), most)
    return best


def _plan_training(
    request: Budget, size: float, tokens: float, *, additions: Additions, today: date
) -> TrainOption | None:
    """The best run of a size on so many tokens; None where nothing surely does it."""
    assert request.serve is not None
    asked = Train(
        model=f"{size / 1e6:.4g}M" if size < 1e9 else f"{size / 1e9:.4g}B",
        tokens=tokens,
        seq_len=4096,
        deadline_s=request.deadline_s or DEADLINE_S,
        filters=request.serve.filters,
        confidence=request.serve.confidence,
    )
    return _surest(request, asked, additions=additions, today=today)


def _surest(request: Budget, asked: Train | FineTune, *, additions: Additions, today: date) -> TrainOption | None:
    """
    The first option that surely stays within the budget, else what surely costs least; None where none ends in time and
    fits as surely as asked.
    """
    usd = request.usd or 0.0
    options = train_options(asked, additions=additions, today=today, worth=1.0)
    sure = (one for one in options if one.sure)
    return min(sure, key=lambda one: max(usd, _surely_usd(request, one)), default=None)


def _surely_usd(request: Budget, option: TrainOption) -> float:
    """
    The least budget that an option keeps, with deadline and memory, as surely as asked: by the rule of `plan train
    --budget`. [USD]
    """
    assert request.serve is not None
    kept = partial(chance_of_run, option, deadline_s=request.deadline_s or DEADLINE_S)
    low, high = option.cost.low or option.cost.value, FAR * (option.cost.high or option.cost.value)
    while high > low * (1.0 + CLOSE / 100.0):
        middle = math.sqrt(low * high)
        low, high = (low, middle) if kept(budget_usd=middle) >= request.serve.confidence else (middle, high)
    return max(high, option.cost.value)


def _run(size: float, *, option: TrainOption, tokens: float, name: str) -> AffordableRun:
    """A run as the answer has it; loss is in nats per token, its bounds those of the laws."""
    losses = [_loss(law, size, tokens) for law in LAWS]
    return AffordableRun(
        name=name,
        parameters=size,
        tokens=tokens,
        loss=losses[0],
        loss_low=min(losses),
        loss_high=max(losses),
        cost=option.cost,
        wall_s=option.run.wall_s.value,
        configuration=option.configuration,
    )


def _loss(law: LossLaw, size: float, tokens: float) -> float:
    """Loss of a size on so many tokens by a law. [nats/token]"""
    return loss_of(parameters=size, tokens=tokens, **_numbers(law))


def _numbers(law: LossLaw) -> dict[str, float]:
    return {name: value for name, value in asdict(law).items() if name not in {"name", "source"}}


def _with_serving(
    request: Budget, runs: list[AffordableRun], *, additions: Additions, today: date
) -> tuple[AffordableRun, ...]:
    """Runs with what serving their models costs, and from how many tokens on the smaller ones have paid off."""
    priced = [
        replace(run, usd_per_million_output_tokens=_per_million(request, run, additions=additions, today=today))
        for run in runs
    ]
    first = priced[0].usd_per_million_output_tokens if priced else None
    if first is None:
        return tuple(priced)
    return tuple(_with_savings(priced[0], run, first=first) for run in priced)


def _with_savings(best: AffordableRun, run: AffordableRun, *, first: float) -> AffordableRun:
    """
    A run with what serving it saves against the compute-optimal one of its own loss, which costs less to train and more
    to serve. Unchanged for `best` itself and where no serving cost is known.

    Training money goes with arithmetic near one size, so that the cheaper run's price follows from its loss. `first` is
    the serving cost of `best`. [USD per million output tokens]
    """
    mine = run.usd_per_million_output_tokens
    if mine is None or run.parameters == best.parameters:
        return run
    flop, target = 6.0 * run.parameters * run.tokens, run.loss
    low, high = flop / 64.0, flop
    for _ in range(50):
        middle = math.sqrt(low * high)
        size = _optimum(LAWS[0], middle)
        enough = _loss(LAWS[0], size, middle / (6.0 * size)) <= target
        low, high = (low, middle) if enough else (middle, high)
    same = _optimum(LAWS[0], high)
    # A dense model's serving cost goes with its weights between the two sizes that were planned.
    exponent = math.log(first / mine) / math.log(best.parameters / run.parameters)
    theirs = mine * (same / run.parameters) ** exponent
    extra = run.cost.value * (1.0 - high / flop)
    saved = (theirs - mine) / 1e6
    return replace(run, saves_share=1.0 - mine / theirs, pays_after_tokens=extra / saved if saved > 0.0 else None)


def _per_million(request: Budget, run: AffordableRun, *, additions: Additions, today: date) -> float | None:
    """Cost of serving a run's model at a full rate; None where nothing serves it. [USD per million output tokens]"""
    assert request.serve is not None
    name = f"{run.parameters / 1e6:.4g}M" if run.parameters < 1e9 else f"{run.parameters / 1e9:.4g}B"
    serve = replace(request.serve, model=name, rate_per_s=FULL_RATE, quick=True)
    options = serve_options(serve, additions=additions, today=today, first_only=True)
    return options[0].usd_per_million_output_tokens if options else None


def affordable_tunes(request: Budget, *, additions: Additions, today: date) -> tuple[AffordableTune, ...]:
    """Fine-tunes of the request's model, or of three current ones, with the tokens that one pass may have."""
    wanted: Iterable[tuple[str, str]] = (
        TUNED if request.model is None else tuple((request.model, method) for method in METHODS)
    )
    found = (_plan_tune(request, model, method, additions=additions, today=today) for model, method in wanted)
    return tuple(tune for tune in found if tune is not None)


def _plan_tune(request: Budget, model: str, method: str, *, additions: Additions, today: date) -> AffordableTune | None:
    """
    As many tokens of one pass as budget and deadline pay: cost goes with tokens, so that a few plans find them. None
    where no try surely stays within both.
    """
    assert request.usd is not None and request.serve is not None
    serve, deadline_s = request.serve, request.deadline_s or DEADLINE_S

    def planned(tokens: float) -> TrainOption | None:
        asked = FineTune(
            model=model,
            method=method,  # type: ignore[arg-type]
            tokens=tokens,
            deadline_s=deadline_s,
            filters=serve.filters,
            confidence=serve.confidence,
        )
        return _surest(request, asked, additions=additions, today=today)

    weights = active_parameters(resolve(model, additions=additions)).value
    start = request.usd * FLOP_PER_USD / (6.0 * weights)
    best = _most_tokens(request, planned, start=start, close=5 * CLOSE, below=CLOSE)
    if best is None:
        return None
    option, tokens = best
    return AffordableTune(
        model=model,
        method=method,
        tokens=tokens,
        cost=option.cost,
        wall_s=option.run.wall_s.value,
        configuration=option.configuration,
    )
