"""What runs on a machine: the numbers of `predict` where a model fits, the host's where it does not, ranked."""

import pytest
from tools.local_points import speed_with

from tonnage import catalog
from tonnage.catalog import model_name
from tonnage.catalog.models import look_up
from tonnage.catalog.published import downloads
from tonnage.catalog.standings import TASKS, Task, standing
from tonnage.core.machine import machine_found, machine_named
from tonnage.domain.case import ServeCase, Traffic
from tonnage.domain.machine import DeviceGroup, Inventory, LocalRow
from tonnage.domain.precision import Precision
from tonnage.engines.at_home import spread_engine
from tonnage.errors import BadRequest, TonnageError
from tonnage.questions.own.local import LocalRequest, asked_machine, local, local_request, score_of
from tonnage.questions.own.speed import Asked, speed_of
from tonnage.questions.predict.predict import predict
from tonnage.units import GB, GiB

Q4 = Precision(weights="gguf-q4_k_m", kv="fp16", activations="fp16")


def asked(name: str, context: int = 8192) -> Asked:
    return Asked(model=catalog.model(name), precision=Q4, context=context)


def speed(name: str, machine: str, **fields: float) -> LocalRow:
    found = speed_of(asked(name), machine_named(machine, **fields))  # type: ignore[arg-type]
    assert isinstance(found, LocalRow), found
    return found


@pytest.mark.parametrize("part", ["rtx-4090", "cpu-ryzen-9950x", "m4-max", "radeon-8060s"])
def test_what_lies_in_one_memory_has_the_number_of_predict(part: str) -> None:
    found = speed("Qwen/Qwen3-8B", part)
    case = ServeCase(
        model="Qwen/Qwen3-8B",
        accelerator=part,
        traffic=Traffic(batch=1, static=True),
        isl=2048,
        osl=128,
        precision=Q4,
        engine=spread_engine().name,
        engine_options={"max_model_len": 8192, "max_num_seqs": 1, "max_num_batched_tokens": 512},
    )
    plain = predict(case)
    assert found.decode_per_s.value == pytest.approx(1.0 / plain.tpot_s.mean)
    assert found.prompt_per_s.value == pytest.approx(2048 / plain.ttft_s.mean)


def test_more_on_the_host_is_never_faster_and_ends_at_the_host() -> None:
    machine = machine_named("RTX 4090", memory_bytes=256 * GB)
    question = asked("Qwen/Qwen3-32B")
    rates = [speed_with(question, machine, layers=n, expert_layers=0).decode_per_s.value for n in range(0, 65, 8)]
    assert rates == sorted(rates, reverse=True)
    alone = speed_with(question, machine_named("CPU", memory_bytes=256 * GB), layers=0, expert_layers=0)
    assert rates[-1] == pytest.approx(alone.decode_per_s.value)


def test_faster_host_memory_helps_only_what_lies_there() -> None:
    slow, fast = (speed("openai/gpt-oss-120b", "RTX 4090", host_bytes_per_s=rate) for rate in (40e9, 160e9))
    assert fast.decode_per_s.value > 1.5 * slow.decode_per_s.value
    same = [speed("Qwen/Qwen3-8B", "RTX 4090", host_bytes_per_s=rate).decode_per_s.value for rate in (40e9, 160e9)]
    assert same[0] == same[1]


def test_a_machine_without_room_says_what_it_lacks() -> None:
    found = speed_of(asked("Qwen/Qwen3-235B-A22B"), machine_named("RTX 3060", memory_bytes=32 * GB))
    assert isinstance(found, str)
    assert "GiB more than the device and the host have" in found


def test_a_longer_context_leaves_less_room_and_the_largest_fits() -> None:
    machine = machine_named("RTX 3060")
    found = speed_of(asked("Qwen/Qwen3-8B"), machine)
    assert isinstance(found, LocalRow)
    assert not found.offload.moved_bytes
    at_most = speed_of(asked("Qwen/Qwen3-8B", found.most_context), machine)
    assert isinstance(at_most, LocalRow)
    assert not at_most.offload.moved_bytes


def test_rows_are_ranked_by_score_less_what_formats_lose_and_slow_ones_come_last() -> None:
    answer = local(LocalRequest(), machine_named("RTX 4090"))
    fast = [row for row in answer.rows if row.decode_per_s.value >= 10.0]
    known = [(row.stands.score, row.change.perplexity if row.change else None) for row in fast if row.stands]
    scores = [quality / (1.0 + (rise or 0.0)) for quality, rise in known]
    assert (
        scores == sorted(scores, reverse=True) and [one for one, _ in known] != sorted((one for one, _ in known))[::-1]
    )
    assert len(scores) > 5
    assert all(row.stands is None for row in fast[len(scores) :])
    assert all(row.quality == row.stands.published for row in fast if row.stands)
    assert list(answer.rows[: len(fast)]) == fast


def test_every_row_has_what_starts_it_and_an_interval() -> None:
    answer = local(LocalRequest(), machine_named("RTX 3060"))
    for row in answer.rows:
        command = dict(row.commands)["llama.cpp"]
        assert command.startswith("llama-server -hf ")
        assert ("-ncmoe" in command) == bool(row.offload.expert_layers)
        assert ("--no-mmap" in command) == (0.0 < row.offload.read_share < 1.0)
        assert row.decode_per_s.low < row.decode_per_s.value
        assert row.most_context >= row.context


