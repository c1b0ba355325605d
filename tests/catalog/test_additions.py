"""The user's own facts: a file is read with units, a what-if says what it changed, a bad file teaches."""

import os
from pathlib import Path
from typing import Any

import pytest
from tests.asked import Refused, printed, told

import tonnage
from tonnage.errors import UnknownName

CARD = """
[[accelerator]]
id = "my-card"
memory = "48 GiB"
memory_bw = "960 GB/s"
peak.bf16 = "180 TFLOP/s"
source = "a datasheet"
"""
OFFER = """
[[offer]]
provider = "cellar"
accelerator = "{accelerator}"
count = 4
on_demand = "$4/h"
country = "fr"
as_of = 2026-11-01
source = "own list"
"""


def written(folder: Path, text: str) -> str:
    path = folder / "own.toml"
    path.write_text(text, encoding="utf-8")
    return str(path)


def part_of(name: str, *paths: str) -> Any:
    """The accelerator of that name, with files of additions."""
    added = [word for path in paths for word in ("--additions", path)]
    return told("catalog", "accelerators", name, *added).accelerator


def what_if(name: str, *overrides: str) -> Any:
    return told("catalog", "accelerators", name, *(word for one in overrides for word in ("--set", one))).accelerator


def offers_of(provider: str, path: str) -> Any:
    return told("catalog", "offers", "--provider", provider, "--additions", path).rows


def test_the_template_reads_back(tmp_path: Path) -> None:
    path = written(tmp_path, printed("catalog", "accelerators", "--template")[0])
    part = part_of("MyCard", path)
    assert part.id == "my-card-48gb"
    assert part.memory_bytes == 48 * 2**30
    assert part.usable_memory_bytes == 46068 * 2**20
    assert part.peaks == {"bf16": 180e12, "fp8": 360e12}
    assert (part.link.bytes_per_s, part.link.domain, part.host_link.bytes_per_s) == (300e9, 2, 63e9)
    (offer,) = offers_of("my-machine-room", path)
    assert offer.on_demand == 9.6
    assert (offer.eu, offer.country, offer.network) == (True, "DE", 50e9)
    assert len(told("catalog", "accelerators", "--additions", path).rows) == 262 + 1


def test_a_short_table_is_enough_and_what_it_leaves_out_is_absent(tmp_path: Path) -> None:
    part = part_of("my card", written(tmp_path, CARD))
    assert part.power_w is None
    assert part.usable_memory_bytes is None
    assert part.ecc is None
    assert part.memory_bytes == 48 * 2**30
    assert part.peaks == {"bf16": 180e12}


def test_an_own_offer_may_be_of_a_shipped_part(tmp_path: Path) -> None:
    (offer,) = offers_of("cellar", written(tmp_path, OFFER.format(accelerator="L40S")))
    assert (offer.accelerator, offer.instance_type, offer.as_of) == ("l40s", "4x l40s", "2026-11-01")
    assert offer.eu is True
    assert offer.vcpus is None


def test_a_changed_file_is_read_again(tmp_path: Path) -> None:
    path = written(tmp_path, CARD)
    assert part_of("my-card", path).memory_bytes == 48 * 2**30
    written(tmp_path, CARD.replace("48 GiB", "96 GiB"))
    os.utime(tmp_path / "own.toml", (1, 1))
    assert part_of("my-card", path).memory_bytes == 96 * 2**30


def test_a_folder_is_read_whole(tmp_path: Path) -> None:
    (tmp_path / "a.toml").write_text(CARD, encoding="utf-8")
    (tmp_path / "b.toml").write_text(CARD.replace("my-card", "my-other-card"), encoding="utf-8")
    (tmp_path / "notes.txt").write_text("not read", encoding="utf-8")
    rows = told("catalog", "accelerators", "--additions", str(tmp_path)).rows
    assert {"my-card", "my-other-card"} <= {row.id for row in rows}


