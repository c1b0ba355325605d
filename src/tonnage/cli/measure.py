"""`tonnage measure`: what an endpoint really does, and what that means for capacity."""

from __future__ import annotations

import sys
from contextlib import suppress
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import click

from tonnage.cli.history import keep_measurement
from tonnage.cli.measure_points import plan, quick
from tonnage.cli.measure_train import train
from tonnage.cli.options import why_option
from tonnage.domain.measurement import Capacity, Load, Measurement
from tonnage.domain.requests.common import Slo
from tonnage.errors import BadRequest
from tonnage.units import read

if TYPE_CHECKING:
    from tonnage.domain.train_measurement import TrainBudget, TrainMeasurement
    from tonnage.measure.records import Spec
    from tonnage.measure.serve import Progress

__all__ = ["measure"]

DEFAULT_MOST = {"rate": 1024.0, "concurrency": 256.0}


@click.group()
def measure() -> None:
    """What a serving endpoint really does: measure it, read reports of other tools, size from them."""


for command in (train, plan, quick):
    measure.add_command(command)


def _seconds(ctx: click.Context, param: click.Parameter, value: str | None) -> float | None:
    return None if value is None else read(value, "s", field=param.opts[0])


def _slo_options(command: Any) -> Any:
    for option in (
        click.option("--percentile", type=click.FloatRange(50, 99), default=95.0, show_default=True, help="Of them."),
        click.option("--slo-e2e", callback=_seconds, help="Objective, as '10 s': whole answer."),
        click.option("--slo-tpot", callback=_seconds, help="Objective, as '50 ms': time per output token."),
        click.option("--slo-ttft", callback=_seconds, help="Objective, as '500 ms': time to first token."),
    ):
        command = option(command)
    return command


@measure.command()
@click.argument("url")
@click.option("--model", required=True, help="Name of the model as the server knows it.")
@click.option("--endpoint", type=click.Choice(["chat", "completions"]), default="chat", show_default=True)
@click.option("--rate", help="Open loop: offered requests, as '4/s'.")
@click.option("--concurrency", type=int, help="Closed loop: requests at once.")
@click.option(
    "--sweep",
    is_flag=False,
    flag_value="concurrency",
    type=click.Choice(["concurrency", "rate"]),
    help="Raise the load from --rate or --concurrency until it is too much.",
)
@click.option("--most", type=float, help="Highest load of a sweep.")
@click.option("--arrivals", type=click.Choice(["poisson", "constant", "gamma"]), default="poisson", show_default=True)
@click.option("--burstiness", type=float, default=1.0, show_default=True, help="Shape of gamma; below 1 = bursts.")
@click.option("--prompt-tokens", type=int, default=256, show_default=True)
@click.option("--output-tokens", type=int, default=64, show_default=True)
@click.option("--requests", type=int, default=200, show_default=True, help="At most, of each load.")
@click.option("--duration", default="60s", show_default=True, callback=_seconds, help="At most, of each load.")
@click.option("--warmup", type=int, help="Requests before those that count; a few without this.")
@click.option("--timeout", default="120s", show_default=True, callback=_seconds, help="Of one request.")
@click.option("--ignore-eos/--no-ignore-eos", default=True, help="Ask for answers of full length.")
@click.option("--seed", type=int, default=0, show_default=True, help="Of arrivals; prompts are new in every run.")
@click.option("--key-env", help="Environment variable that holds the API key (OPENAI_API_KEY without this).")
@click.option(
    "--metrics", multiple=True, help="Metrics page to read beside it (engine, DCGM or node exporter); repeat."
)
@click.option("--output", type=click.Path(dir_okay=False), help="File of results, JSON lines.")
@click.option("--resume", is_flag=True, help="Go on with --output where it was interrupted.")
@why_option
@click.option("--json", "as_json", is_flag=True, help="Machine-readable (schema tonnage.measurement/1).")
@_slo_options
def serve(**options: Any) -> None:
    """
    Measure an OpenAI-compatible endpoint at URL.

    Bounded by requests and time, and asks no other host. Each result is in a file as soon as it is there; what a
    run has measured is never lost. A load is --rate (open loop) or --concurrency (closed loop); --sweep raises it.
    """
    from tonnage.measure.serve import measure_serve

    spec = _spec(options)
    if options["resume"] and not options["output"]:
        raise BadRequest("--resume: name the file to go on with by --output")
    output = Path(options["output"] or f"measurement-{datetime.now():%Y%m%d-%H%M%S}.jsonl")
    click.echo(f"results: {output}", err=True)
    try:
        found = measure_serve(
            spec,
            output,
            resume=options["resume"],
            key_env=options["key_env"],
            progress=_progress(spec),
            metrics=options["metrics"],
        )
    except KeyboardInterrupt:
        click.echo(f"interrupted; what was measured is in {output}, --output {output} --resume goes on", err=True)
        raise
    keep_measurement(found)
    _show(found, as_json=options["as_json"], why=options["why"])
    if found.disowned:
        click.echo(f"tonnage: {found.disowned}", err=True)
    if found.stopped:
        raise BadRequest(f"stopped early: {found.stopped}; what was measured is in {output}")


