"""`tonnage measure`: what an endpoint really does, and what that means for capacity."""

from __future__ import annotations

import sys
from contextlib import suppress
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from tonnage.cli.history import keep_measurement
from tonnage.cli.measure_accept import accept
from tonnage.cli.measure_points import plan, quick
from tonnage.cli.measure_train import train
from tonnage.cli.options import FILE, day_option, json_option, output_of, reads, struct_of, why_option
from tonnage.domain.measurement import Capacity, Load
from tonnage.domain.requests.common import Slo
from tonnage.errors import BadRequest

if TYPE_CHECKING:
    from tonnage.measure.records import Spec
    from tonnage.measure.serve import Progress


DEFAULT_MOST = {"rate": 1024.0, "concurrency": 256.0}


@click.group()
def measure() -> None:
    """What a serving endpoint really does: measure it, read reports of other tools, size from them."""


for command in (train, plan, quick, accept):
    measure.add_command(command)


def _slo_options(command: Any) -> Any:
    for option in (
        click.option("--percentile", type=click.FloatRange(50, 99), default=95.0, help="Of them."),
        click.option("--slo-e2e", "e2e_s", callback=reads("s"), help="Objective, as '10 s': whole answer."),
        click.option("--slo-tpot", "tpot_s", callback=reads("s"), help="Objective, as '50 ms': time per output token."),
        click.option("--slo-ttft", "ttft_s", callback=reads("s"), help="Objective, as '500 ms': time to first token."),
    ):
        command = option(command)
    return command


@measure.command()
@click.argument("url")
@click.option("--model", required=True, help="Name of the model as the server knows it.")
@click.option("--endpoint", "kind", type=click.Choice(["chat", "completions"]), default="chat")
@click.option("--rate", "rate_per_s", callback=reads("1/s"), help="Open loop: offered requests, as '4/s'.")
@click.option("--concurrency", type=int, help="Closed loop: requests at once.")
@click.option(
    "--sweep",
    is_flag=False,
    flag_value="concurrency",
    type=click.Choice(["concurrency", "rate"]),
    help="Raise the load from --rate or --concurrency until it is too much.",
)
@click.option("--most", type=float, help="Highest load of a sweep.")
@click.option("--arrivals", type=click.Choice(["poisson", "constant", "gamma"]), default="poisson")
@click.option("--burstiness", type=float, default=1.0, help="Shape of gamma; below 1 = bursts.")
@click.option("--prompt-tokens", type=int, default=256)
@click.option("--output-tokens", type=int, default=64)
@click.option("--requests", type=int, default=200, help="At most, of each load.")
@click.option("--duration", "duration_s", default="60s", callback=reads("s"), help="At most, of each load.")
@click.option("--warmup", type=int, help="Requests before those that count; a few without this.")
@click.option("--timeout", "timeout_s", default="120s", callback=reads("s"), help="Of one request.")
@click.option("--ignore-eos/--no-ignore-eos", default=True, help="Ask for answers of full length.")
@click.option("--seed", type=int, default=0, help="Of arrivals; prompts are new in every run.")
@click.option("--shared", default="0", callback=reads("fraction"), help="Of each prompt, what all begin with.")
@click.option("--busy", is_flag=True, envvar="TONNAGE_BUSY", help="Measure beside other programs, and say so.")
@click.option("--key-env", help="Environment variable that holds the API key (OPENAI_API_KEY without this).")
@click.option(
    "--metrics", multiple=True, help="Metrics page to read beside it (engine, DCGM or node exporter); repeat."
)
@click.option("--output", "results", type=FILE, help="File of results, JSON lines.")
@click.option("--resume", is_flag=True, help="Go on with --output where it was interrupted.")
@why_option
@json_option("measurement")
@_slo_options
def serve(**options: Any) -> None:
    """
    Measure an OpenAI-compatible endpoint at URL.

    Bounded by requests and time, and asks no other host. Each result is in a file as soon as it is there; what a
    run has measured is never lost. A load is --rate (open loop) or --concurrency (closed loop); --sweep raises it.
    """
    from tonnage.measure.serve import measure_serve

    spec = _spec(options)
    if options["resume"] and not options["results"]:
        raise BadRequest("--resume: name the file to go on with by --output")
    output = Path(options["results"] or f"measurement-{datetime.now():%Y%m%d-%H%M%S}.jsonl")
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
    output_of(options).show(found)
    if found.disowned:
        click.echo(f"tonnage: {found.disowned}", err=True)
    if found.stopped:
        raise BadRequest(f"stopped early: {found.stopped}; what was measured is in {output}")


@measure.command(name="import")
@click.argument("file", type=click.Path(exists=True, dir_okay=False))
@why_option
@json_option("measurement")
def import_(file: str, **options: Any) -> None:
    """Read the report of guidellm, aiperf, vLLM bench, llmperf, MLPerf or Tonnage, in one set of definitions."""
    from tonnage.measure.importers import read_report

    found = read_report(Path(file))
    keep_measurement(found)
    output_of(options).show(found)


