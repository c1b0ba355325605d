"""
What a target needs to know of an option: the plan's own words, read once, checked, and counted out over machines.

A replica has tp x pp x dp ranks. The bill says how many accelerators one instance has, so it says whether an instance
holds several replicas or a replica spans several instances.

Its server is asked of the target module that is its engine; what the servers share stands here too.
"""

from __future__ import annotations

import math
import re
from typing import Final

import msgspec

from tonnage.domain.batch_plan import BatchOption, BatchPlan
from tonnage.domain.layout import Engine, Layout
from tonnage.domain.plan import Bill, ServeOption, ServePlan
from tonnage.domain.precision import Precision, number_format
from tonnage.domain.train_plan import TrainOption, TrainPlan
from tonnage.engines.registry import engine_spec
from tonnage.errors import BadRequest, NoCheckpoint, echo
from tonnage.export.first_runs import WORKER, first_runs
from tonnage.export.target import Names, Server, Target, known_targets, names, target_module
from tonnage.export.text import comment, label, safe_name, shell
from tonnage.questions.rl.question import RlOption, RlPlan
from tonnage.record import Record
from tonnage.units import percent

Plan = ServePlan | TrainPlan | BatchPlan | RlPlan
Option = ServeOption | TrainOption | BatchOption | RlOption
PORT: Final = 8000
USUAL_DISK_GB: Final = 512
"""Where the size of the checkpoint is not known. [GB]"""
IMAGE_BYTES: Final = 60e9
"""An engine's image, packed and unpacked, with compiled code beside it: three times vLLM's 20 GB; assumed. [bytes]"""
DOWNLOAD_ROOM: Final = 1.05
"""Of the checkpoint's bytes, with what a download holds twice for a while; assumed. [-]"""
PATIENCE: Final = 3.0
"""Of the planned start: networks and registries are slower on some days; assumed. [-]"""
LOADING_S: Final = 1800.0
"""A start may take so long where nothing is known of it. [s]"""