def test_the_first_command_names_the_format_and_layers() -> None:
    answer = local(LocalRequest(model="Qwen3-32B", min_per_s=1.0), machine_named("RTX 3060"))
    row = answer.rows[0]
    words = dict(row.commands)["llama.cpp"].split()
    layers = sum(group.count for group in catalog.model(row.model).layers)
    assert words[words.index("-ngl") + 1] == str(layers - row.offload.layers)
    assert words[2].endswith(row.precision.weights.removeprefix("gguf-").upper())


def test_formats_from_finest_to_coarsest_on_demand() -> None:
    answer = local(LocalRequest(model="Qwen3-8B", every_format=True), machine_named("RTX 4090"))
    sizes = [row.weight_bytes for row in answer.all_rows]
    assert len(sizes) == 5
    assert sizes == sorted(sizes, reverse=True)


def test_unified_memory_moves_nothing() -> None:
    answer = local(LocalRequest(), machine_named("M4 Max 64GB"))
    assert all(not row.offload.moved_bytes for row in answer.rows)
    assert all(row.memory_bytes <= 48 * GiB for row in answer.rows)


def test_more_cards_hold_more() -> None:
    one, two = (local(LocalRequest(), machine_named(name)) for name in ("RTX 3090", "2 x RTX 3090"))
    moved = [{row.model: row.offload.moved_bytes for row in answer.rows} for answer in (one, two)]
    assert moved[1]["openai/gpt-oss-120b"] < moved[0]["openai/gpt-oss-120b"]


def test_a_machine_that_was_found() -> None:
    inventory = Inventory(
        evidence="x",
        devices=(
            DeviceGroup(name="NVIDIA GeForce RTX 3090", count=2, memory_bytes=25.8e9),
            DeviceGroup(name="NVIDIA RTX A4000"),
        ),
        cpu="AMD Ryzen 9 9950X 16-Core Processor",
        host_memory_bytes=98e9,
        host_bytes_per_s=96e9,
    )
    machine = machine_found(inventory)
    assert (machine.device.id, machine.count) == ("rtx-3090", 2)
    assert [(other.count, other.part.id) for other in machine.others if other.part] == [(1, "rtx-a4000")]
    assert machine.host.part.memory_bytes_per_s == 96e9
    assert not machine.host.assumed


def test_a_found_device_that_is_not_known_says_what_to_do() -> None:
    with pytest.raises(BadRequest, match="--accelerator"):
        machine_found(Inventory(evidence="x", devices=(DeviceGroup(name="Voodoo 2"),)))


def test_every_download_is_a_model_of_the_catalogue_with_files() -> None:
    for download in downloads():
        assert look_up(download.model) == download.model
        assert download.gguf.count("/") == 1
        assert catalog.model(download.model).layers
        assert download.source
        assert download.released[:2] == "20"
    assert len({download.model for download in downloads()}) == len(downloads())


def test_scores_meet_models_under_the_names_of_their_files() -> None:
    known, placed = standing("google/gemma-4-26B-A4B"), standing("Qwen/Qwen2-7B")
    assert known is not None and known.published == 82.6
    assert placed is not None and placed.published is None and placed.beside


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"context": "1"}, "context"),
        ({"context": "x"}, "context"),
        ({"min_speed": "-1"}, "min_speed"),
        ({"model": "no such"}, "no model 'no such'"),
        ({"nonsense": "1"}, "nonsense"),
    ],
)
def test_bad_fields_are_told(fields: dict[str, str], words: str) -> None:
    with pytest.raises(TonnageError, match=words):
        local(local_request(fields), machine_named("RTX 4090"))


def test_a_context_that_the_best_model_does_not_reach_is_said() -> None:
    found = local(local_request({"context": "10M", "model": "qwen"}), machine_named("RTX 4090"))
    assert found.rows[0].context < 10_000_000
    assert found.sentence.endswith(f"Its context ends at {found.rows[0].context:,} tokens.")


@pytest.mark.parametrize(("name", "value"), [("memory", "5 MB"), ("host_bandwidth", "1 B/s")])
def test_bad_sizes_are_told(name: str, value: str) -> None:
    with pytest.raises(TonnageError, match=name):
        asked_machine(local_request({"accelerator": "RTX 4090", name: value}))


@pytest.mark.parametrize(("task", "benchmark"), [(task, names[0]) for task, names in TASKS.items()])
def test_models_stand_by_a_score_of_the_task_and_those_that_none_places_are_named(task: Task, benchmark: str) -> None:
    answer = local(LocalRequest(task=task), machine_named("2 x RTX 3090"))
    fast = [row for row in answer.rows if row.decode_per_s.value >= 10.0]
    scores = [score_of(row) for row in fast]
    assert answer.benchmark == benchmark and scores == sorted(scores, reverse=True)
    told = " ".join(answer.notes)
    for row in answer.rows:
        assert row.stands == standing(row.model, task)
        assert row.quality == (row.stands.published if row.stands else None)
        if row.stands is None or row.stands.beside:
            assert model_name(row.model) in told