@measure.command()
@click.argument("file", type=click.Path(exists=True, dir_okay=False))
@click.option("--rate", "rate_per_s", callback=reads("1/s"), help="Serving: mean load, as '40/s'.")
@click.option("--peak", "peak_to_mean", type=float, default=1.0, help="Serving: peak over mean.")
@click.option(
    "--headroom",
    default="25%",
    callback=reads("fraction"),
    help="Serving: kept free of each replica at the peak.",
)
@click.option("--spare", type=int, default=0, help="Serving: replicas that may fail at the peak.")
@click.option("--tokens", callback=reads("tokens"), help="Training: tokens to train on, as '100B'.")
@click.option("--samples", callback=reads("tokens"), help="Training: samples to train on, instead.")
@click.option("--steps", type=int, help="Training: steps to make, instead.")
@click.option("--devices", type=int, help="Training: accelerators; absent = as measured, or what the deadline needs.")
@click.option(
    "--deadline", "deadline_s", callback=reads("s"), help="Training: all of it done in this time, as '14 days'."
)
@click.option(
    "--retries",
    default="10%",
    callback=reads("fraction"),
    help="Training: for interruptions, of the run.",
)
@click.option(
    "--validation",
    default="5%",
    callback=reads("fraction"),
    help="Training: for evaluations, of the run.",
)
@click.option(
    "--experiments",
    default="20%",
    callback=reads("fraction"),
    help="Training: for trials before it, of the run.",
)
@day_option("--start", help="Training: first day; the timeline then has dates.")
@click.option(
    "--share-of-day",
    default="100%",
    callback=reads("fraction"),
    help="Training: of each day that it may run.",
)
@json_option()
@_slo_options
def capacity(file: str, **options: Any) -> None:
    """
    What a load or a training run needs, from what was measured in FILE.

    A measured server (any FILE that `import` reads) and --rate: replicas for the peak. A measured training run (FILE of
    `tonnage measure train`) and --tokens, --samples or --steps: accelerator-hours with headroom, on a timeline.
    """
    from tonnage.measure.capacity import Work, budget_of
    from tonnage.measure.diagnose.sources import training_of

    trained = training_of(Path(file))
    output_of(options).show(
        _capacity(file, options) if trained is None else budget_of(trained, struct_of(Work, options))
    )


def _capacity(file: str, options: dict[str, Any]) -> Capacity:
    from tonnage.measure.capacity import Demand, capacity_of
    from tonnage.measure.importers import read_report

    found = read_report(Path(file))
    if options["rate_per_s"] is None:
        raise BadRequest("--rate: name the load to be served, as '40/s'")
    own = struct_of(Slo, options)
    slo = own if any((own.ttft_s, own.tpot_s, own.e2e_s)) else found.slo
    return capacity_of(found, struct_of(Demand, options, slo=slo))


@measure.command()
@click.option("--device", default="cpu", help="cpu, cuda, cuda:1 (ROCm too), mps, xpu.")
@click.option("--threads", type=click.IntRange(1), help="Of a processor; absent = as many as PyTorch takes.")
@click.option("--seconds", default="30s", callback=reads("s"), help="About as long it may take.")
@click.option("--id", "name", help="Id of the accelerator in answers; absent = own- and its name.")
@click.option("--out", "-o", type=FILE, help="File to write; absent = ID.toml.")
@click.option("--busy", is_flag=True, envvar="TONNAGE_BUSY", help="Measure beside other programs, and say so.")
@json_option("device")
def device(device: str, threads: int | None, seconds: float, name: str | None, out: str | None, **options: Any) -> None:
    """
    Microbenchmarks of the device at hand become an accelerator of your own.

    The file written is taken by every question: `tonnage predict`, `fit` and `plan` with --additions FILE, or from the
    folder that TONNAGE_CATALOG names.
    """
    from msgspec.structs import replace

    from tonnage.measure.beside import watched
    from tonnage.measure.device import device_toml, measure_device

    with watched(busy=options["busy"]) as notes:
        found = measure_device(device, threads=threads, seconds=seconds)
    found = replace(found, id=name or found.id, notes=tuple(notes))
    keep_measurement(found)
    output, path = output_of(options), Path(out or f"{found.id}.toml")
    if found.disowned:
        raise BadRequest(f"no file is written: {found.disowned.rstrip('.')}; --busy writes one all the same")
    if not output.as_json:
        path.write_text(device_toml(found), encoding="utf-8")
    output.show(found, path=str(path))


def _spec(options: dict[str, Any]) -> Spec:
    """
    What to measure and within which bounds: one request at a time where no load is given, a sweep of rates from 1/s.

    Raises
    ------
    BadRequest
        Options contradict one another, or a sweep ends below its start.
    """
    from tonnage.measure.records import Spec

    rate, places, sweep = options["rate_per_s"], options["concurrency"], options["sweep"]
    if rate is not None and places is not None:
        raise BadRequest("--rate and --concurrency contradict each other: give one load")
    if sweep == "rate" and places is not None:
        raise BadRequest("--sweep rate starts from --rate, not from --concurrency")
    if sweep is not None and rate is not None:
        sweep = "rate"
    if rate is None and places is None:
        rate, places = (1.0, None) if sweep == "rate" else (None, 1)
    warmup = options["warmup"]
    if warmup is None:
        warmup = min(places or round(rate or 1), options["requests"] // 4)
    load = struct_of(Load, options, rate_per_s=rate, concurrency=places, warmup=warmup)
    most = options["most"] if sweep is None or options["most"] is not None else DEFAULT_MOST[sweep]
    if most is not None and most < load.level:
        raise BadRequest(f"--most: {most:g} is below the load that the sweep starts from, {load.level:g}")
    return struct_of(Spec, options, load=load, sweep=sweep, most=most, slo=struct_of(Slo, options))


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