class Deployment(Record, kw_only=True):
    """One option, ready to be written down."""

    plan: ServePlan | BatchPlan
    option: ServeOption | BatchOption
    model: str
    """The checkpoint to load: an id on the Hugging Face Hub."""
    name: str
    """A label made of it."""
    accelerator: str
    layout: Layout
    precision: Precision
    engine: Engine
    checkpoint: str | None
    """Format the checkpoint is stored in; absent = unknown."""
    named: bool
    """The checkpoint was named by the user, or is a published one: it is stored as planned."""
    max_model_len: int | None
    replicas: int
    per_node: int
    """Accelerators of one instance."""
    nodes: int
    """Instances that one replica spans."""
    instances: int
    provider: str
    region: str
    instance_type: str
    spot: bool
    concurrency: float
    """Requests in flight of one replica, as planned."""
    lines: tuple[str, ...]
    """The plan in a few sentences, for the head of a file."""
    stored_bytes: float | None = None
    """Of the checkpoint's files; absent = not known. [bytes]"""
    start_s: float | None = None
    """From an empty container to the first answer, as planned; absent = not known. [s]"""
    prefill_workers: int = 0
    """Replicas that only work on prompts, of all units; 0 = every replica does both."""
    decode_workers: int = 0
    """Replicas that only answer, of all units."""
    units: int = 1
    """Groups of such workers behind a router each."""
    found_again: float = 0.0
    """Share of prompt tokens that the plan finds in caches, behind a router that follows prefixes. [-]"""
    port: int = PORT

    @property
    def spelled(self) -> Names:
        """How others write the accelerator."""
        return names(self.accelerator)

    @property
    def disk_gb(self) -> int:
        """Disk of one node: the checkpoint, image and compiled code beside it, in steps of ten. [GB]"""
        if self.stored_bytes is None:
            return USUAL_DISK_GB
        return math.ceil((self.stored_bytes * DOWNLOAD_ROOM + IMAGE_BYTES) / 1e10) * 10

    def patience_s(self, *, least: float) -> int:
        """
        How long a start may take before it counts as failed. [s]

        Three times what is planned, at least `least`; half an hour where the start is not known.
        """
        return round(max(least, PATIENCE * self.start_s)) if self.start_s is not None else round(LOADING_S)

    @property
    def replicas_per_node(self) -> int:
        """Replicas that one instance holds; 1 where a replica fills or exceeds it."""
        return max(1, self.per_node // self.layout.ranks)

    @property
    def members(self) -> int:
        """Nodes that are started together: those of a replica, or the workers of a unit."""
        return (self.prefill_workers + self.decode_workers) // self.units or self.nodes

    @property
    def groups(self) -> int:
        """How many times that is started."""
        return self.units if self.prefill_workers else self.replicas

    @property
    def ranks_per_node(self) -> int:
        """Accelerators of a replica on one instance."""
        return math.ceil(self.layout.ranks / self.nodes)


def deployment(plan: ServePlan | BatchPlan, option: ServeOption | BatchOption) -> Deployment:
    """
    The option as targets read it.

    Raises
    ------
    BadRequest
        The plan names no checkpoint that can be loaded, or one that no file can hold safely.
    """
    configuration, bill = option.configuration, option.bill
    layout = configuration.layout
    model = safe_name(checkpoint_of(plan), what="model")
    per_node = max(1, int(bill.accelerators_per_instance))
    nodes = math.ceil(layout.ranks / per_node)
    return Deployment(
        plan=plan,
        option=option,
        model=model,
        name=label(model),
        accelerator=configuration.accelerator,
        layout=layout,
        precision=configuration.precision,
        engine=configuration.engine,
        checkpoint=plan.model.get("checkpoint"),
        named=bool(plan.model.get("named")),
        max_model_len=_max_model_len(option),
        replicas=option.replicas,
        per_node=per_node,
        nodes=nodes,
        instances=bill.instances,
        provider=bill.provider,
        region=bill.region,
        instance_type=bill.instance_type,
        spot=bill.term == "spot",
        concurrency=option.concurrency if isinstance(option, BatchOption) else option.capacity.concurrency,
        lines=_lines(plan, option, model),
        stored_bytes=_stored_bytes(plan, configuration.precision),
        start_s=plan.model.get("start_s"),
        found_again=_found_again(option),
        **plan.model.get("pools", {}),
    )


def _found_again(option: ServeOption | BatchOption) -> float:
    return option.reuse.hit_rate if isinstance(option, ServeOption) and option.reuse is not None else 0.0


def _stored_bytes(plan: ServePlan | BatchPlan, precision: Precision) -> float | None:
    """
    As the checkpoint's headers say, else parameters in the format that is stored; None = not known. [bytes]

    The headers are those of the planned model, so a checkpoint that the user named is counted by its parameters, in the
    planned format.
    """
    known = plan.model
    if known.get("stored_bytes") and not known.get("named"):
        return float(known["stored_bytes"])
    stored = precision.weights if known.get("named") else known.get("checkpoint")
    if not stored or not known.get("parameters"):
        return None
    return float(known["parameters"]) * number_format(str(stored)).bytes


def checkpoint_of(plan: Plan, *, required: bool = True) -> str:
    """
    The Hub id asked for, or that of the catalogue's model; any name where no checkpoint is required.

    Raises
    ------
    BadRequest
        What was asked for is a file; or, where a checkpoint is required, a bare size or a shape.
    """
    if plan.model.get("named"):
        return str(plan.model["named"])
    model = re.sub(r"^https?://(?:www\.)?(?:huggingface\.co|hf\.co)/", "", plan.request.model).rstrip("/")
    if model.startswith(("/", "./", "../", "~")) or model.lower().endswith((".json", ".gguf", ".safetensors")):
        raise NoCheckpoint(
            f"model '{echo(model)}' is a file where the plan was made; name the checkpoint to load with --checkpoint ID"
        )
    name = model if "/" in model else str(plan.model.get("hub") or plan.model.get("id", ""))
    if required and "/" not in name:
        raise NoCheckpoint(
            f"model '{echo(model)}' is a size or a shape, not a checkpoint; name the one to load with --checkpoint ID"
        )
    return name or model


def offer_line(bill: Bill) -> str:
    """What is rented, where, at what price of which day."""
    where = f"{bill.provider} {bill.region}".rstrip()
    return (
        f"{bill.instances} x {bill.instance_type}, {where}, {bill.term}: "
        f"${bill.usd_per_hour:,.2f}/h (price of {bill.as_of})"
    )


def _max_model_len(option: ServeOption | BatchOption) -> int | None:
    """The engine's longest context, cut to what the cache of one rank holds: engines refuse to start beyond it."""
    longest = option.configuration.engine.max_model_len
    holds = math.floor(option.kv_tokens / option.configuration.layout.dp)
    return min(longest, holds) if longest is not None and holds > 0 else longest


def _lines(plan: ServePlan | BatchPlan, option: ServeOption | BatchOption, model: str) -> tuple[str, ...]:
    """The plan in a few sentences: what is rented, and what a reader has to do or to know of it."""
    configuration = option.configuration
    longest, engine = _max_model_len(option), configuration.engine
    cut = longest is not None and engine.max_model_len is not None and longest < engine.max_model_len
    lines = [
        f"Plan of {plan.provenance.made}: {model}, {option.replicas} x {configuration.label()}.",
        f"{offer_line(option.bill)}.",
    ]
    if published := plan.model.get("published"):
        lines.append(f"Checkpoint: {published}; its answers were not verified.")
    if engine.adapters is not None and not engine.adapters.slots:
        lines.append(f"Adapters are merged: start each of the {engine.adapters.count} from its own merged checkpoint.")
    if engine_spec(engine.name).memory.kind == "cells" and longest and engine.max_num_seqs:
        each = longest // engine.max_num_seqs
        lines.append(f"A slot takes requests of {each:,} tokens and refuses longer ones, which --context plans.")
    elif cut:
        lines.append(f"Context is cut to {longest:,} of {engine.max_model_len:,} tokens: the KV cache holds no more.")
    if (found := _found_again(option)) and option.replicas > 1:
        lines.append(
            f"The plan finds {percent(found)} of prompt tokens in caches: route requests by session or prefix."
        )
    return (*lines, *first_runs(plan, option, model=model))


def check_deployment(deployment: Deployment, target: Target) -> None:
    """
    Refuse an option that a target's files cannot start.

    Raises
    ------
    BadRequest
        It was planned for another engine, whose settings and speed are others, spans more machines, or rents none.
    """
    planned = deployment.engine.name
    if deployment.option.bill.kind == WORKER and not target.anywhere:
        raise BadRequest(
            f"{target.title} needs machines, and {deployment.provider} rents workers that it starts and stops: "
            f"give them the image and the command of the files for {planned}, or plan with another --provider"
        )
    if target.engines and planned not in target.engines:
        raise BadRequest(
            f"{target.title} starts {' or '.join(target.engines)}, and the option was planned for {planned}; "
            f"plan with --engine {target.engines[0]}, or export to {planned}"
        )
    if deployment.nodes > 1 and target.one_node:
        instead = (
            "plan with --engine vllm"
            if target.title == engine_spec(planned).title
            else "export to dynamo or kubernetes"
        )
        raise BadRequest(
            f"a replica spans {deployment.nodes} nodes, and {target.title} runs on one; choose another option, or "
            f"{instead}"
        )


def check_units(deployment: Deployment, target: Target) -> None:
    """
    Refuse workers apart that no script of their engine starts.

    Raises
    ------
    BadRequest
        They are of an engine whose scripts start none, or span nodes.
    """
    able = [name for name, engine in known_targets().items() if engine.units and hasattr(target_module(name), "serve")]
    single = deployment.engine.name in able and deployment.nodes == 1
    if deployment.prefill_workers and target.units and not single:
        raise BadRequest(
            f"{target.title} starts prefill and decode workers of {' or '.join(able)} that fit a node each; export to "
            "dynamo, or choose an option without them (--option)"
        )


def server(deployment: Deployment) -> Server:
    """
    How the deployment's engine starts one replica.

    Raises
    ------
    BadRequest
        No file can be written for that engine, or the engine cannot express the option.
    """
    engine = deployment.engine.name
    known = [name for name in known_targets() if hasattr(target_module(name), "serve")]
    if engine not in known:
        raise BadRequest(
            f"no files can be written for engine '{engine}'; plan again with --engine {' or '.join(known)}"
        )
    module = target_module(engine)
    check_deployment(deployment, module.TARGET)
    made: Server = module.serve(deployment)
    return msgspec.structs.replace(made, notes=(*deployment.lines, *made.notes))


def version_of(deployment: Deployment, target: Target) -> str:
    """The release the plan was made for, as a full number; the target's own where the plan names none."""
    found = re.fullmatch(r"v?(\d+)\.(\d+)(?:\.(\d+))?", deployment.engine.version or "")
    return f"{found[1]}.{found[2]}.{found[3] or 0}" if found else target.version


def needs_quantised(deployment: Deployment) -> bool:
    """
    Whether the engine quantises the weights while loading.

    Raises
    ------
    NoCheckpoint
        The weights must be stored in their format, and the checkpoint is not known to be.
    """
    weights, engine = deployment.precision.weights, engine_spec(deployment.engine.name)
    known, stored = deployment.checkpoint or "another format", deployment.checkpoint or "bf16"
    if deployment.named:
        return False
    made, whole = weights in engine.quantises and stored != weights, deployment.plan.model.get("fits_whole", True)
    if made and not whole:
        raise NoCheckpoint(
            f"{engine.name} quantises weights once all are loaded, and {deployment.model} does not fit in {stored}: "
            f"name a checkpoint in {weights} with --checkpoint ID, or plan again with --engine vllm"
        )
    if engine.loads(weights, stored=stored):
        return made
    able = sorted(name for name in ("bf16", *engine.quantises) if engine.loads(name, stored=stored)) or [stored]
    raise NoCheckpoint(
        f"the option runs {weights} weights and {deployment.model} is stored in {known}: "
        f"{engine.name} needs a checkpoint already in {weights}; name it with --checkpoint ID, or plan again with "
        f"--precision {' or '.join(able)}"
    )


def weight_notes(deployment: Deployment, title: str) -> list[str]:
    """What a reader has to know of the weights that an engine loads."""
    stored = deployment.precision.weights
    if needs_quantised(deployment):
        return ["Weights are quantised to FP8 while loading (--quantization fp8); the checkpoint stays 16-bit."]
    if stored in ("bf16", "fp16", "fp32"):
        return []
    return [f"The checkpoint must be stored in {stored}; {title} reads that from its config.json."]


def script(deployment: Deployment, target: Target) -> str:
    """A shell script that starts one replica on this machine, or one node of it."""
    made = server(deployment)
    unit = "unit" if deployment.prefill_workers else "replica"
    lines = [*made.notes, f"This starts one {unit}; the plan has {deployment.groups}."]
    if deployment.option.bill.kind == WORKER:
        lines.append(f"{deployment.provider} starts workers itself: give them {made.image} and the command below.")
    lines.append("Tokens are read from the environment: export HF_TOKEN before starting a gated model.")
    text = target.script(lines, "\n", version=made.version)
    if deployment.members == 1:
        return text + "exec " + shell(made.argv) + "\n"
    known, what, held = "LEADER_ADDRESS", "the first node", "the first one's address"
    if deployment.prefill_workers:
        known, what, held = "NODE_ADDRESSES", "addresses of all nodes", "the addresses of all, in that order"
    usage = comment(
        [
            f"A {unit} spans {deployment.members} nodes: run this on each, with NODE_RANK=0 on the first and 1, 2, ...",
            f"on the others, and {known} set to {held}.",
        ]
    )
    return f'{text}{usage}: "${{{known}:?{what}}}" "${{NODE_RANK:?0 on the first node}}"\n{made.by_rank}\n'
