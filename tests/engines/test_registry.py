"""Engines and training frameworks: found by name, with their defaults and limits."""

from typing import get_args

import pytest
from msgspec.structs import replace

from tonnage import catalog
from tonnage.catalog.engines import engine_times
from tonnage.catalog.fitted import training_coefficients
from tonnage.domain.layout import Engine, Layout
from tonnage.domain.training import Situation
from tonnage.engines import registry
from tonnage.engines.registry import (
    SETTINGS,
    assumptions,
    defaults,
    engine_name,
    engine_spec,
    engines,
    explain_defaults,
    find_engine,
    framework_words,
    frameworks_in,
    planned_engines,
    release,
    resolve_engine,
    software_of,
    stated_release,
    training_families,
    unlisted_engine,
    unsupported_reason,
    usual_software,
)
from tonnage.errors import UnknownName
from tonnage.export import target_module


def test_names_and_their_spellings() -> None:
    assert engine_name("TensorRT-LLM") == "trtllm"
    assert engine_name("llama.cpp") == "llamacpp"
    assert engine_name(" vLLM ") == "vllm"
    with pytest.raises(UnknownName, match="did you mean 'vllm'"):
        engine_name("vlm")
    assert find_engine("registry") is None


def test_no_two_engines_share_a_spelling() -> None:
    spellings = [name for spec in engines().values() for name in (spec.name, *spec.aliases)]
    assert len(spellings) == len(set(spellings)) and all(name == name.lower() for name in spellings)


def test_an_engine_starts_as_one_with_rows_of_its_own() -> None:
    for spec in engines().values():
        assert bool(spec.defaults) == (spec.starts_as is None)
        assert spec.starts_as is None or (engines()[spec.starts_as].defaults and not spec.rule)


def test_a_fork_starts_as_its_engine_by_rows_and_rule(monkeypatch: pytest.MonkeyPatch) -> None:
    whole, part, model = engine_spec("vllm"), catalog.accelerator("H100"), catalog.model("Llama-3.1-8B")
    fork = replace(whole, name="fork", defaults=(), rule=False, starts_as="vllm")
    monkeypatch.setattr(registry, "engines", lambda: {"vllm": whole})
    monkeypatch.setattr(registry, "_spellings", lambda: {"vllm": whole, "fork": fork})
    mine, its = (defaults(Engine(name=name), part, model=model) for name in ("fork", "vllm"))
    assert mine.max_num_seqs == 1024 and replace(mine, name="vllm") == its


def test_rows_of_defaults_name_settings_and_are_in_the_order_of_releases() -> None:
    for spec in engines().values():
        assert {row.field for row in spec.defaults} <= set(SETTINGS)
        assert list(spec.defaults) == sorted(
            spec.defaults, key=lambda row: ([one.field for one in spec.defaults].index(row.field), row.since)
        )


def test_what_stands_for_others_is_an_engine_itself() -> None:
    for spec in engines().values():
        assert find_engine(spec.overheads_of) is not None
        assert not set(spec.stands_for) & set(engines())
    assert unlisted_engine().memory.kind == "need"


def test_plans_look_at_the_best_measured_first_and_the_default_is_among_them() -> None:
    assert planned_engines()[0] == Engine().name
    assert len(planned_engines()) == len({engine_spec(name).planned for name in planned_engines()}) >= 6


def test_releases_are_in_the_order_they_appeared() -> None:
    for spec in engines().values():
        assert list(spec.releases) == sorted(spec.releases)


LLAMA = catalog.model("meta-llama/Meta-Llama-3.1-8B")


