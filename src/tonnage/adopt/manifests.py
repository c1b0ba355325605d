"""Servers in the documents of orchestrators: Kubernetes, KServe, Ray Serve, Helm values, Compose, SkyPilot, dstack."""

from __future__ import annotations

import math
import re
import shlex
from collections.abc import Callable, Mapping
from typing import Any, Final

from msgspec.structs import replace

from tonnage.adopt.commands import (
    Started,
    as_arguments,
    find_started,
    others_left_out,
    release_of,
    serving,
    serving_script,
)
from tonnage.adopt.documents import (
    count_in,
    documents_of,
    group_in,
    list_in,
    machine_of_labels,
    machine_of_words,
    path_in,
    whole_of,
)
from tonnage.adopt.shell import expand_text, read_script, split_words
from tonnage.questions.adopt.question import Machine, Running

Document = dict[str, Any]

ENGINE_OF_PLATFORMS: Final = "vllm"
"""What Ray Serve's LLM API, KServe's Hugging Face runtime and the production stack start."""
APART: Final = "workers for prompts stand apart, and were not read: those that answer are"
_KSERVE_OPTIONS: Final = {"--model_name": "--served-model-name", "--model_id": "--model"}
"""What KServe's Hugging Face runtime itself takes, in vLLM's words; all else it hands on to vLLM."""
_GPUS: Final = ("nvidia.com/gpu", "amd.com/gpu", "habana.ai/gaudi", "google.com/tpu")
_PODS: Final = frozenset({"Pod", "Deployment", "StatefulSet", "ReplicaSet", "DaemonSet", "Job", "LeaderWorkerSet"})


def running_in(documents: list[Document]) -> Running | None:
    """The server that some documents describe; None where none of them does."""
    if any("kind" in document and "apiVersion" in document for document in documents):
        return _kubernetes(documents)
    for read in _OTHERS:
        for document in documents:
            if (found := read(document)) is not None:
                return found
    return None


# Kubernetes


def _kubernetes(documents: list[Document]) -> Running | None:
    """The first server of a file, further ones noted; with an autoscaler the mean of its bounds is what runs."""
    found = [running for document in documents if (running := _workload(document)) is not None]
    if not found:
        return None
    first = found[0]
    notes = list(first.notes)
    if len(found) > 1:
        notes.append(f"{len(found) - 1} more servers in the file were not read: adopt each from a file of its own")
    scaler = next((d for d in documents if d.get("kind") in ("HorizontalPodAutoscaler", "ScaledObject")), None)
    if scaler is not None:
        low, high = _read_replicas(scaler)
        mean = max(1, math.ceil((low + max(low, high)) / 2))
        notes.append(
            f"an autoscaler keeps {low} to {high} replicas, on average what --rate needs of them, else {mean}, their "
            "mean (--replicas)"
        )
        return replace(first, replicas=mean, scaled=(max(1, low), max(1, low, high)), notes=tuple(notes))
    return replace(first, notes=tuple(notes))


def _read_replicas(document: Document) -> tuple[int, int]:
    counts = [
        (count_in(document, "spec", f"{end}Replicas"), count_in(document, "spec", f"{end}ReplicaCount"))
        for end in ("min", "max")
    ]
    low, high = (next((count for count in pair if count is not None), 1) for pair in counts)
    return low, high