@pytest.mark.parametrize(
    ("before", "after", "says"),
    [
        ('"48 GiB"', '"48"', "accelerator 1: memory: '48' has no unit; write for example '80 GB"),
        ('"48 GiB"', "48", "memory: '48' has no unit"),
        ('"48 GiB"', '"48 W"', "memory: '48 W' is W, but bytes is expected"),
        ('"48 GiB"', '"-48 GiB"', "must be above zero"),
        ('"48 GiB"', '"0 GiB"', "must be above zero; leave out what is not known"),
        ("memory_bw =", "memory_bandwith =", "no field 'memory_bandwith'; did you mean 'memory_bw'"),
        ("peak.bf16", "peak.bf61", "no field 'peak.bf61'; did you mean 'peak.bf16'"),
        ('peak.bf16 = "180 TFLOP/s"', "peak = 3", "peak is '3'"),
        ('peak.bf16 = "180 TFLOP/s"', "", "no peak is given"),
        ('source = "a datasheet"', "", "source is missing"),
        ('source = "a datasheet"', "source = 3", "source is '3', but a text is expected"),
        ('"my-card"', '"My Card"', "id 'My Card' must be lower-case"),
        ('"my-card"', '"h100-sxm5-80gb"', "id 'h100-sxm5-80gb' is taken; choose another"),
        ("[[accelerator]]", "[[accelerators]]", r"unknown section 'accelerators'; did you mean '\[\[accelerator\]\]'"),
        ("[[accelerator]]", "[accelerator]", "'accelerator' must be a list of tables"),
        ("[[accelerator]]", "accelerator = [1]\n[[model]]", "'accelerator' must be a list of tables"),
        ("[[accelerator]]", "accelerator = 3\n[[model]]", "'accelerator' must be a list of tables"),
        ("[[accelerator]]", "[[accelerator]", "is not TOML"),
        ('id = "my-card"', 'id = "my-card"\nsegment = "toy"', "no segment 'toy'"),
        ('id = "my-card"', 'id = "my-card"\nlink_bw = "300 GB/s"', "add link_domain"),
        ('id = "my-card"', 'id = "my-card"\nlink_domain = 2.5', "must be a whole number"),
        ('id = "my-card"', 'id = "my-card"\necc = "perhaps"', "neither yes nor no"),
        ('id = "my-card"', 'id = "my-card"\naliases = "x"', "a list of texts is expected"),
        ('id = "my-card"', 'id = "my-card"\nusable_memory = "60 GiB"', "exceeds memory"),
        ('id = "my-card"', 'id = "my-card"\nyear = "soon"', "year is 'soon'"),
    ],
)
def test_a_bad_file_gets_one_sentence_with_file_field_and_value(
    tmp_path: Path, before: str, after: str, says: str
) -> None:
    assert before in CARD
    with pytest.raises(Refused, match=says) as caught:
        part_of("H100", written(tmp_path, CARD.replace(before, after)))
    assert "own.toml" in str(caught.value)


@pytest.mark.parametrize(
    ("before", "after", "says"),
    [
        ('"$4/h"', '"4"', "on_demand: '4' has no unit"),
        ('"$4/h"', '"€4/h"', "in euro"),
        ('on_demand = "$4/h"', "", "no price is given"),
        ("as_of = 2026-11-01", "", "as_of is missing"),
        ("as_of = 2026-11-01", 'as_of = "last week"', "as_of is 'last week', but a date is expected"),
        ('"fr"', '"Franconia"', "no country 'FRANCONIA'"),
        ("count = 4", "count = 0", "must be above zero"),
        ("on_demand", "on_demnad", "no field 'on_demnad'; did you mean 'on_demand'"),
        ("count = 4", 'count = 4\nnvlink = "yes"', "true or false is expected"),
    ],
)
def test_a_bad_offer_gets_one_sentence(tmp_path: Path, before: str, after: str, says: str) -> None:
    text = OFFER.format(accelerator="L40S")
    assert before in text
    with pytest.raises(Refused, match=says) as caught:
        offers_of("cellar", written(tmp_path, text.replace(before, after)))
    assert "own.toml: offer 1" in str(caught.value)


def test_an_offer_of_an_unknown_part_suggests_one(tmp_path: Path) -> None:
    with pytest.raises(Refused, match="no accelerator 'h100-smx'; did you mean 'h100-sxm5-80gb'"):
        offers_of("cellar", written(tmp_path, OFFER.format(accelerator="h100-smx")))


def test_files_that_are_no_text_or_too_large_or_missing(tmp_path: Path) -> None:
    binary = tmp_path / "binary.toml"
    binary.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(Refused, match="not UTF-8"):
        part_of("H100", str(binary))
    large = tmp_path / "large.toml"
    large.write_bytes(b"#" * (5 * 1024 * 1024))
    with pytest.raises(Refused, match="has at most"):
        part_of("H100", str(large))
    os.mkfifo(tmp_path / "pipe")
    for device in (str(tmp_path / "pipe"), "/dev/zero"):
        with pytest.raises(Refused, match="a pipe or device"):
            part_of("H100", device)


def test_what_the_shell_gives_through_a_pipe_is_read_once_and_kept() -> None:
    """As `--additions <(command)`: whoever asks again finds what it gave, though the pipe is empty by then."""
    reading, writing = os.pipe()
    with os.fdopen(writing, "w", encoding="utf-8") as pipe:
        pipe.write(CARD)
    for _ in range(2):
        assert part_of("my card", f"/dev/fd/{reading}").id == "my-card"
    os.close(reading)


def test_a_missing_file_names_a_command_that_prints_one(tmp_path: Path) -> None:
    with pytest.raises(Refused, match="no such file or folder") as refusal:
        part_of("H100", str(tmp_path / "missing.toml"))
    command = str(refusal.value).split("`")[1]
    assert command in " ".join(printed("catalog", "--help")[0].split())
    assert "[[accelerator]]" in printed(*command.split()[1:])[0]


