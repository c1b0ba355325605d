"""Files of reinforcement learning: degrees, splits and batches as planned, and refusals of what a target cannot say."""

import json
import shlex
from importlib.resources import files as resources
from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.asked import Refused
from tests.conftest import Golden
from tests.export.plans import exported, targets

import tonnage

FOLDER = Path(__file__).parents[1] / "golden" / "export"
FIELDS = {
    "model": "Qwen/Qwen3-8B",
    "steps": "100",
    "prompts_per_step": "32",
    "responses_per_prompt": "8",
    "response_tokens": "2000",
    "accelerator": "H100",
    "count": "16",
}


def planned(**changes: str) -> Any:
    plan: Any = tonnage.to_dict(tonnage.plan_rl(**FIELDS | changes))
    plan["provenance"]["made"] = "2026-11-22"
    assert plan["options"]
    return plan


def files(plan: Any, target: str) -> str:
    (text,) = exported(plan, target).values()
    return text


def changed(plan: Any, **case: Any) -> Any:
    """The plan with fields of its first option's case changed."""
    first, *others = plan["options"]
    return plan | {"options": [first | {"case": first["case"] | case}, *others]}


def overrides(text: str) -> dict[str, str]:
    words = (line.strip(" \\").strip("'") for line in text.splitlines() if "=" in line and line.startswith("  "))
    return dict(word.split("=", 1) for word in words)


def options(text: str) -> dict[str, str]:
    """Options of an openrlhf.sh with their values, as a shell reads them; empty for switches."""
    words = shlex.split(text.partition("train_ppo_ray \\\n")[2].replace("\\\n", " "))[:-1]
    starts = [place for place, word in enumerate(words) if word.startswith("--")]
    return {words[a]: " ".join(words[a + 1 : b]) for a, b in zip(starts, [*starts[1:], len(words)], strict=True)}


@pytest.fixture(scope="module")
def deepspeed() -> Any:
    return planned(framework="deepspeed")


@pytest.fixture(scope="module")
def shared() -> Any:
    return planned()


@pytest.fixture(scope="module")
def apart() -> Any:
    return planned(staleness="1", rollout_count="8")


def test_verl_has_batches_and_layouts_of_the_plan(shared: Any) -> None:
    found, best = overrides(files(shared, "verl")), shared["options"][0]["case"]
    assert found["data.train_batch_size"] == "32" and found["actor_rollout_ref.rollout.n"] == "8"
    assert found["actor_rollout_ref.rollout.tensor_model_parallel_size"] == str(best["rollout_layout"]["tp"])
    assert int(found["trainer.nnodes"]) * int(found["trainer.n_gpus_per_node"]) == 16
    assert found["trainer.total_training_steps"] == "100"


def test_verl_splits_machines_one_step_off_policy(apart: Any) -> None:
    text = files(apart, "verl")
    found = overrides(text)
    assert "one_step_off_policy.main_ppo" in text
    assert found["hydra.searchpath"] == "[pkg://verl.trainer.config]", "else it starts in a checkout alone"
    assert int(found["rollout.nnodes"]) + int(found["trainer.nnodes"]) == 2


def test_nemo_rl_says_who_generates(shared: Any, apart: Any) -> None:
    recipes: list[dict[str, Any]] = [yaml.safe_load(files(plan, "nemo-rl")) for plan in (shared, apart)]
    places = [recipe["policy"]["generation"]["colocated"] for recipe in recipes]
    assert places[0] == {"enabled": True}
    assert places[1] == {"enabled": False, "resources": {"gpus_per_node": 8, "num_nodes": 1}}
    assert recipes[1]["grpo"]["async_grpo"]["max_trajectory_age_steps"] == 1
    assert recipes[0]["policy"]["train_global_batch_size"] == 256


def test_trl_shares_a_sharded_trainer() -> None:
    found = yaml.safe_load(files(planned(framework="fsdp"), "trl-grpo"))
    assert found["generation_batch_size"] == 256 and found["num_generations"] == 8
    assert found["per_device_train_batch_size"] * found["gradient_accumulation_steps"] * 16 == 256
    assert found["vllm_mode"] == "colocate" and found["beta"] > 0


def test_dapo_generates_more_than_it_trains_on() -> None:
    plan = planned(algorithm="dapo")
    assert overrides(files(plan, "verl"))["data.gen_batch_size"] == "96"
    assert yaml.safe_load(files(plan, "nemo-rl"))["grpo"]["batch_multiplier"] == 3


def test_openrlhf_has_batches_ranks_and_engines_of_the_plan(deepspeed: Any) -> None:
    found, case = options(files(deepspeed, "openrlhf")), deepspeed["options"][0]["case"]
    layout = deepspeed["options"][0]["configuration"]["layout"]
    ranks = int(found["--actor.num_nodes"]) * int(found["--actor.num_gpus_per_node"])
    engines = int(found["--vllm.num_engines"]) * int(found["--vllm.tensor_parallel_size"])
    assert ranks == engines == 16, "its own check, where both share accelerators"
    assert found["--vllm.tensor_parallel_size"] == str(case["rollout_layout"]["tp"])
    assert (
        found["--ds.tensor_parallel_size"] == str(layout.get("tp", 1))
        and f"zero{found['--ds.zero_stage']}" == layout["sharding"]
    )
    assert found["--rollout.batch_size"] == "32" and found["--rollout.n_samples_per_prompt"] == "8"
    assert int(found["--data.max_samples"]) == 100 * 32 and found["--train.batch_size"] == "256"
    assert "--critic.num_nodes" not in found and found["--ref.num_nodes"] == found["--actor.num_nodes"]