@measure.command(name="import")
@click.argument("file", type=click.Path(exists=True, dir_okay=False))
@why_option
@click.option("--json", "as_json", is_flag=True, help="Machine-readable (schema tonnage.measurement/1).")
def import_(file: str, as_json: bool, why: bool) -> None:
    """Read the report of guidellm, aiperf, vLLM bench, llmperf, MLPerf or Tonnage, in one set of definitions."""
    from tonnage.measure.importers import read_report

    found = read_report(Path(file))
    keep_measurement(found)
    _show(found, as_json=as_json, why=why)


@measure.command()
@click.argument("file", type=click.Path(exists=True, dir_okay=False))
@click.option("--rate", help="Serving: mean load, as '40/s'.")
@click.option("--peak", type=float, default=1.0, show_default=True, help="Serving: peak over mean.")
@click.option("--headroom", default="25%", show_default=True, help="Serving: kept free of each replica at the peak.")
@click.option("--spare", type=int, default=0, show_default=True, help="Serving: replicas that may fail at the peak.")
@click.option("--tokens", help="Training: tokens to train on, as '100B'.")
@click.option("--samples", help="Training: samples to train on, instead.")
@click.option("--steps", type=int, help="Training: steps to make, instead.")
@click.option("--devices", type=int, help="Training: accelerators; absent = as measured, or what the deadline needs.")
@click.option("--deadline", callback=_seconds, help="Training: all of it done in this time, as '14 days'.")
@click.option("--retries", default="10%", show_default=True, help="Training: for interruptions, of the run.")
@click.option("--validation", default="5%", show_default=True, help="Training: for evaluations, of the run.")
@click.option("--experiments", default="20%", show_default=True, help="Training: for trials before it, of the run.")
@click.option("--start", type=click.DateTime(["%Y-%m-%d"]), help="Training: first day; the timeline then has dates.")
@click.option("--share-of-day", default="100%", show_default=True, help="Training: of each day that it may run.")
@click.option("--json", "as_json", is_flag=True, help="Machine-readable (tonnage.capacity/1, tonnage.train_budget/1).")
@_slo_options
def capacity(file: str, **options: Any) -> None:
    """
    What a load or a training run needs, from what was measured in FILE.

    A measured server (any FILE that `import` reads) and --rate: replicas for the peak. A measured training run (FILE of
    `tonnage measure train`) and --tokens, --samples or --steps: accelerator-hours with headroom, on a timeline.
    """
    from tonnage.measure.diagnose.sources import training_of
    from tonnage.report.answers import show_document
    from tonnage.report.document import as_json as json_text
    from tonnage.report.measure import budget_document, capacity_document

    trained = training_of(Path(file))
    if trained is not None:
        budget = _budget(trained, options)
        if options["as_json"]:
            click.echo(json_text(budget))
        else:
            show_document(budget_document(budget))
        return
    answer = _capacity(file, options)
    if options["as_json"]:
        click.echo(json_text(answer))
    else:
        show_document(capacity_document(answer))


def _capacity(file: str, options: dict[str, Any]) -> Capacity:
    from tonnage.measure.capacity import Demand, capacity_of
    from tonnage.measure.importers import read_report

    found = read_report(Path(file))
    if options["rate"] is None:
        raise BadRequest("--rate: name the load to be served, as '40/s'")
    own = _slo(options)
    demand = Demand(
        rate_per_s=read(options["rate"], "1/s", field="--rate"),
        peak_to_mean=options["peak"],
        headroom=read(options["headroom"], "fraction", field="--headroom"),
        spare=options["spare"],
        slo=own if any((own.ttft_s, own.tpot_s, own.e2e_s)) else found.slo,
    )
    return capacity_of(found, demand)


def _budget(trained: TrainMeasurement, options: dict[str, Any]) -> TrainBudget:
    from tonnage.measure.capacity import Work, budget_of

    def amount(name: str, unit: str) -> float | None:
        return None if options[name] is None else read(options[name], unit, field=f"--{name}")

    shares = {
        name: read(options[name], "fraction", field=f"--{name.replace('_', '-')}")
        for name in ("retries", "validation", "experiments", "share_of_day")
    }
    work = Work(
        tokens=amount("tokens", "tokens"),
        samples=amount("samples", "tokens"),
        steps=options["steps"],
        devices=options["devices"],
        deadline_s=options["deadline"],
        start=options["start"].date() if options["start"] is not None else None,
        **shares,
    )
    return budget_of(trained, work)