def _workload(document: Document) -> Running | None:
    """The server of one document, by its kind; None where the kind starts no pods."""
    kind = str(document.get("kind", ""))
    if kind == "InferenceService":
        return _kserve(document)
    if kind == "LLMInferenceService":
        return _llm_inference(document)
    if kind == "DynamoGraphDeployment":
        return _dynamo(document)
    if kind == "RayService":
        inner = path_in(document, "spec", "serveConfigV2")
        served = documents_of(inner, where="serveConfigV2") if isinstance(inner, str) else []
        return next((found for one in served if (found := _ray_serve(one)) is not None), None)
    if kind not in _PODS:
        return None
    group = group_in(document, "spec", "leaderWorkerTemplate") if kind == "LeaderWorkerSet" else {}
    if group:
        template = group_in(group, "leaderTemplate") or group_in(group, "workerTemplate")
        nodes = count_in(group, "size") or 1
    else:
        template, nodes = (document if kind == "Pod" else group_in(document, "spec", "template")), 1
    stated = [count_in(document, "spec", name) for name in ("replicas", "parallelism")] if kind != "Pod" else []
    replicas = next((count for count in stated if count is not None), 1) or 1
    found = _pod(group_in(template, "spec"), format=f"Kubernetes {kind}", replicas=replicas, nodes=nodes)
    if found is None or group or found.machine.nodes == 1:
        return found
    return replace(found, replicas=max(1, found.replicas // found.machine.nodes))  # each pod is a node of a server


def _pod(pod: Document, *, format: str, replicas: int, nodes: int) -> Running | None:
    """The first container that starts a server."""
    for container in list_in(pod, "containers"):
        if not isinstance(container, dict):
            continue
        # The first two are set by the controller of a LeaderWorkerSet.
        environment = {"LWS_GROUP_SIZE": str(nodes), "LWS_WORKER_INDEX": "0"} | {
            str(entry.get("name")): str(entry["value"])
            for entry in list_in(container, "env")
            if isinstance(entry, dict) and entry.get("value") is not None
        }
        words = [
            _expand_variables(str(word), environment)
            for name in ("command", "args")
            for word in _list(container.get(name))
        ]
        machine = replace(machine_of_labels(_labels(pod)), count=_count_devices(container), nodes=nodes)
        found = _read_server(words, str(container.get("image") or ""), environment, format, machine, replicas)
        if found is not None:
            return found
    return None


def _read_server(
    words: list[str], image: str, environment: Mapping[str, str], format: str, machine: Machine, replicas: int
) -> Running | None:
    """The server of a container: a script in its command, a program, or the image's entry point."""
    script = read_script(shlex.join(words), variables=environment)
    inside = serving_script(script, format=format, machine=machine, replicas=replicas) if len(words) > 1 else None
    if inside is not None:
        return inside if inside.version else replace(inside, version=release_of(image))
    started = find_started(words, image=image)
    if started is None:
        return None
    return serving(started, format=format, machine=machine, replicas=replicas)


def _expand_variables(word: str, environment: Mapping[str, str]) -> str:
    """$(NAME) is a variable of the container, $$ a dollar."""
    named = re.sub(r"(?<!\$)\$\((\w+)\)", lambda found: environment.get(found[1], found[0]), word)
    return expand_text(named.replace("$$", "$"), environment)


def _list(value: Any) -> list[str]:
    return [] if value is None else [str(word) for word in value] if isinstance(value, list) else str(value).split()


def _count_devices(container: Document) -> int | None:
    for part in ("limits", "requests"):
        for name in _GPUS:
            if (count := count_in(container, "resources", part, name)) is not None:
                return count
    return None


def _labels(pod: Document) -> dict[str, str]:
    """Labels that a node must have: by the selector, or by what affinity requires."""
    found = {str(name): str(value) for name, value in group_in(pod, "nodeSelector").items()}
    required = ("affinity", "nodeAffinity", "requiredDuringSchedulingIgnoredDuringExecution", "nodeSelectorTerms")
    for term in list_in(pod, *required):
        for expression in list_in(term, "matchExpressions"):
            values = path_in(expression, "values")
            if path_in(expression, "operator") == "In" and isinstance(values, list) and values:
                found.setdefault(str(expression.get("key")), str(values[0]))
    return found


def _llm_inference(document: Document) -> Running | None:
    """KServe's LLMInferenceService: fields for model and degrees, vLLM's other options in one variable."""
    spec = group_in(document, "spec")
    degrees, template = group_in(spec, "parallelism"), group_in(spec, "template")
    container = path_in(template, "containers", 0) or {}
    environment = {str(one.get("name")): str(one.get("value") or "") for one in list_in(container, "env")}
    uri = str(path_in(spec, "model", "uri") or "")
    model = uri if uri.startswith("hf://") else path_in(spec, "model", "name") or uri
    named = {f"{name}-parallel-size": degrees.get(name) for name in ("tensor", "pipeline", "data")}
    arguments = [f"--model={model}", *as_arguments(named)]
    arguments += ["--enable-expert-parallel"] if degrees.get("expert") else []
    arguments += [*split_words(environment.get("VLLM_ADDITIONAL_ARGS", "")), *_list(container.get("args"))]
    local = count_in(degrees, "dataLocal")
    nodes = (count_in(degrees, "data") or 1) // local if local else 1
    machine = replace(machine_of_labels(_labels(template)), count=_count_devices(container), nodes=max(1, nodes))
    found = _vllm(arguments, format="KServe LLMInferenceService", machine=machine,
                  replicas=count_in(spec, "replicas") or 1)  # fmt: skip
    return replace(found, notes=(*found.notes, *([APART] if spec.get("prefill") else [])))


def _dynamo(document: Document) -> Running | None:
    """NVIDIA Dynamo's graph, as services by name or as components: the first worker that answers."""
    services = group_in(document, "spec", "services")
    parts = [*services.values(), *list_in(document, "spec", "components")]
    found: list[Running] = []
    prompts = False
    for part in (part for part in parts if isinstance(part, dict)):
        if path_in(part, "subComponentType") == "prefill" or part.get("type") == "prefill":
            prompts = True
            continue
        pod = {**group_in(part, "extraPodSpec"), **group_in(part, "podTemplate", "spec")}
        container = group_in(part, "extraPodSpec", "mainContainer")
        if container:
            limits = {"limits": {_GPUS[0]: count_in(part, "resources", "limits", "gpu")}}
            pod["containers"] = [{**container, "resources": limits}]
        read = _pod(
            pod,
            format="Dynamo graph",
            replicas=count_in(part, "replicas") or 1,
            nodes=count_in(part, "multinode", "nodeCount") or 1,
        )
        found += [read] if read is not None else []
    if not found:
        return None
    return replace(found[0], notes=(*found[0].notes, *others_left_out(len(found) - 1), *([APART] if prompts else [])))


def _kserve(document: Document) -> Running | None:
    """An InferenceService: its container, or its model with KServe's own names of options."""
    predictor = group_in(document, "spec", "predictor")
    model = group_in(predictor, "model")
    replicas = count_in(predictor, "maxReplicas") or count_in(predictor, "minReplicas") or 1
    if not model:
        return _pod(predictor, format="KServe InferenceService", replicas=replicas, nodes=1)
    words = [str(word).partition("=") for word in _list(model.get("args"))]
    arguments = [f"{_KSERVE_OPTIONS.get(name, name)}{sign}{value}" for name, sign, value in words]
    uri = str(model.get("storageUri") or "")
    if uri:
        arguments.insert(0, f"--model={uri}")
    machine = replace(machine_of_labels(_labels(predictor)), count=_count_devices(model))
    return _vllm(arguments, format="KServe InferenceService", machine=machine, replicas=replicas)


def _vllm(arguments: list[str], *, format: str, machine: Machine, replicas: int, version: str | None = None) -> Running:
    """The engine that platforms start."""
    started = Started(program=ENGINE_OF_PLATFORMS, arguments=tuple(arguments), version=version)
    return serving(started, format=format, machine=machine, replicas=replicas)


# Others


def _ray_serve(document: Document) -> Running | None:
    """Ray Serve's LLM API: applications of `llm_configs`, each with the engine's own arguments."""
    for application in list_in(document, "applications"):
        config = path_in(application, "args", "llm_configs", 0)
        if not isinstance(config, dict):
            continue
        source = path_in(config, "model_loading_config", "model_source") or path_in(
            config, "model_loading_config", "model_id"
        )
        deployed = group_in(config, "deployment_config")
        # "auto" leaves the count to the scaler.
        replicas = None if path_in(deployed, "num_replicas") == "auto" else count_in(deployed, "num_replicas")
        replicas = replicas or count_in(deployed, "autoscaling_config", "max_replicas") or 1
        arguments = [f"--model={source}", *as_arguments(group_in(config, "engine_kwargs"))]
        machine = machine_of_words(str(config.get("accelerator_type") or ""), by="ray")
        return _vllm(arguments, format="Ray Serve configuration", machine=machine, replicas=replicas)
    return None


def _production_stack(document: Document) -> Running | None:
    """Values of vLLM's production-stack chart."""
    specs = [one for one in list_in(document, "servingEngineSpec", "modelSpec") if isinstance(one, dict)]
    if not specs:
        return None
    spec = next((one for one in specs if path_in(one, "lmcacheConfig", "kvRole") != "kv_producer"), specs[0])
    config = {**group_in(spec, "vllmConfig")}
    extra = _list(config.pop("extraArgs", None))
    named = {re.sub(r"(?<!^)(?=[A-Z])", "-", str(name)).lower(): value for name, value in config.items()}
    arguments = [f"--model={spec.get('modelURL')}", *as_arguments(named), *extra]
    release = release_of(f"{spec.get('repository', '')}:{spec.get('tag', '')}")
    machine = replace(machine_of_labels(_labels(spec)), count=count_in(spec, "requestGPU"))
    replicas = count_in(spec, "replicaCount") or 1
    found = _vllm(arguments, format="production-stack values", machine=machine, replicas=replicas, version=release)
    apart = any(path_in(one, "lmcacheConfig", "kvRole") for one in specs)
    notes = [APART] if apart else others_left_out(len(specs) - 1)
    lost = _list(spec.get("extraArgs"))  # the chart takes them under vllmConfig alone
    if lost:
        notes = [*notes, "extraArgs outside vllmConfig: the chart hands them to no server"]
    return replace(found, unknown=(*found.unknown, *lost), notes=(*found.notes, *notes))


def _compose(document: Document) -> Running | None:
    """The first service that starts a server; as many replicas as services like it, the others noted."""
    services = document.get("services")
    if not isinstance(services, dict):
        return None
    found: list[Running] = []
    for service in services.values():
        if not isinstance(service, dict):
            continue
        environment = _environment(service.get("environment"))
        words = [
            expand_text(str(word).replace("$$", "$"), environment)
            for name in ("entrypoint", "command")
            for word in _words(service.get(name))
        ]
        machine = Machine(count=_compose_devices(service))
        running = _read_server(words, str(service.get("image") or ""), environment, "Compose file", machine, 1)
        if running is not None:
            found.append(running)
    if not found:
        return None
    first = found[0]
    alike = sum(one.values() == first.values() and one.model == first.model for one in found)
    return replace(first, replicas=alike, notes=(*first.notes, *others_left_out(len(found) - alike)))


def _words(value: Any) -> list[str]:
    return [str(word) for word in value] if isinstance(value, list) else split_words(str(value or ""))


def _environment(value: Any) -> dict[str, str]:
    if isinstance(value, dict):
        return {str(name): str(text) for name, text in value.items() if text is not None}
    pairs = [str(entry).partition("=") for entry in value or []] if isinstance(value, list) else []
    return {name: text for name, equals, text in pairs if equals}


def _compose_devices(service: Document) -> int | None:
    devices = path_in(service, "deploy", "resources", "reservations", "devices", 0)
    if isinstance(devices, dict):
        ids, count = devices.get("device_ids"), devices.get("count")
        return len(ids) if isinstance(ids, list) else whole_of(count)
    return None


def _skypilot(document: Document) -> Running | None:
    """A task that serves; of several accelerators to choose from the first, of a replica policy the most."""
    resources = document.get("resources")
    if not isinstance(document.get("run"), str) or not isinstance(resources, dict):
        return None
    environment = {**_environment(document.get("envs")), **_environment(document.get("secrets"))}
    accelerators = resources.get("accelerators")
    name = next(iter(accelerators), "") if isinstance(accelerators, dict | list) else str(accelerators or "")
    count = accelerators.get(name) if isinstance(accelerators, dict) else None
    name, _, after = str(name).strip("{} ").partition(":")
    infra = str(resources.get("infra") or resources.get("cloud") or "").split("/")
    machine = replace(
        machine_of_words(name.strip(), by="skypilot"),
        count=whole_of(count if count is not None else after or 1),
        nodes=count_in(document, "num_nodes") or 1,
        provider=infra[0] if infra[0] not in ("k8s", "kubernetes") else "",
        region=infra[1] if len(infra) > 1 and infra[1] != "*" else str(resources.get("region") or ""),
        instance_type=str(resources.get("instance_type") or ""),
        spot=resources.get("use_spot") is True,
    )
    service = group_in(document, "service")
    places = (("replicas",), ("replica_policy", "max_replicas"), ("replica_policy", "min_replicas"))
    replicas = next((count for place in places if (count := count_in(service, *place))), 1)
    variables = {
        **environment,
        "SKYPILOT_NUM_GPUS_PER_NODE": str(machine.count or 1),
        "SKYPILOT_NUM_NODES": str(machine.nodes),
    }
    script = read_script(document["run"], variables=variables)
    found = serving_script(script, format="SkyPilot task", machine=machine, replicas=replicas)
    image = str(resources.get("image_id") or "")
    return found if found is None or found.version else replace(found, version=release_of(image))


def _dstack(document: Document) -> Running | None:
    """A service or task that serves, its accelerators as a mapping or as a text such as "H100:80GB:8"."""
    commands, kind = document.get("commands"), document.get("type")
    if kind not in ("service", "task") or not isinstance(commands, list):
        return None
    gpu = path_in(document, "resources", "gpu")
    words = (
        gpu
        if isinstance(gpu, dict)
        else dict(zip(("name", "memory", "count"), str(gpu or "").split(":"), strict=False))
    )
    count = whole_of(words.get("count")) or next(
        (whole_of(part) for part in str(gpu).split(":")[1:] if part.isdecimal()), None
    )
    machine = replace(
        machine_of_words(str(words.get("name") or ""), by="dstack", memory=str(words.get("memory") or "")), count=count
    )
    # A range (1..4) is taken at its larger end, as at the peak.
    replicas = count_in({"replicas": str(document.get("replicas", 1)).rpartition("..")[2]}, "replicas") or 1
    script = read_script(
        "\n".join(map(str, commands)),
        variables={**_environment(document.get("env")), "DSTACK_GPUS_NUM": str(count or 1)},
    )
    return serving_script(script, format="dstack configuration", machine=machine, replicas=max(replicas, 1))


_OTHERS: Final[tuple[Callable[[Document], Running | None], ...]] = (
    _ray_serve,
    _production_stack,
    _compose,
    _skypilot,
    _dstack,
)
