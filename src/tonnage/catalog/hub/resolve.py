"""
Which model does a text or a mapping mean, wherever it is?

In this order: a model that is one already; a mapping of fields; a path written as a path; a bare size ("13B"); a
catalogue id or variant; a folder of that name; the local cache of a hub; the hub itself, unless `offline`. So a name is
never looked up on a network that the catalogue knows, and a folder never hides a catalogue name. A path is a
config.json, a folder, a safetensors or a GGUF file, or the file that `tonnage trace` wrote.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from math import isfinite
from pathlib import Path
from typing import Any, Final, TypeAlias

import msgspec
from msgspec.structs import replace

from tonnage.catalog.additions import NOTHING, Additions
from tonnage.catalog.hub import online
from tonnage.catalog.hub.config import read_config, read_inline
from tonnage.catalog.hub.fields import read_object
from tonnage.catalog.hub.gguf import read_gguf
from tonnage.catalog.hub.names import looks_like_path, read_size
from tonnage.catalog.hub.weights import Tensor, Weights, describe, read_folder, read_safetensors
from tonnage.domain.model import Attention, LayerGroup, Mlp, Model, Network
from tonnage.domain.profile import PROFILE_SCHEMA, Profile
from tonnage.errors import BadFact, BadRequest, UnknownName, echo
from tonnage.foreign import check_values, plain_text

ModelSpec: TypeAlias = str | Mapping[str, Any] | Model | Path | None
"""How a request names a model."""


def resolve(spec: ModelSpec, *, additions: Additions = NOTHING, offline: bool | None = None) -> Model:
    """
    The model that `spec` means.

    Parameters
    ----------
    spec : str, mapping, Model or Path
        Catalogue id or any variant of its name; Hugging Face id or URL; path of a config.json, folder, safetensors or
        GGUF file; fields of a model or of a config.json; a bare size.
    additions : Additions
        The user's own models.
    offline : bool, optional
        Never ask a hub. Absent: as HF_HUB_OFFLINE and TONNAGE_OFFLINE say, else ask for ids the catalogue lacks.

    Raises
    ------
    UnknownName
        No such model; suggests the nearest.
    BadFact
        A file says something impossible.
    BadRequest
        The text is no name, or the hub refuses.
    """
    if isinstance(spec, Model):
        return spec
    if isinstance(spec, Path):
        return read_path(spec)
    if isinstance(spec, Mapping):
        check_values(dict(spec), where="model", lines=False)
        return read_inline(spec)
    text = spec.strip() if isinstance(spec, str) else ""
    if not text or "\0" in text:
        raise BadRequest(
            f"model: '{echo(spec)}' is no model; give an id such as 'Qwen/Qwen3-8B', a path or a size ('13B')"
        )
    if looks_like_path(text):
        return read_path(Path(text))
    sized = read_size(text) if text[0].isdigit() else None
    return sized if sized is not None else _by_name(text, additions, offline)


WITHOUT_TEXT: Final = frozenset({"encoder", "embedding", "vision", "vision-text", "diffusion", "video-diffusion"})
"""Kinds of models whose layers read or draw, and decode no text."""


def resolve_text(
    spec: ModelSpec, *, additions: Additions, tokens: float = 2.0, where: str = "model", instead: str = ""
) -> Model:
    """
    The model that `spec` means, as `resolve`, for answers of so many tokens; an encoder's one is its forward pass.

    Raises
    ------
    BadRequest
        It decodes no text; `instead` says what to ask.
    """
    model = resolve(spec, additions=additions)
    if not model.layers or (tokens > 1 and model.kind in WITHOUT_TEXT):
        instead = instead or f"ask `tonnage plan infer {model.id} --rate …`"
        raise BadRequest(f"{where}: {model.id} decodes no text; {instead}")
    return model


def _by_name(text: str, additions: Additions, offline: bool | None) -> Model:
    """
    The model of a name or address: of the catalogue, a folder of that name, the hub's cache, or the hub.

    Offline, a name that none of them has is an unknown name; asked and not found, the hub's answer is said.
    """
    from tonnage.catalog.models import model, model_ids

    address = text.startswith(("http://", "https://", "hf:"))
    repo = online.repository(text) if address else None
    if address and repo is None:
        raise BadRequest(f"model: '{echo(text)}' names no model on a hub; expected https://huggingface.co/OWNER/NAME")
    try:
        return model(repo.id if repo is not None else text, additions)
    except UnknownName as unknown:
        if _is_folder(text):
            return read_path(Path(text))
        repo = repo or online.repository(text)
        if repo is None:
            raise
        offline = online.offline_by_choice() if offline is None else offline
        try:
            return read_repository(repo, offline=offline)
        except online.HubFailure as failure:
            if offline:
                raise unknown from None
            raise online.not_found(repo, why=str(failure), known=model_ids(additions)) from unknown


def _is_folder(text: str) -> bool:
    try:
        return Path(text).is_dir()
    except OSError:
        return False


def read_repository(repo: online.Repository, *, offline: bool = False) -> Model:
    """The model as the hub describes it, or as the weights on this machine do when they are here; else HubFailure."""
    folder = online.folder_in_cache(repo)
    if folder is not None:
        return replace(read_path(folder), id=repo.id)
    data = online.fetch(repo, "config.json", offline=offline)
    if "quantization_config" not in data:
        quantised = _optional(repo, "hf_quant_config.json", offline)
        if quantised is not None:
            data = {**data, "quantization_config": {"quant_method": "modelopt", **quantised}}
    found = read_config(data, file=f"{repo.id}/config.json", name=repo.id)
    size = _total_size(_optional(repo, "model.safetensors.index.json", offline))
    return found if size is None else replace(found, stored_weight_bytes=size)


def _optional(repo: online.Repository, name: str, offline: bool) -> dict[str, Any] | None:
    """A file that a repository may lack; what goes wrong with one costs nothing but its facts."""
    try:
        return online.fetch(repo, name, limit=online.MAX_INDEX_BYTES, offline=offline)
    except online.HubFailure:
        return None


def _total_size(index: dict[str, Any] | None) -> float | None:
    metadata = None if index is None else index.get("metadata")
    size = metadata.get("total_size") if isinstance(metadata, dict) else None
    good = isinstance(size, int | float) and not isinstance(size, bool) and 0 < size < 1e15
    return float(size) if good and size is not None else None


def read_path(path: Path) -> Model:
    """
    The model at a path.

    Raises
    ------
    BadFact
        Nothing there, or nothing a model can be read from.
    """
    path = path.expanduser()
    if path.is_dir():
        return _folder(path)
    if not path.is_file():
        raise BadFact(
            f"{echo(path)}: no such file or folder; expected a config.json, safetensors, GGUF or a model's folder"
        )
    if path.suffix.lower() == ".gguf":
        return read_gguf(path)
    if path.suffix.lower() == ".safetensors":
        return _one_file(path)
    data = read_object(path)
    if str(data.get("schema", "")).startswith("tonnage.profile/"):
        return read_profile(data, where=str(echo(path)))
    if {"layers", "network", "towers"} & set(data):
        check_values(data, where=echo(path), lines=False)
        return read_inline(data, where=echo(path))
    if path.name == "config.json":
        data = _with_quantization(data, path.parent)
    return read_config(data, file=str(echo(path)), name=_name_of(data, path))


def _name_of(data: dict[str, Any], path: Path) -> str:
    stated = data.get("_name_or_path")
    named = stated if isinstance(stated, str) and stated and not stated.startswith(("/", ".")) else ""
    called = named or (path.parent.resolve().name if path.name == "config.json" else path.stem) or str(path)
    return plain_text(called, where=f"{echo(path)}: the name")


def _with_quantization(data: dict[str, Any], folder: Path) -> dict[str, Any]:
    """NVIDIA's checkpoints say in a file of their own how they are quantised."""
    own = folder / "hf_quant_config.json"
    if "quantization_config" in data or not own.is_file():
        return data
    return {**data, "quantization_config": {"quant_method": "modelopt", **read_object(own)}}