@measure.command()
@click.option("--device", default="cpu", show_default=True, help="cpu, cuda, cuda:1 (ROCm too), mps, xpu.")
@click.option("--threads", type=click.IntRange(1), help="Of a processor; absent = as many as PyTorch takes.")
@click.option("--seconds", default="30s", show_default=True, callback=_seconds, help="About as long it may take.")
@click.option("--id", "name", help="Id of the accelerator in answers; absent = own- and its name.")
@click.option("--out", "-o", type=click.Path(dir_okay=False), help="File to write; absent = ID.toml.")
@click.option("--json", "as_json", is_flag=True, help="Machine-readable (schema tonnage.device/1), and no file.")
def device(device: str, threads: int | None, seconds: float, name: str | None, out: str | None, as_json: bool) -> None:
    """
    Microbenchmarks of the device at hand become an accelerator of your own.

    The file written is taken by every question: `tonnage predict`, `fit` and `plan` with --additions FILE, or from the
    folder that TONNAGE_CATALOG names.
    """
    from msgspec.structs import replace

    from tonnage.measure.device import device_toml, measure_device
    from tonnage.report.answers import show_document
    from tonnage.report.document import as_json as json_text
    from tonnage.report.measure import device_document

    found = measure_device(device, threads=threads, seconds=seconds)
    found = replace(found, id=name) if name else found
    keep_measurement(found)
    if as_json:
        click.echo(json_text(found))
        return
    path = Path(out or f"{found.id}.toml")
    path.write_text(device_toml(found), encoding="utf-8")
    show_document(device_document(found, path=str(path)))


def _slo(options: dict[str, Any]) -> Slo:
    return Slo(
        ttft_s=options["slo_ttft"],
        tpot_s=options["slo_tpot"],
        e2e_s=options["slo_e2e"],
        percentile=options["percentile"],
    )


def _spec(options: dict[str, Any]) -> Spec:

    rate, concurrency = options["rate"], options["concurrency"]
    if rate is not None and concurrency is not None:
        raise BadRequest("--rate and --concurrency contradict each other: give one load")
    sweep: Literal["rate", "concurrency"] | None = options["sweep"]
    if (sweep == "rate" and concurrency is not None) or (sweep == "concurrency" and rate is not None):
        if sweep == "rate":
            raise BadRequest("--sweep rate starts from --rate, not from --concurrency")
        sweep = "rate"
    by_rate = rate is not None or sweep == "rate"
    rate_per_s = (read(rate, "1/s", field="--rate") if rate is not None else 1.0) if by_rate else None
    places = None if by_rate else (1 if concurrency is None else concurrency)
    warmup = options["warmup"]
    if warmup is None:
        warmup = min(places or round(rate_per_s or 1), options["requests"] // 4)
    return _check_options(options, sweep, rate_per_s=rate_per_s, places=places, warmup=warmup)


def _check_options(
    options: dict[str, Any],
    sweep: Literal["rate", "concurrency"] | None,
    *,
    rate_per_s: float | None,
    places: int | None,
    warmup: int,
) -> Spec:
    from tonnage.measure.records import Spec

    load = Load(
        rate_per_s=rate_per_s,
        concurrency=places,
        arrivals=options["arrivals"],
        burstiness=options["burstiness"],
        requests=options["requests"],
        warmup=warmup,
        duration_s=options["duration"],
    )
    most = options["most"] if sweep is None or options["most"] is not None else DEFAULT_MOST[sweep]
    if most is not None and most < load.level:
        raise BadRequest(f"--most: {most:g} is below the load that the sweep starts from, {load.level:g}")
    return Spec(
        url=options["url"],
        kind=options["endpoint"],
        model=options["model"],
        load=load,
        sweep=sweep,
        most=most,
        slo=_slo(options),
        prompt_tokens=options["prompt_tokens"],
        output_tokens=options["output_tokens"],
        ignore_eos=options["ignore_eos"],
        timeout_s=options["timeout"],
        seed=options["seed"],
    )


def _progress(spec: Spec) -> Progress:
    """Lines on stderr: one that moves where someone watches, one a load otherwise."""
    from tonnage.measure.serve import Progress
    from tonnage.report.measure import progress_line

    live = sys.stderr.isatty()
    counts = {"done": 0, "failed": 0}

    def name(load: Load) -> str:
        return f"{load.rate_per_s:g}/s" if load.rate_per_s is not None else f"{load.concurrency} at once"

    current = {"load": ""}

    def write(text: str) -> None:
        with suppress(OSError):
            sys.stderr.write(text)
            sys.stderr.flush()

    def begin(load: Load) -> None:
        counts.update(done=0, failed=0)
        current["load"] = name(load)

    def step(outcome: Any) -> None:
        counts["failed" if outcome.failure else "done"] += 1
        if live and sum(counts.values()) % 16 == 0:
            write("\r" + progress_line(current["load"], **counts))

    def end(load: Load, stage_end: Any) -> None:
        stopped = f"; stopped: {stage_end.stopped}" if stage_end.stopped else ""
        write(("\r" if live else "") + progress_line(name(load), **counts) + stopped + "\n")

    return Progress(begin=begin, step=step, end=end)


def _show(found: Measurement, *, as_json: bool, why: bool) -> None:
    from tonnage.report.answers import show_document
    from tonnage.report.document import as_json as json_text
    from tonnage.report.measure import measurement_document

    if as_json:
        click.echo(json_text(found))
    else:
        show_document(measurement_document(found), why=why)
