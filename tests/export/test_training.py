"""Training plans as files: the plan's settings arrive, what a target cannot do is said, and FSDP2 really shards."""

import json
import math
import re
import shlex
import subprocess
import sys
from importlib import resources
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.asked import Refused
from tests.conftest import Golden
from tests.export.plans import SHAPE, SIXTEEN, TRAIN_CASES, exported, files_of, train_plan
from tests.sweeps import FULL

import tonnage

FOLDER = Path(__file__).parents[1] / "golden" / "export"


def written(target: str, **changes: Any) -> dict[str, str]:
    return exported(train_plan(**changes), target)


@pytest.mark.parametrize("case", TRAIN_CASES)
def test_files_are_the_kept_ones(case: str, request: pytest.FixtureRequest) -> None:
    target, changes = TRAIN_CASES[case]
    golden = Golden(FOLDER, bool(request.config.getoption("--update-golden")))
    files = written(target, **changes)
    assert set(files) <= files_of(target)
    for name, text in files.items():
        golden.check(f"{case}/{name}", text)


@pytest.mark.parametrize("case", TRAIN_CASES)
def test_scripts_parse_and_name_their_release(case: str, tmp_path: Path) -> None:
    target, changes = TRAIN_CASES[case]
    for name, text in written(target, **changes).items():
        if name.endswith(".sh"):
            (tmp_path / name).write_text(text)
            assert (
                subprocess.run(["bash", "-n", str(tmp_path / name)], capture_output=True, check=False).returncode == 0
            )
        if name.endswith((".sh", ".yaml")):
            assert any(line.startswith("# For ") for line in text.splitlines()[:3])
        if name.endswith(".json"):
            json.loads(text)


def test_settings_arrive() -> None:
    told = yaml.safe_load(written("axolotl", method="qlora", seq_len=2048)["axolotl.yaml"])
    assert (told["sequence_len"], told["micro_batch_size"], told["gradient_accumulation_steps"]) == (2048, 2, 4)
    assert (
        told["adapter"] == "qlora" and told["load_in_4bit"] and told["save_steps"] == 50 and told["max_steps"] == 1000
    )
    zero = json.loads(written("deepspeed", sharding="zero2")["deepspeed.json"])
    assert zero["zero_optimization"]["stage"] == 2 and zero["train_batch_size"] == 2 * 4 * 8
    plan = json.loads(written("torchrun", **SIXTEEN)["plan.json"])
    assert plan["global_batch"] == 128 and plan["ranks_per_node"] == 8
    target, changes = TRAIN_CASES["megatron"]
    script = written(target, **changes)["pretrain.sh"]
    for words in (
        "--tensor-model-parallel-size 4",
        "--pipeline-model-parallel-size 2",
        "--fp8-format",
        "--num-layers 32",
        "--recompute-granularity selective",
        "--nnodes 8",
        "--save-interval 50",
        "--sequence-parallel",
    ):
        assert " ".join(words.split()) in " ".join(script.replace("\\\n", " ").split())


@pytest.mark.parametrize(
    ("target", "changes", "told"),
    [
        ("torchrun", {"tp": 2}, "cannot do tp 2"),
        ("accelerate", {"pp": 2}, "cannot do pp 2"),
        ("axolotl", {"method": "pretrain"}, "takes plans of kind finetune"),
        ("axolotl", {"optimizer": "lamb"}, "no optimizer"),
        ("megatron", {"method": "lora"}, "trains no lora"),
        ("megatron", {"model": "google-bert/bert-base-uncased"}, "no decoder"),
        ("vllm", {}, "takes plans of kind serve, not 'finetune'; finetune: accelerate, axolotl"),
        ("torchrun", {"model": "./x/config.json"}, "--checkpoint"),
        ("accelerate", {"model": "13B"}, "--checkpoint"),
    ],
)
def test_what_a_target_cannot_do_is_one_sentence(target: str, changes: dict[str, Any], told: str) -> None:
    with pytest.raises(Refused, match=re.escape(told)):
        written(target, **changes)