@pytest.mark.parametrize(
    ("name", "version", "year", "found"),
    [
        ("vllm", "0.6.4 (Dec 2024)", None, (0, 6, 4)),
        ("vllm", "rocm7.0.0_vllm_0.10.2_20251006", None, (0, 10, 2)),
        ("vllm", "0.4.3+rocm614", None, (0, 4, 3)),
        ("vllm", "0.2.x (Dec 2023)", None, (0, 2, 6)),
        ("vllm", "0.6.x (Dec 2024)", None, (0, 6, 5)),
        ("llamacpp", "b4567", None, (4567,)),
        ("llamacpp", "May-2024 snapshot", 2024, (2413,)),
        ("vllm", "2025-07", None, (0, 10)),
        ("vllm", "V1 (Jan 2025)", None, (0, 8)),
        ("vllm", "early 2025", None, (0, 7)),
        ("vllm", "late 2025", None, (0, 11)),
        ("vllm", None, 2024, (0, 5)),
        ("sglang", "0.5.1.post1", None, (0, 5, 1)),
        ("sglang", "2025-07", None, (0, 4, 9)),
        ("trtllm", "1.2.0rc6.post2", None, (1, 2, 0)),
        ("trtllm", "1.0 (PyTorch backend)", None, (1, 0)),
        ("vllm", None, None, None),
        ("vllm", "nightly", None, None),
    ],
)
def test_a_version_is_a_release_a_tag_or_a_date(
    name: str, version: str | None, year: int | None, found: tuple[int, ...] | None
) -> None:
    assert release(Engine(name=name, version=version), year) == found


def test_a_number_of_another_product_says_nothing() -> None:
    """Audited runs of TensorRT-LLM print TensorRT's own version: 9.2 in 2024 is no release of it."""
    printed = Engine(name="trtllm", version="9.2.0")
    assert release(printed, 2024) == (9, 2, 0) and stated_release(printed, 2024) == (0, 5)
    assert stated_release(printed) is None
    assert stated_release(Engine(name="trtllm", version="0.18"), 2024) == (0, 18)


@pytest.mark.parametrize("server", ["ollama", "LM Studio", "koboldcpp", "llama-server"])
def test_servers_around_an_engine_are_that_engine_and_their_versions_are_their_own(server: str) -> None:
    assert engine_name(server) == "llamacpp"
    own = Engine(name="llamacpp", version="0.12.3")
    assert stated_release(own) is None and resolve_engine(own).release == resolve_engine(Engine(name=server)).release
    assert stated_release(own, 2024) == stated_release(Engine(name="llamacpp"), 2024)
    assert stated_release(Engine(name="llamacpp", version="b4500")) == (4500,)


@pytest.mark.parametrize("name", ["gpt-fast", "gptfast", "torchao"])
def test_gpt_fast_has_the_overheads_that_were_fitted_on_it(name: str) -> None:
    assert not engine_times(engine_spec(name).overheads_of, vendor="NVIDIA").borrowed


def test_an_engine_resolves_to_its_record_and_release() -> None:
    old, newest = resolve_engine(Engine(version="0.6.4")), resolve_engine(Engine())
    assert (old.spec.name, old.release) == ("vllm", (0, 6, 4))
    assert newest.release > (1000,)
    assert resolve_engine(Engine(name="llama.cpp")).spec.layered


def test_an_unknown_version_is_said() -> None:
    assert "version not given" in assumptions(Engine())[0]
    assert "'nightly' is not a release" in assumptions(Engine(version="nightly"))[0]
    assert assumptions(Engine(version="0.19.0")) == ()
    assert assumptions(Engine(), 2024) == ()


@pytest.mark.parametrize(
    ("accelerator", "offline", "sequences", "tokens"),
    [
        ("h100-sxm5-80gb", False, 1024, 8192),
        ("h100-sxm5-80gb", True, 1024, 16384),
        ("mi300x", False, 1024, 8192),
        ("a100-sxm4-80gb", False, 256, 2048),
        ("a100-sxm4-80gb", True, 256, 8192),
        ("rtx-4090", False, 256, 2048),
    ],
)
def test_vllm_limits_by_device_and_usage(accelerator: str, offline: bool, sequences: int, tokens: int) -> None:
    """EngineArgs.get_batch_defaults: 70 GiB and more, A100 excepted by name."""
    found = defaults(Engine(version="0.19"), catalog.accelerator(accelerator), model=LLAMA, offline=offline)
    assert (found.max_num_seqs, found.max_num_batched_tokens) == (sequences, tokens)