def _folder(folder: Path) -> Model:
    """The model in a folder: by its config.json, else its one GGUF model, else its one safetensors file."""
    config = folder / "config.json"
    files = sorted(folder.glob("*.gguf"))
    if config.is_file():
        model = read_path(config)
        weights = read_folder(folder)
        return model if weights is None else _with_file_bytes(model, weights)
    if files:
        first = [path for path in files if not re.search(r"-0*(?!1-)\d+-of-", path.name)]
        if len(first) > 1:
            raise BadFact(f"{echo(folder)}: holds {len(first)} GGUF models; name one, such as {echo(first[0].name)}")
        return read_gguf(first[0] if first else files[0])
    single = sorted(folder.glob("*.safetensors"))
    if len(single) == 1:
        return _one_file(single[0])
    raise BadFact(f"{echo(folder)}: no config.json in it; expected a model's folder")


def _with_file_bytes(model: Model, weights: Weights) -> Model:
    """The model with the exact bytes of its files."""
    note = f"weights on disk: {describe(weights)}"
    notes = f"{model.notes}; {note}" if model.notes else note
    return replace(model, stored_weight_bytes=weights.bytes, notes=notes)


def _one_file(path: Path) -> Model:
    """One safetensors file: its own folder's config.json, else the shape its tensors tell."""
    weights = read_safetensors(path)
    if (path.parent / "config.json").is_file():
        return _with_file_bytes(read_path(path.parent / "config.json"), weights)
    shaped = _from_tensors(weights.tensors)
    name = path.stem
    if shaped is None:
        values = float(sum(tensor.values for tensor in weights.tensors))
        note = "no config.json beside the file and no decoder in its tensor names: sizes only, no shape"
        bare = Model(
            id=name, family="unknown", kind="unknown", extra_parameters=values, source=path.name, assumed=(note,)
        )
        return _with_file_bytes(bare, weights)
    return _with_file_bytes(replace(shaped, id=name, source=path.name), weights)