@pytest.mark.parametrize("name", ["x/y; rm -rf ~", "a/$(touch pwned)", "a/`touch pwned`", "a/{{x}}"])
@pytest.mark.parametrize("target", ["torchrun", "accelerate", "deepspeed", "axolotl", "megatron"])
def test_names_are_inert(target: str, name: str, tmp_path: Path) -> None:
    for file, text in written(target, model=name, shape=SHAPE).items():
        if file.endswith(".sh"):
            lines = [line for line in text.splitlines() if not line.startswith("#")]
            (tmp_path / file).write_text("\n".join(line for line in lines if not line.startswith("exec")))
            subprocess.run(
                ["bash", str(tmp_path / file)],
                cwd=tmp_path,
                capture_output=True,
                check=False,
                env={"PATH": "/bin", "HOME": str(tmp_path)},
            )
        elif file.endswith(".yaml"):
            yaml.safe_load(text)
    assert not (tmp_path / "pwned").exists()


def test_a_real_plan_goes_all_the_way() -> None:
    plan = tonnage.plan_train("meta-llama/Llama-3.1-8B", tokens="10B", accelerator="H100", max_accelerators="64")
    script = exported(tonnage.to_dict(plan), "megatron")["pretrain.sh"]
    layout = plan.options[0].configuration.layout
    assert f"--tensor-model-parallel-size {layout.tp}" in script and "--num-query-groups 8" in script


SCRIPT = """
import sys
sys.path.insert(0, sys.argv[1])
import torch
from torch import nn
torch.distributed.init_process_group("gloo")
from fsdp2 import parallelise, plan
torch.manual_seed(0)
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList([nn.Sequential(nn.Linear(16, 64), nn.GELU(), nn.Linear(64, 16)) for _ in range(3)])
    def forward(self, x):
        for layer in self.layers:
            x = x + layer(x)
        return x
model = parallelise(Net(), device="cpu")
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
x = torch.randn(8, 16)
losses = []
for _ in range(5):
    loss = (model(x) - 1).pow(2).mean()
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    losses.append(loss.item())
own = sum(p.to_local().numel() if hasattr(p, "to_local") else p.numel() for p in model.parameters())
rank = torch.distributed.get_rank()
with open(f"{sys.argv[1]}/result{rank}", "w") as file:
    print(losses[0] > losses[-1], own, sum(p.numel() for p in model.parameters()), file=file)
torch.distributed.destroy_process_group()
"""


@pytest.mark.slow
@pytest.mark.parametrize("sharding", ["zero3", "zero2", "hsdp"] if FULL else ["hsdp"])  # hybrid shards and replicates
def test_fsdp2_shards_a_model_on_this_machine(tmp_path: Path, sharding: str) -> None:
    pytest.importorskip("torch", reason="torch is not installed")
    for name, text in written("torchrun", sharding=sharding).items():
        (tmp_path / name).write_text(text)
    (tmp_path / "train.py").write_text(SCRIPT)
    argv = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", "2", "--standalone"]
    done = subprocess.run(
        [*argv, str(tmp_path / "train.py"), str(tmp_path)], capture_output=True, text=True, timeout=120, check=False
    )
    results = [path.read_text().split() for path in sorted(tmp_path.glob("result*"))]
    assert len(results) == 2, done.stderr[-2000:]
    assert all(result[0] == "True" for result in results)
    assert sum(int(result[1]) for result in results) == int(results[0][2])


TPU = {
    "method": "pretrain", "accelerator": "tpu-v5p", "count": 64, "instances": 16, "tp": 2, "dp": 32, "sharding": "fsdp",
}  # fmt: skip


def program_of(made: Any) -> list[str]:
    """What Megatron-LM's program is started with."""
    return shlex.split(exported(made, "megatron")["pretrain.sh"].partition("pretrain_gpt.py ")[2])


@pytest.mark.parametrize(
    ("model", "pp", "vpp", "layers"),
    [
        ("meta-llama/Llama-3.1-405B", 16, 8, "E|(t|)*126L"),  # as Llama 3 405B was trained: no layer at either end
        ("meta-llama/Llama-3.1-405B", 4, 1, "E" + "t" * 31 + "|(" + "t" * 32 + "|)*2" + "t" * 31 + "L"),
        ("Qwen/Qwen3-235B-A22B", 8, 1, "E" + "t" * 11 + "|(" + "t" * 12 + "|)*6" + "t" * 11 + "L"),
        ("meta-llama/Llama-3.1-8B", 3, 1, "E" + "t" * 10 + "|" + "t" * 11 + "|" + "t" * 11 + "L"),
        ("meta-llama/Llama-3.1-8B", 4, 2, ""),  # 32 layers over eight stages: Megatron-LM divides them itself
    ],
)
def test_stages_that_do_not_divide_are_written_out(model: str, pp: int, vpp: int, layers: str) -> None:
    made = train_plan(model, method="pretrain", pp=pp, vpp=vpp, dp=1, tp=1, sharding="zero1")
    words = program_of(made)
    assert ("--num-virtual-stages-per-pipeline-rank" in words) is (vpp > 1 and not layers)
    assert layers == (words[words.index("--pipeline-model-parallel-layout") + 1] if layers else "")
    assert bool(layers) is ("--pipeline-model-parallel-layout" in words)