def test_a100_had_the_large_limits_until_0_9() -> None:
    a100 = catalog.accelerator("a100-sxm4-80gb")
    assert defaults(Engine(version="0.8.5"), a100, model=LLAMA).max_num_batched_tokens == 8192
    assert defaults(Engine(version="0.9.0"), a100, model=LLAMA).max_num_batched_tokens == 2048


@pytest.mark.parametrize(("version", "share"), [("0.6.4", 0.90), ("0.19.0", 0.90), ("0.22.0", 0.92), (None, 0.92)])
def test_vllm_share_by_version(version: str | None, share: float) -> None:
    assert defaults(Engine(version=version), catalog.accelerator("rtx-4090"), model=LLAMA).memory_fraction == share


def test_old_vllm_runs_whole_prompts() -> None:
    old = defaults(Engine(version="0.6.4", max_model_len=20000), catalog.accelerator("rtx-3090"), model=LLAMA)
    assert (old.chunked_prefill, old.prefix_caching, old.max_num_batched_tokens) == (False, False, 20000)
    long = defaults(Engine(version="0.6.4"), catalog.accelerator("rtx-3090"), model=LLAMA)  # 131,072: chunked
    assert long.max_num_batched_tokens == 2048


@pytest.mark.parametrize(
    ("version", "accelerator", "tp", "share", "chunk"),
    [
        ("0.4.6", "h100-sxm5-80gb", 1, 0.88, 8192),
        ("0.4.6", "h100-sxm5-80gb", 8, 0.81, 8192),
        ("0.4.6", "rtx-4090", 1, 0.88, 2048),
        ("0.5.2", "h100-sxm5-80gb", 1, 1 - 10.0 * 1024 / 81559, 8192),
        ("0.5.2", "h200-sxm-141gb", 8, 1 - 16.0 * 1024 / 143771, 8192),
        # 0.5.4: 512 + 1.5 x chunk + 2 x graphs + tp/8 GiB, at least 10 GiB on large devices
        ("0.5.6", "h100-sxm5-80gb", 1, 1 - (512 + 12288 + 512 + 128) / 81559, 8192),
        ("0.5.6", "rtx-4090", 1, 1 - (512 + 3072 + 48 + 128) / 24564, 2048),
        ("0.5.6", "l40s", 4, 1 - (512 + 6144 + 320 + 512) / 46068, 4096),
    ],
)
def test_sglang_shares(version: str, accelerator: str, tp: int, share: float, chunk: int) -> None:
    engine = Engine(name="sglang", version=version)
    found = defaults(engine, catalog.accelerator(accelerator), model=LLAMA, layout=Layout(tp=tp))
    assert found.memory_fraction == pytest.approx(share, abs=0.001)
    assert found.max_num_batched_tokens == chunk


def test_tensorrt_llm_raised_its_batch_in_0_11() -> None:
    h100 = catalog.accelerator("h100-sxm5-80gb")
    old, new = (defaults(Engine(name="trtllm", version=v), h100, model=LLAMA) for v in ("0.10.0", "0.17"))
    assert (old.max_num_seqs, new.max_num_seqs) == (256, 2048)
    assert old.memory_fraction == new.memory_fraction == 0.9


def test_what_the_user_gave_stays() -> None:
    given = Engine(max_num_seqs=64, memory_fraction=0.5, prefix_caching=False)
    found = defaults(given, catalog.accelerator("h100-sxm5-80gb"), model=LLAMA)
    assert (found.max_num_seqs, found.memory_fraction, found.prefix_caching) == (64, 0.5, False)


@pytest.mark.parametrize("name", sorted(engines()))
def test_every_default_names_its_source(name: str) -> None:
    found = explain_defaults(Engine(name=name), catalog.accelerator("h100-sxm5-80gb"), model=LLAMA)
    assert found
    assert all(len(default.source) > 8 for default in found)
    assert len({default.field for default in found}) == len(found)


