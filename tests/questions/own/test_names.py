"""What people type becomes parts of the catalogue, or a sentence that says what is near."""

import pytest

from tonnage.core.machine import is_unified, processor_named, read_owned
from tonnage.errors import BadRequest, TonnageError, UnknownName
from tonnage.units import GiB


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("RTX 4090", [(1, "rtx-4090")]),
        ("NVIDIA GeForce RTX 3060", [(1, "rtx-3060-12gb")]),
        ("RTX 4060 8GB", [(1, "rtx-4060")]),
        ("3090 Ti", [(1, "rtx-3090-ti")]),
        ("2x 3090", [(2, "rtx-3090")]),
        ("2 RTX 3090", [(2, "rtx-3090")]),
        ("8 x A100 80GB, 4 x L40S", [(8, "a100-sxm4-80gb"), (4, "l40s")]),
        ("A6000 + RTX 3090", [(1, "rtx-a6000"), (1, "rtx-3090")]),
        ("Ryzen AI Max 395", [(1, "radeon-8060s")]),
        ("AMD Ryzen AI Max+ 395 w/ Radeon 8060S", [(1, "radeon-8060s")]),
        ("DGX Spark", [(1, "gb10")]),
        ("AMD Ryzen 9 5950X 16-Core Processor", [(1, "cpu-ryzen-5950x")]),
        ("13th Gen Intel(R) Core(TM) i9-13900K", [(1, "cpu-core-13900k")]),
    ],
)
def test_a_name_is_read(text: str, found: list[tuple[int, str]]) -> None:
    assert [(group.count, group.part and group.part.id) for group in read_owned(text)] == found


@pytest.mark.parametrize(
    ("text", "part", "gib"),
    [
        ("M4 Max 64GB", "m4-max", 64),
        ("MacBook Pro M4 Pro 48GB", "m4-pro", 48),
        ("Mac Studio M3 Ultra 512GB", "m3-ultra", 512),
    ],
)
def test_a_memory_size_is_that_of_a_part_sold_with_several(text: str, part: str, gib: float) -> None:
    found = read_owned(text)[0].part
    assert found is not None
    assert (found.id, found.memory_bytes) == (part, gib * GiB)
    assert is_unified(found)


def test_the_processor_alone() -> None:
    assert read_owned("CPU")[0].part is None


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("RTX 4090 48GB", "has 24 GiB"),
        ("3050 laptop", "no accelerator"),
        ("Apple M4 Mega", "no accelerator"),
        ("0 x H100", "between 1 and"),
        ("8x", "a count without a name"),
        ("99999 x H100", "between 1 and"),
        ("M4 Max 9999GB", "no size"),
        ("", "kinds of accelerator"),
        ("a," * 100, "kinds of accelerator"),
        ("x" * 1000, "characters"),
        ("WSE-3", "not published"),
    ],
)
def test_a_name_that_means_nothing_is_refused(text: str, words: str) -> None:
    with pytest.raises(TonnageError, match=words):
        read_owned(text)


@pytest.mark.parametrize("text", ["Intel(R) Xeon(R) CPU @ 2.60GHz", "AMD EPYC", "RTX 4090", "x" * 300])
def test_an_unknown_processor_is_absent(text: str) -> None:
    assert processor_named(text) is None


def test_errors_are_of_the_kind_that_their_callers_know() -> None:
    assert issubclass(UnknownName, BadRequest)