def test_megatron_is_given_as_many_connections_as_what_it_cuts_needs() -> None:
    case = TRAIN_CASES["megatron"][1]
    sharded = written("megatron", **{**case, "sharding": "zero3", "pp": 1, "vpp": 1, "count": 32})["pretrain.sh"]
    assert "\nunset CUDA_DEVICE_MAX_CONNECTIONS\n" in sharded, "its own sharding refuses one"
    assert "\nexport CUDA_DEVICE_MAX_CONNECTIONS=1\n" in written("megatron", **case)["pretrain.sh"]


def test_no_file_drops_values_or_keeps_every_checkpoint() -> None:
    words = program_of(train_plan(method="pretrain", sharding="zero1"))
    read = dict(pairwise(words))
    assert read["--attention-dropout"] == read["--hidden-dropout"] == "0.0"  # its own default is a tenth
    every, kept, steps = (int(read[f"--{name}"]) for name in ("save-interval", "save-retain-interval", "train-iters"))
    assert kept % every == 0 and steps / kept <= 10
    for target in ("trl", "axolotl"):
        (text,) = (text for text in exported(train_plan(), target).values() if "save_steps" in text)
        assert "save_total_limit: 10" in text


def maxtext_settings(tmp_path: Path, **changes: Any) -> dict[str, str]:
    """What MaxText's program is started with, read back from a run of the script."""
    tool = tmp_path / "python3"
    tool.write_text('#!/bin/bash\nprintf "%s\\0" "$@"\n')
    tool.chmod(0o755)
    script = written("maxtext", **{**TPU, **changes})["train.sh"]
    env = {"PATH": f"{tmp_path}:/usr/bin:/bin", "OUTPUT": "gs://b", "DATA": "a b*", "TOKENIZER": "x/y"}
    done = subprocess.run(["/bin/bash", "-c", script], env=env, capture_output=True, text=True, check=True, timeout=20)
    return dict(word.split("=", 1) for word in done.stdout.split("\0") if "=" in word)


def test_maxtext_trains_what_was_planned(tmp_path: Path) -> None:
    options = json.loads(resources.files("tonnage.export").joinpath("data/options/maxtext.json").read_text())["options"]
    found = maxtext_settings(tmp_path, recompute="selective")
    assert {f"--{name}" for name in found} <= set(options)
    assert all(found[name] in options[f"--{name}"] for name in found if options[f"--{name}"])
    assert len([name for name in found if options[f"--{name}"]]) >= 5
    mesh = [int(value) for name, value in found.items() if name.startswith("ici_")]
    assert math.prod(mesh) == 64 and found["ici_fsdp_parallelism"] == "32"
    sequences = float(found["per_device_batch_size"]) * 64 * int(found["gradient_accumulation_steps"])
    assert (sequences, found["max_target_length"], found["steps"]) == (2 * 4 * 32, "4096", "1000")
    assert (found["model_name"], found["remat_policy"], found["grain_train_files"]) == (
        "llama3.1-8b",
        "minimal",
        "a b*",
    )


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"precision": "fp8"}, "no precision 'fp8'"),
        ({"sharding": "zero1"}, "no sharding 'zero1'"),
        ({"pp": 2, "dp": 16}, "pp 2"),
        ({"model": "openai-community/gpt2"}, "MaxText files know"),
        ({"model": "meta-llama/Llama-2-7b-hf", "named": "meta-llama/Llama-3.1-8B"}, "MaxText files know"),
        ({"accelerator": "h100-sxm5-80gb"}, "does not run on"),
    ],
)
def test_what_maxtext_cannot_do_is_refused(changes: dict[str, Any], told: str) -> None:
    with pytest.raises(Refused, match=told):
        written("maxtext", **{**TPU, **changes})
