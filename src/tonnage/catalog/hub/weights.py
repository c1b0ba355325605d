"""
What do weight files hold, by their headers alone?

`Weights` is what a header tells exactly: bytes and values by number format, and the shape of each tensor. No tensor is
ever read. A safetensors file starts with the length of its header (8 bytes, little-endian), then a JSON object: for
each tensor its dtype, shape and place. The header is checked against the file's size and every tensor against its dtype
before a number is believed. Source: the format's documentation (huggingface/safetensors, Apache-2.0).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from tonnage.catalog.hub.fields import parse_object, read_object
from tonnage.errors import BadFact, echo
from tonnage.record import Record


class Tensor(Record):
    """One tensor of a weight file."""

    name: str
    shape: tuple[int, ...]
    dtype: str
    bytes: int

    @property
    def values(self) -> int:
        """Values stored, padding of packed formats included."""
        product = 1
        for side in self.shape:
            product *= side
        return product


class Weights(Record, kw_only=True):
    """Exact contents of one or more weight files."""

    tensors: tuple[Tensor, ...]
    bytes: float
    bytes_by_dtype: Mapping[str, float]


def weights_of(tensors: Iterable[Tensor]) -> Weights:
    """Add tensors up."""
    kept = tuple(tensors)
    by_dtype: dict[str, float] = {}
    for tensor in kept:
        by_dtype[tensor.dtype] = by_dtype.get(tensor.dtype, 0.0) + tensor.bytes
    return Weights(tensors=kept, bytes=float(sum(tensor.bytes for tensor in kept)), bytes_by_dtype=by_dtype)


def describe(found: Weights) -> str:
    """The formats of the weights in one line, largest first: "bf16 15.0 GB, fp8 1.2 GB"."""
    ordered = sorted(found.bytes_by_dtype.items(), key=lambda item: -item[1])
    return ", ".join(f"{name} {size / 1e9:.4g} GB" for name, size in ordered if size)


MAX_HEADER_LENGTH: Final = 24_000_000
"""Bytes; the reference implementation takes four times as much, but 100,000 tensors in one file need half of it."""
MAX_TENSORS: Final = 1_000_000
"""Of all files of a folder; the largest mixtures of experts have a third of it."""

_BITS: Final = {
    "F64": 64, "F32": 32, "F16": 16, "BF16": 16, "F8_E4M3": 8, "F8_E5M2": 8, "F8_E8M0": 8, "F4": 4, "F6_E2M3": 6,
    "F6_E3M2": 6, "I64": 64, "I32": 32, "I16": 16, "I8": 8, "U64": 64, "U32": 32, "U16": 16, "U8": 8, "BOOL": 8,
    "C64": 64,
}  # fmt: skip
_NAMES: Final = {
    "F64": "fp64", "F32": "fp32", "F16": "fp16", "BF16": "bf16", "F8_E4M3": "fp8", "F8_E5M2": "fp8", "F4": "fp4",
    "I8": "int8", "U8": "uint8", "I32": "int32",
}  # fmt: skip


def read_safetensors(path: Path) -> Weights:
    """
    The tensors of one safetensors file.

    Raises
    ------
    BadFact
        The file is cut short, its header is no such header, or a tensor does not fit its place.
    """
    return weights_of(_tensors(path))


def _tensors(path: Path) -> list[Tensor]:
    """The tensors that the header of one file lists."""
    shown = echo(path)
    try:
        size = path.stat().st_size
        with path.open("rb") as file:
            length = int.from_bytes(file.read(8), "little")
            most = min(max(size - 8, 0), MAX_HEADER_LENGTH)
            if not 2 <= length <= most:
                raise BadFact(
                    f"{shown}: header length is '{length}'; expected 2 to {most} bytes, so this is no whole file"
                )
            header = parse_object(file.read(length), file=f"{shown} (header)")
    except OSError as problem:
        raise BadFact(f"{shown}: cannot be read ({problem.strerror})") from None
    except ValueError:
        raise BadFact(f"{shown}: is no path; check its characters") from None
    room = size - 8 - length
    return [
        _tensor(name, entry, room=room, file=str(shown)) for name, entry in header.items() if name != "__metadata__"
    ]


def _tensor(name: str, entry: Any, *, room: int, file: str) -> Tensor:
    """One entry of a header as a tensor; refused where it does not fit into the data of the file (`room` bytes)."""
    place = f"{file}: tensor '{echo(name)}'"
    if not isinstance(entry, dict):
        raise BadFact(f"{place} is '{echo(entry)}'; expected an object with dtype, shape and data_offsets")
    dtype, shape, offsets = entry.get("dtype"), entry.get("shape"), entry.get("data_offsets")
    if not isinstance(dtype, str):
        raise BadFact(f"{place}: dtype is '{echo(dtype)}'; expected a name such as BF16")
    if not isinstance(shape, list) or not all(_is_length(side) for side in shape):
        raise BadFact(f"{place}: shape is '{echo(shape)}'; expected a list of whole numbers")
    if not isinstance(offsets, list) or len(offsets) != 2 or not all(_is_length(offset) for offset in offsets):
        raise BadFact(f"{place}: data_offsets is '{echo(offsets)}'; expected a begin and an end")
    begin, end = offsets
    if not begin <= end <= room:
        raise BadFact(
            f"{place}: data_offsets is '{echo(offsets)}'; expected begin <= end <= {room}, the data of the file"
        )
    found = Tensor(name, tuple(shape), _NAMES.get(dtype, dtype.lower()), end - begin)
    bits = _BITS.get(dtype)
    if bits is not None and -(-found.values * bits // 8) != end - begin:
        needed = -(-found.values * bits // 8)
        raise BadFact(f"{place}: {end - begin} bytes; expected {needed} for {dtype} of shape {echo(shape)}")
    return found


def _is_length(value: object) -> bool:
    """Whether a value is a whole number from 0 on that fits into 63 bits."""
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 1 << 63


def read_folder(folder: Path) -> Weights | None:
    """
    The tensors of all safetensors files of a model's folder; None when there is none.

    The index, where there is one, says which files belong to the model: folders of some vendors hold the weights twice.
    """
    files = sorted(path for path in folder.glob("*.safetensors") if path.is_file())
    index = folder / "model.safetensors.index.json"
    if index.is_file():
        mapped = read_object(index, limit=MAX_HEADER_LENGTH).get("weight_map")
        if not isinstance(mapped, dict) or not all(isinstance(name, str) for name in mapped.values()):
            raise BadFact(f"{echo(index)}: 'weight_map' is '{echo(mapped)}'; expected an object from tensor to file")
        listed = {str(name) for name in mapped.values()}
        missing = sorted(listed - {path.name for path in files})
        if missing:
            raise BadFact(
                f"{echo(index)}: names the file '{echo(missing[0])}', which is not there; expected all its shards"
            )
        files = [path for path in files if path.name in listed]
    elif any(path.name.startswith("model") for path in files):
        files = [path for path in files if path.name.startswith("model")]
    return weights_of(_of_all(files, folder)) if files else None


def _of_all(files: Iterable[Path], folder: Path) -> Iterator[Tensor]:
    count = 0
    for path in files:
        found = _tensors(path)
        count += len(found)
        if count > MAX_TENSORS:
            raise BadFact(f"{echo(folder)}: its files hold over {MAX_TENSORS:,} tensors; expected far fewer")
        yield from found
