"""How is a model read from files on this machine: a config.json, a folder, a safetensors or a GGUF file?"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any, Final

import msgspec

from tonnage.catalog.hub.config import read_config
from tonnage.catalog.hub.gguf import read_gguf
from tonnage.catalog.hub.jsonfile import read_object
from tonnage.catalog.hub.safetensors import read_folder, read_safetensors
from tonnage.catalog.hub.weights import Tensor, Weights, describe
from tonnage.domain.model import Attention, LayerGroup, Mlp, Model
from tonnage.errors import BadFact, echo

__all__ = ["read_path"]


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
        from tonnage.catalog.hub.traced import read_profile

        return read_profile(data, where=str(echo(path)))
    if {"layers", "network", "towers"} & set(data):
        from tonnage.catalog.hub.inline import read_inline

        return read_inline(data, where=str(echo(path)))
    if path.name == "config.json":
        data = _with_quantization(data, path.parent)
    return read_config(data, file=str(echo(path)), name=_name_of(data, path))


def _name_of(data: dict[str, Any], path: Path) -> str:
    stated = data.get("_name_or_path")
    named = stated if isinstance(stated, str) and stated and not stated.startswith(("/", ".")) else ""
    return named or (path.parent.resolve().name if path.name == "config.json" else path.stem) or str(path)


def _with_quantization(data: dict[str, Any], folder: Path) -> dict[str, Any]:
    """NVIDIA's checkpoints say in a file of their own how they are quantised."""
    beside = folder / "hf_quant_config.json"
    if "quantization_config" in data or not beside.is_file():
        return data
    return {**data, "quantization_config": {"quant_method": "modelopt", **read_object(beside)}}


def _folder(folder: Path) -> Model:
    config = folder / "config.json"
    files = sorted(folder.glob("*.gguf"))
    if config.is_file():
        model = read_path(config)
        weights = read_folder(folder)
        return model if weights is None else _weighed(model, weights)
    if files:
        first = [path for path in files if not re.search(r"-0*(?!1-)\d+-of-", path.name)]
        if len(first) > 1:
            raise BadFact(f"{echo(folder)}: holds {len(first)} GGUF models; name one, such as {echo(first[0].name)}")
        return read_gguf(first[0] if first else files[0])
    single = sorted(folder.glob("*.safetensors"))
    if len(single) == 1:
        return _one_file(single[0])
    raise BadFact(f"{echo(folder)}: no config.json in it; expected a model's folder")


def _weighed(model: Model, weights: Weights) -> Model:
    """The model with the exact bytes of its files."""
    note = f"weights on disk: {describe(weights)}"
    notes = f"{model.notes}; {note}" if model.notes else note
    return msgspec.structs.replace(model, stored_weight_bytes=weights.bytes, notes=notes)


def _one_file(path: Path) -> Model:
    """One safetensors file: its own folder's config.json, else the shape its tensors tell."""
    weights = read_safetensors(path)
    if (path.parent / "config.json").is_file():
        return _weighed(read_path(path.parent / "config.json"), weights)
    shaped = _from_tensors(weights.tensors)
    name = path.stem
    if shaped is None:
        values = float(sum(tensor.values for tensor in weights.tensors))
        note = "no config.json beside the file and no decoder in its tensor names: sizes only, no shape"
        bare = Model(
            id=name, family="unknown", kind="unknown", extra_parameters=values, source=path.name, assumed=(note,)
        )
        return _weighed(bare, weights)
    return _weighed(msgspec.structs.replace(shaped, id=name, source=path.name), weights)


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
        num_attention_heads=found["q"][0] // head, num_key_value_heads=found["k"][0] // head, head_dim=head,
        bias=f"{first}.q_proj.bias" in shapes, qk_norm=len(norm) == 1,
    )  # fmt: skip
    sized = "as the query norm says" if len(norm) == 1 else "assumed"
    group = LayerGroup(count=len(numbers), mixer=mixer, feed_forward=Mlp(intermediate_size=found["gate"][0]))
    return Model(
        id="", family="unknown", kind="llm", hidden_size=width, vocab_size=found["embedding"][0], layers=(group,),
        tie_word_embeddings="lm_head.weight" not in shapes,
        assumed=(f"no config.json: a Llama-like decoder read from tensor shapes, heads of width {head} {sized}",),
    )  # fmt: skip