def test_openrlhf_trains_on_one_accelerator() -> None:
    plan = planned(model="Qwen/Qwen3-0.6B", framework="deepspeed", count="1")
    assert plan["options"][0]["configuration"]["layout"].get("sharding", "none") == "none"
    assert options(files(plan, "openrlhf"))["--ds.zero_stage"] == "1"


def test_openrlhf_says_whose_times_a_plan_has(deepspeed: Any) -> None:
    assert "Times are those of fsdp" in files(planned(framework="fsdp"), "openrlhf")
    assert "Times are those" not in files(deepspeed, "openrlhf")


def test_openrlhf_generates_ahead_on_machines_of_its_own() -> None:
    found = options(files(planned(framework="deepspeed", staleness="1", rollout_count="8"), "openrlhf"))
    assert found["--train.async_queue_size"] == "1" and "--vllm.enable_sleep" not in found
    engines = int(found["--vllm.num_engines"]) * int(found["--vllm.tensor_parallel_size"])
    assert int(found["--actor.num_nodes"]) * int(found["--actor.num_gpus_per_node"]) == engines == 8


@pytest.mark.parametrize("algorithm", ["grpo", "dapo", "ppo", "rloo"])
def test_options_of_openrlhf_exist_in_the_release(deepspeed: Any, algorithm: str) -> None:
    text = resources("tonnage.export").joinpath("data/options/openrlhf.json").read_text(encoding="utf-8")
    known = json.loads(text)
    assert f" {known['version']}: " in targets()["openrlhf"]
    plan = changed(deepspeed, algorithm=algorithm, reference=algorithm != "rloo")
    found = options(files(plan, "openrlhf"))
    wrong = {name: value for name, value in found.items() if value not in (known["options"].get(name, ()) or [value])}
    assert len(found) >= 25 and wrong == {}
    assert ("--critic.num_nodes" in found) == (algorithm == "ppo")
    assert (found["--algo.kl.init_coef"] == "0") == (algorithm == "rloo")


def test_files_of_openrlhf_are_the_kept_ones(deepspeed: Any, request: pytest.FixtureRequest) -> None:
    golden = Golden(FOLDER, bool(request.config.getoption("--update-golden")))
    golden.check("openrlhf/openrlhf.sh", files(deepspeed, "openrlhf"))


def laid_out(plan: Any, **layout: Any) -> Any:
    """The plan with degrees of its first option's trainer changed."""
    first, *others = plan["options"]
    configuration = first["configuration"] | {"layout": first["configuration"]["layout"] | layout}
    return plan | {"options": [first | {"configuration": configuration}, *others]}


def test_what_openrlhf_cannot_say_is_refused(deepspeed: Any, shared: Any) -> None:
    refusals = [
        (laid_out(deepspeed, pp=2), "layout: .* no pipeline"),
        (laid_out(deepspeed, ep=2), "layout: .* so not pp 1, ep 2"),
        (laid_out(deepspeed, sharding="hsdp"), "layout: .* and hsdp"),
        (shared, "framework: .* timed for megatron; plan with --framework deepspeed"),
        (changed(deepspeed, rollout_precision={"experts": "mxfp4"}), "precision: .* 16 bits"),
        (changed(deepspeed, engine="sglang"), "engine: .* with vllm, not sglang"),
        (changed(deepspeed, precision="fp8"), "precision: .* 16 bits"),
        (changed(deepspeed, optimizer="lion"), "optimizer: .* not lion"),
        (changed(deepspeed, staleness=1), "staleness: .* accelerators of their own"),
        (changed(deepspeed, staleness=1, rollout_count=4), "rollout_count: .* takes whole machines"),
        (changed(deepspeed, rollout_layout={"tp": 2, "pp": 2}), "rollout_layout: .* split tensors alone"),
        (changed(deepspeed, rollout_layout={"tp": 2, "ep": 2}), "rollout_layout: .* split tensors alone"),
    ]
    for wrong, said in refusals:
        with pytest.raises(Refused, match=said):
            files(wrong, "openrlhf")
    assert files(changed(deepspeed, rollout_precision={"experts": "bf16"}), "openrlhf")


def test_what_a_target_cannot_say_is_refused(shared: Any, apart: Any, deepspeed: Any) -> None:
    split = changed(apart, rollout_count=4)
    refusals = [
        (apart, "trl-grpo", "share the accelerators"),
        (shared, "trl-grpo", "shards the trainer over all ranks"),
        (changed(deepspeed, algorithm="rloo"), "trl-grpo", "runs grpo and dapo, not rloo"),
        (shared, "vllm", "not 'rl'"),
        (changed(apart, staleness=4), "verl", "know 0 and 1"),
        (changed(shared, turns=5), "verl", "single-turn"),
        (split, "verl", "verl splits whole machines"),
        (split, "nemo-rl", "NeMo-RL splits whole machines"),
        (changed(shared, algorithm="ppo"), "nemo-rl", "has no critic"),
    ]
    for wrong, target, said in refusals:
        with pytest.raises(Refused, match=said):
            files(wrong, target)
    assert files(changed(shared, rollout_count=4), "verl")


def test_a_hostile_name_stays_one_argument(shared: Any) -> None:
    text = files(shared | {"model": shared["model"] | {"named": "a/b'; rm -rf $(HOME)"}}, "verl")
    assert "'actor_rollout_ref.model.path=a/b'\"'\"'; rm -rf $(HOME)'" in text