HEAD_WIDTHS: Final = (128, 64, 96, 80, 32, 16)
"""Usual widths of a head, the commonest first."""

_LAYER: Final = re.compile(r"(?:model\.)?layers\.(\d+)\.")


def _from_tensors(tensors: tuple[Tensor, ...]) -> Model | None:
    """A Llama-like decoder from the shapes of its tensors, when they are all there and plain."""
    shapes = {tensor.name.removeprefix("model."): tensor.shape for tensor in tensors}
    numbers = {int(match.group(1)) for name in shapes if (match := _LAYER.match(name))}
    first = "layers.0.self_attn"
    names = {"embedding": "embed_tokens.weight", "gate": "layers.0.mlp.gate_proj.weight"}
    names |= {"q": f"{first}.q_proj.weight", "k": f"{first}.k_proj.weight"}
    found = {key: shapes.get(name, ()) for key, name in names.items()}
    if not numbers or any(len(shape) != 2 or min(shape) < 1 for shape in found.values()):
        return None
    width = found["embedding"][1]
    if found["q"][1] != width or found["gate"][1] != width:
        return None
    norm = shapes.get(f"{first}.q_norm.weight", ())
    head = (
        norm[0]
        if len(norm) == 1
        else next((h for h in HEAD_WIDTHS if not found["q"][0] % h and not found["k"][0] % h), 0)
    )
    if not head or found["q"][0] % head or found["k"][0] % head:
        return None
    mixer = Attention(
        num_attention_heads=found["q"][0] // head,
        num_key_value_heads=found["k"][0] // head,
        head_dim=head,
        bias=f"{first}.q_proj.bias" in shapes,
        qk_norm=len(norm) == 1,
    )
    sized = "as the query norm says" if len(norm) == 1 else "assumed"
    group = LayerGroup(count=len(numbers), mixer=mixer, feed_forward=Mlp(intermediate_size=found["gate"][0]))
    return Model(
        id="",
        family="unknown",
        kind="llm",
        hidden_size=width,
        vocab_size=found["embedding"][0],
        layers=(group,),
        tie_word_embeddings="lm_head.weight" not in shapes,
        assumed=(f"no config.json: a Llama-like decoder read from tensor shapes, heads of width {head} {sized}",),
    )


MAX_VALUE: Final = 1e18


def read_profile(data: Mapping[str, Any], *, where: str) -> Model:
    """
    The model in a profile file.

    Raises
    ------
    BadFact
        Another schema, a field that is missing or of the wrong type, or an impossible count.
    """
    if data.get("schema") != PROFILE_SCHEMA:
        raise BadFact(f"{where}: schema '{echo(data.get('schema'))}'; this version reads '{PROFILE_SCHEMA}'")
    try:
        profile = msgspec.convert(data, Profile)
    except (msgspec.ValidationError, RecursionError) as problem:
        raise BadFact(f"{where}: {echo(problem)}") from None
    _check(profile, where)
    return model_of(profile)


def model_of(profile: Profile) -> Model:
    """A traced module as a model: its totals as a network, its operators in the profile."""
    image = next((shape for shape in (given.shape for given in profile.inputs) if len(shape) == 4), None)
    return Model(
        id=profile.name,
        family="traced",
        kind="traced",
        has_head=False,
        final_norms=0,
        network=Network(
            flop=profile.flop,
            input_px=image[-1] if image is not None and image[-1] == image[-2] else None,
            activation_values=profile.output_values or None,
        ),
        profile=profile,
        native_dtype="bf16" if profile.value_bytes < 3 else "fp32",
        extra_parameters=profile.parameters,
        published_parameters=profile.parameters,
        source=profile.source,
        assumed=profile.notes,
    )


def _check(profile: Profile, where: str) -> None:
    """Counts are finite and not negative: a converted struct only has the right types."""
    if profile.samples < 1:
        raise BadFact(f"{where}: 'samples' is {profile.samples}; at least one sample is traced")
    if not profile.forward:
        raise BadFact(f"{where}: 'forward' is empty; a module does something")
    found: dict[str, Any] = {"": profile}
    for name in ("forward", "backward", "moments"):
        found.update({f"{name}[{place}].": part for place, part in enumerate(getattr(profile, name))})
    for prefix, part in found.items():
        for field in part.__struct_fields__:
            value = getattr(part, field)
            if isinstance(value, float) and not (isfinite(value) and 0 <= value < MAX_VALUE):
                raise BadFact(f"{where}: '{prefix}{field}' is {value:g}; a count is between 0 and {MAX_VALUE:g}")