def test_what_cannot_be_meant_in_a_folder_is_left_out(tmp_path: Path) -> None:
    (tmp_path / "OWN.TOML").write_text(CARD, encoding="utf-8")
    (tmp_path / ".#own.toml").symlink_to("someone@somewhere.1234")
    (tmp_path / "folder.toml").mkdir()
    os.mkfifo(tmp_path / "pipe.toml")
    assert part_of("my card", str(tmp_path)).id == "my-card"


def test_a_folder_that_cannot_be_read_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "a.toml").symlink_to(tmp_path / "gone.toml")
    with pytest.raises(Refused, match=r"a\.toml': no such file or folder of additions"):
        part_of("H100", str(tmp_path))
    monkeypatch.setattr(Path, "iterdir", lambda _: os.listdir("/proc/1/nowhere"))
    with pytest.raises(Refused, match="no reading this folder of additions"):
        part_of("H100", str(tmp_path))


def test_a_deeply_nested_file_ends_in_an_error_of_ours(tmp_path: Path) -> None:
    with pytest.raises(Refused):
        part_of("H100", written(tmp_path, "x = " + "[" * 20_000))


def test_an_override_changes_one_fact_and_says_so() -> None:
    changed = what_if("h100-sxm5-80gb", "h100-sxm5-80gb.memory_bw=4.8TB/s")
    plain = part_of("h100-sxm5-80gb")
    assert changed.memory_bytes_per_s == 4.8e12
    assert changed.fact.notes.startswith("what-if: memory_bw = 4.8TB/s")
    assert (changed.peaks, changed.memory_bytes, changed.link) == (plain.peaks, plain.memory_bytes, plain.link)
    assert plain.memory_bytes_per_s == 3.35e12


def test_overrides_of_one_part_add_up_and_take_any_spelling() -> None:
    overrides = ("H100.peak.fp4=4 PFLOP/s", "h100 sxm.power=1kW", "4090.link_domain=2", "4090.link_bw=50GB/s")
    h100, rtx = what_if("H100", *overrides), what_if("4090", *overrides)
    assert (h100.peaks["fp4"], h100.power_w) == (4e15, 1000)
    assert (rtx.link.bytes_per_s, rtx.link.domain, rtx.link.kind) == (50e9, 2, "unnamed")


def test_more_memory_keeps_the_share_that_the_driver_leaves() -> None:
    plain, larger = part_of("H100"), what_if("H100", "H100.memory=160 GiB")
    assert larger.usable_memory_bytes == pytest.approx(2 * plain.usable_memory_bytes)


@pytest.mark.parametrize(
    ("override", "says"),
    [
        ("h100-sxm5-80gb.memory_bw", "is not ID.FIELD=VALUE"),
        ("memory_bw=4.8TB/s", "is not ID.FIELD=VALUE"),
        ("H100.memory_bw=", "is not ID.FIELD=VALUE"),
        ("H100.memory_bw=4.8", "--set h100-sxm5-80gb.memory_bw: '4.8' has no unit"),
        ("H100.memory_bw=4.8 TB", "is bytes, but bytes/s is expected"),
        ("H100.bandwidth=4.8TB/s", "no field 'bandwidth'"),
        ("H100.peak.fp6=1PFLOP/s", "no field 'peak.fp6'; did you mean 'peak.fp64'"),
        ("h100-smx.power=1kW", "no accelerator 'h100-smx'"),
        ("4090.link_bw=50GB/s", "add link_domain"),
        ("H100.power=0 W", "must be above zero"),
    ],
)
def test_a_bad_override_gets_one_sentence(override: str, says: str) -> None:
    with pytest.raises(Refused, match=says):
        what_if("A100", override)


def test_nothing_added_is_the_shipped_catalogue() -> None:
    with pytest.raises(UnknownName):
        tonnage.accelerator("my-card")


def test_gather_reads_the_user_folder_only_if_it_exists_and_the_variable(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    monkeypatch.delenv("TONNAGE_CATALOG", raising=False)
    with pytest.raises(Refused, match="no accelerator 'my-card'"):
        part_of("my-card")
    folder = tmp_path / "tonnage" / "catalog"
    folder.mkdir(parents=True)
    (folder / "own.toml").write_text(CARD, encoding="utf-8")
    assert part_of("my-card").id == "my-card"
    other = tmp_path / "other"
    other.mkdir()
    (other / "more.toml").write_text(CARD.replace("my-card", "team-card"), encoding="utf-8")
    monkeypatch.setenv("TONNAGE_CATALOG", str(other))
    assert (part_of("my-card").id, part_of("team-card").id) == ("my-card", "team-card")