def test_engines_do_not_run_everywhere() -> None:
    assert "compute capability 7.0" in str(unsupported_reason("vllm", catalog.accelerator("p100-pcie-16gb")))
    assert "Apple" in str(unsupported_reason("vllm", catalog.accelerator("m3-ultra")))
    assert unsupported_reason("vllm", catalog.accelerator("mi300x")) is None
    assert unsupported_reason("llamacpp", catalog.accelerator("m3-ultra")) is None


@pytest.mark.parametrize(("version", "ahead"), [("0.8.5", False), ("0.12.0", False), ("0.14.0", True), (None, True)])
def test_vllm_schedules_ahead_by_itself_since_0_14(version: str | None, ahead: bool) -> None:
    found = defaults(Engine(name="vllm", version=version), catalog.accelerator("h100-sxm5-80gb"), model=LLAMA)
    assert found.async_scheduling is ahead
    asked = Engine(name="vllm", version=version, async_scheduling=not ahead)
    assert defaults(asked, catalog.accelerator("h100-sxm5-80gb"), model=LLAMA).async_scheduling is not ahead


@pytest.mark.parametrize("name", ["vllm", "sglang", "trtllm"])
def test_a_case_takes_the_settings_that_a_command_is_read_into(name: str) -> None:
    options, spec = target_module(name).OPTIONS, engine_spec(name)
    read = {
        option: setting for option, (setting, _) in (options.readers | options.flags).items() if setting in SETTINGS
    }
    for option, setting in read.items():
        plain = option.rpartition(".")[2]
        taken = {plain: plain} | dict(spec.own_settings) | dict(spec.own_switches)
        assert taken[plain] == setting, option
        if option in options.flags:
            assert (plain in spec.own_switches) is not options.flags[option][1], option


@pytest.mark.parametrize(
    ("framework", "family"),
    [
        ("Megatron-DeepSpeed", "deepspeed"),
        ("Megatron-Bridge", "megatron"),
        ("NeMo", "megatron"),
        ("llm-foundry/Composer", "fsdp"),
        ("torchtitan", "fsdp"),
        ("torchtune", "compiled"),
        ("MaxText", "jax"),
        ("HF Transformers + PEFT", "eager"),
        ("litgpt", "fsdp"),
        ("Colossal-AI", "colossalai"),
    ],
)
def test_frameworks_belong_to_families(framework: str, family: str) -> None:
    assert software_of(framework).name == family


def test_without_a_framework_the_usual_one_is_taken() -> None:
    assert software_of(None, count=64).name == "megatron"
    assert software_of(None, method="lora").name == "eager"
    assert software_of(None, layered=False, count=8).name == "eager"
    assert software_of("litgpt", method="lora").name == "eager"


def test_a_name_of_two_families_is_of_the_first() -> None:
    assert software_of("megatron-deepspeed").name == "deepspeed"
    assert software_of("trl+unsloth").name == "compiled"
    assert software_of("pytorch-fsdp").name == "fsdp"
    assert len({spec.precedence for spec in training_families().values()}) == len(training_families())


def test_every_framework_belongs_to_a_known_family() -> None:
    for word in framework_words():
        assert software_of(word, method="lora").name in training_families()
        for one in frameworks_in(word):
            assert one.software in training_families() and (
                one.pretrains_as is None or one.pretrains_as in training_families()
            )


@pytest.mark.parametrize("situation", get_args(Situation))
def test_every_situation_has_usual_software(situation: Situation) -> None:
    groups = usual_software(situation)
    assert groups and all(groups)


def test_a_family_s_example_is_one_of_it() -> None:
    for spec in training_families().values():
        assert software_of(spec.example) is spec


def test_every_family_has_fitted_coefficients_or_another_s() -> None:
    known = training_coefficients()
    for table in (known.passes, known.layer_s, known.turn_s, known.step_s, known.activation):
        assert {spec.fitted for spec in training_families().values()} <= set(table)
