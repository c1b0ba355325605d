"""What a deployment file starts: read as its own program reads it, and back from what is exported."""

import re
from datetime import date
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.command import told as answer_of
from tests.sweeps import FULL

import tonnage
from tonnage import export
from tonnage.adopt import read_running
from tonnage.adopt.shell import expand_text, read_script
from tonnage.domain.plan import ServePlan
from tonnage.errors import TonnageError
from tonnage.questions.adopt.adopt import adopt
from tonnage.questions.adopt.question import Adoption, Running, adopt_request
from tonnage.questions.answers import document_of
from tonnage.questions.launchable import launchable_option
from tonnage.report.terminal import print_blocks

VLLM = "vllm serve meta-llama/Llama-3.1-8B-Instruct"


def value(text: str, name: str) -> Any:
    return read_running(text).value(name)


@pytest.mark.parametrize(
    ("command", "name", "expected"),
    [
        (f"{VLLM} -tp 4", "tp", 4),
        (f"{VLLM} --tensor_parallel_size=4", "tp", 4),
        (f"{VLLM} --max-model-len 32k", "max_model_len", 32000),
        (f"{VLLM} --max-model-len 32K", "max_model_len", 32768),
        (f"{VLLM} --no-enable-chunked-prefill", "chunked_prefill", False),
        (f"{VLLM} --enforce-eager", "cuda_graphs", False),
        (f"{VLLM} -dp 2 -tp 4 --enable-expert-parallel", "ep", 8),
        (f"N=2\n{VLLM} -tp $((N * 2)) ", "tp", 4),
        (f"A=(--max-num-seqs 7 --x 'y z')\n{VLLM} " + '"${A[@]}"', "max_num_seqs", 7),
        (f"CUDA_VISIBLE_DEVICES=0,1 nohup {VLLM} -tp 2 > log 2>&1 &", "tp", 2),
        ("sglang serve --model-path a/b --tp 8 --dp 4 --enable-dp-attention", "dp", 4),
        ("sglang serve --model-path a/b --tp 8 --dp 4 --enable-dp-attention", "tp", 2),
        ("llama-server -m /models/x-Q5_K_M.gguf -c 8192 -np 4", "max_model_len", 2048),
        ("llama-server -m /models/x-Q5_K_M.gguf -c 8192 -np 4", "weights", "gguf-q5_k_m"),
        ("llama-server -m /models/x-Q5_K_M.gguf -c 8192 -np 4 -kvu", "max_model_len", 8192),
        ("llama-server -m /models/x-Q5_K_M.gguf -c 8192", "max_model_len", 8192),
        ("accelerate launch --num_processes 8 sft.py --model_name_or_path a/b --use_peft --load_in_4bit True "
         "--per_device_train_batch_size 2", "method", "qlora"),
        ("torchrun --nproc-per-node 8 -m torchtitan.train --module llama3 --config llama3_8b "
         "--training.local_batch_size 2 activation_checkpoint:full", "recompute", "full"),
    ],
)  # fmt: skip
def test_options_are_read_as_their_program_reads_them(command: str, name: str, expected: Any) -> None:
    assert value(command, name) == expected


def test_a_leader_worker_set_says_how_many_nodes_its_command_is_started_on() -> None:
    command = "python3 -m sglang.launch_server --model-path a/b --tp 16 --nnodes $(LWS_GROUP_SIZE)"
    container = {
        "image": "lmsysorg/sglang:v0.5.18",
        "command": f"{command} --node-rank $(LWS_WORKER_INDEX)".split(),
        "resources": {"limits": {"nvidia.com/gpu": "8"}},
    }
    group = {"size": 2, "leaderTemplate": {"spec": {"containers": [container]}}}
    document = {"apiVersion": "leaderworkerset.x-k8s.io/v1", "kind": "LeaderWorkerSet"}
    found = read_running(yaml.safe_dump(document | {"spec": {"leaderWorkerTemplate": group}}))
    assert (found.value("tp"), found.machine.nodes, found.machine.count) == (16, 2, 8) and not found.unknown


def test_data_parallel_replicas_of_sglang_are_replicas() -> None:
    found = read_running("python3 -m sglang.launch_server --model-path a/b --tp 2 --dp 4")
    assert found.replicas == 4 and found.value("tp") == 2 and found.value("dp") is None


def test_unknown_options_are_named_and_idle_ones_kept_apart() -> None:
    found = read_running(f"{VLLM} --tensor-paralel-size 2 --port 9000 --max-num-seqs $SEQS")
    assert found.unknown == ("--tensor-paralel-size 2 (--tensor-parallel-size?)", "--max-num-seqs $SEQS")
    assert found.ignored == ("--port 9000",)


def test_servers_alike_are_replicas_and_others_are_said() -> None:
    found = read_running(f"{VLLM} --port 1 &\n{VLLM} --port 2 &\n{VLLM} -tp 2 &\n")
    assert found.replicas == 2 and any("1 more servers" in note for note in found.notes)


def test_a_script_inside_a_manifest_knows_its_environment() -> None:
    text = """
kind: Pod
apiVersion: v1
spec:
  containers:
    - image: vllm/vllm-openai:v0.11.2
      env: [{name: LEN, value: "4096"}]
      command: [bash, -c, "exec vllm serve a/b --max-model-len $LEN --tensor-parallel-size ${TP:-8}"]
"""
    found = read_running(text)
    assert (found.version, found.value("max_model_len"), found.value("tp")) == ("0.11.2", 4096, 8)


def test_options_of_kserves_own_runtime_are_read_in_vllms_words() -> None:
    text = """
apiVersion: serving.kserve.io/v1beta1
kind: InferenceService
spec: {predictor: {model: {modelFormat: {name: huggingface},
  args: [--model_name=llama3, --model_id=a/b, --max-model-len=4096]}}}
"""
    found = read_running(text)
    assert (found.model, found.value("max_model_len"), found.unknown) == ("a/b", 4096, ())


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("", "is empty"),
        ("hello world", "starts nothing that can be read"),
        ("apiVersion: v1\nkind: Service\nmetadata: {name: x}", "starts nothing that can be read"),
        ("a: {{ .Values.x }}\nb: [", "starts nothing"),
        ("axolotl train examples/x.yml", "adopt that file instead"),
        ("vllm serve --max-model-len 8", "without naming a model"),
        ("x: " + "[" * 80 + "]" * 80, "starts nothing"),
        ("$(( 1 / 0 ))", "starts nothing"),
    ],
)
def test_what_cannot_be_read_is_one_sentence(text: str, told: str) -> None:
    with pytest.raises(TonnageError, match=told) as caught:
        read_running(text)
    assert "\n" not in str(caught.value)


def test_a_template_is_said_to_need_rendering() -> None:
    with pytest.raises(TonnageError, match="rendered first"):
        read_running("a: {{ .Values.x }}\nb: [", name="chart.yaml")


@settings(max_examples=200, deadline=None)
@given(st.text(max_size=200), st.sampled_from(["x.sh", "x.yaml", "x.toml", "x"]))
def test_no_text_breaks_the_reader(text: str, name: str) -> None:
    for whole in (text, f"vllm serve a/b {text}", f"services: {{a: {{image: vllm/vllm-openai, command: {text!r}}}}}"):
        try:
            read_running(whole, name=name)
        except TonnageError as wrong:
            assert "\n" not in str(wrong)


def test_nothing_of_a_script_is_run(tmp_path: Any) -> None:
    for text in (
        f"touch {tmp_path}/a\n{VLLM}",
        f"{VLLM} --max-num-seqs $(touch {tmp_path}/b)",
        f"X=`touch {tmp_path}/c`\n{VLLM}",
    ):
        read_running(text)
    assert not list(tmp_path.iterdir())


def test_variables_and_sums() -> None:
    assert expand_text("${A:-x}-$B-$C", {"B": "b"}) == "x-b-$C"
    assert expand_text("$(($A*$B))", {"A": "8", "B": "4"}) == "32"
    assert read_script("cat > f.yml <<EOF\nk: 1\nEOF\nrun --c f.yml").files == {"f.yml": "k: 1"}


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        ([], "accelerator is missing"),
        (["--accelerator", "H100", "--rate", "x"], "rate"),
        (["--accelerator", "H100", "--prompt-tokens", "50000", "--output-tokens", "100"], "beyond the"),
    ],
)
def test_what_only_the_user_knows_is_asked_for(arguments: list[str], told: str, tmp_path: Any) -> None:
    (tmp_path / "run.sh").write_text(f"{VLLM} --max-model-len 8192")
    done = answer_of("adopt", str(tmp_path / "run.sh"), *arguments)
    assert done.exit_code == 2 and told in done.output


FILES = Path(__file__).parent / "files"
NAMES = sorted(path.name for path in FILES.iterdir())
TODAY = date(2026, 11, 22)
LLAMA_405B = "meta-llama/Llama-3.1-405B-Instruct"
MORE: dict[str, dict[str, Any]] = {
    "vllm-quickstart.sh": {"accelerator": "A100"},
    "vllm-docker.sh": {"accelerator": "H100"},
    "vllm-pipeline.sh": {"accelerator": "H100", "model": LLAMA_405B},
    "vllm-experts.sh": {"accelerator": "H200", "model": "deepseek-ai/DeepSeek-V3"},
    "vllm-options.yaml": {"accelerator": "H100"},
    "leaderworkerset.yaml": {"accelerator": "H100"},
    "dstack.yml": {"accelerator": "L4"},
    "slurm.sbatch": {"accelerator": "RTX A6000"},
    "production-stack.yaml": {"accelerator": "A100"},
    "compose.yaml": {"accelerator": "H100"},
    "sglang-two-nodes.sh": {"accelerator": "H100"},
    "trtllm.sh": {"accelerator": "B200", "model": "meta-llama/Llama-3.3-70B-Instruct"},
    "llamacpp.sh": {"accelerator": "RTX 4090", "model": "Qwen/Qwen2.5-0.5B"},
    "axolotl-qlora.yaml": {"accelerator": "A100", "tokens": "20M", "model": "meta-llama/Meta-Llama-3-8B"},
    "trl-sft.yaml": {"accelerator": "H100", "count": 8, "tokens": "20M"},
    "torchtitan.toml": {"accelerator": "H100", "count": 8},
    "megatron.sh": {"accelerator": "H100"},
}
"""File -> what it does not say."""
DIFFER = {
    "axolotl-qlora.yaml": {"epochs"},
    "trl-sft.yaml": {"epochs", "recompute"},
    "torchtitan.toml": {"optimizer", "recompute"},
    "megatron.sh": {"samples", "sequence_parallel"},
    "trtllm.sh": {"ep"},
    "ray-serve.yaml": {"cuda_graphs"},
}
"""Settings that are written otherwise: epochs and samples as steps, and a default of the program (as CUDA graphs
are) is left to it; selective recomputation of torchtitan is planned as none, and said so; under FSDP, TRL recomputes
by a switch of Accelerate's file, which stands beside its own; sequence parallelism of one tensor rank and experts on
one rank are nothing."""
LAMBDA, GCP = {"provider": "lambda"}, {"provider": "gcp"}
"""What it is compared with in the sample: one provider, not the whole market."""
SAMPLE = (
    NAMES if FULL else ["compose.yaml", "kubernetes-idle.yaml", "megatron.sh", "sglang-two-nodes.sh", "trl-sft.yaml"]
)


def read(name: str) -> Running:
    return read_running((FILES / name).read_text(encoding="utf-8"), name=name)


@cache
def adopted(name: str) -> Adoption:
    few = {} if FULL else GCP if name == "sglang-two-nodes.sh" else LAMBDA
    fields = {**MORE.get(name, {}), **few, "file": (FILES / name).read_text(encoding="utf-8")}
    return adopt(adopt_request(fields), read(name), today=TODAY)


def test_settings_of_public_files_name_their_commit() -> None:
    heads = ["".join((FILES / name).read_text(encoding="utf-8").splitlines(keepends=True)[:2]) for name in NAMES]
    confirmed = [
        head for head in heads if re.search(r"# After github\.com/\S+/\S+ \S+ @ [0-9a-f]{7}, read 2026-", head)
    ]
    assert len(confirmed) >= 20


def test_there_are_twenty_files_and_each_says_where_it_comes_from() -> None:
    assert len(NAMES) >= 20
    heads = ["".join((FILES / name).read_text(encoding="utf-8").splitlines()[:2]) for name in NAMES]
    assert all("# After " in head and "." in head.partition("# After ")[2] for head in heads)


@pytest.mark.parametrize("name", SAMPLE)
def test_adopted_and_exported_it_has_the_same_settings(name: str) -> None:
    found, before = adopted(name), read(name)
    assert found.current is not None, found.findings
    # The checkpoint is the file's own; formats that no engine makes while loading must be named.
    checkpoint = before.model if before.kind == "serve" else None
    made, option = launchable_option(found.current, checkpoint=checkpoint)
    files = export.export(made, option, to=before.program)
    text = next(text for file, text in files.items() if file.endswith((".sh", ".yaml")))
    after = read_running(text, name=next(iter(files)))
    told = {setting: value for setting, value in before.values().items() if after.value(setting) != value}
    assert set(told) <= DIFFER.get(name, set()), told
    assert (
        after.model in (before.model, MORE.get(name, {}).get("model"), getattr(made.request, "model", ""))
        or not before.model
    )
    assert not after.unknown


@pytest.mark.parametrize("name", SAMPLE)
def test_the_first_screen_says_what_was_read_assumed_and_what_should_run(
    name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    found = adopted(name)
    print_blocks(document_of(found).first, width=100)
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) <= 24
    text = " ".join(" ".join(lines).split())
    assert text.startswith("Read: ") and read(name).format in text
    assert "today" in text and ("better" in text or "next" in text)
    assert any(word in text for word in ("saves $", "nothing cheaper does the same", found.sentence[:40]))
    assert all(note[:20] in text for note in found.findings[:2])


def test_what_is_reserved_and_idle_is_said_and_paid() -> None:
    found = adopted("kubernetes-idle.yaml")
    assert any("4 accelerators are reserved for a replica of 2: 2 idle" in finding for finding in found.findings)
    assert isinstance(found.current, ServePlan)
    option = found.current.options[0]
    assert option.accelerators == 8 and option.bill.instances * option.bill.accelerators_per_instance >= 8
    assert found.saving.share > 0.4


@pytest.mark.parametrize(
    ("load", "replicas"), [({}, 2), ({"rate": "0.5/s"}, 1), ({"rate": "500/s"}, 3), ({"replicas": 3}, 3)]
)
def test_what_an_autoscaler_keeps_is_billed_on_average(load: dict[str, Any], replicas: int) -> None:
    name = "kubernetes-idle.yaml"  # 1 to 3 replicas
    fields = {"file": (FILES / name).read_text(encoding="utf-8"), **load, **LAMBDA}
    found = adopt(adopt_request(fields), read(name), today=TODAY)
    assert isinstance(found.current, ServePlan) and found.current.options[0].replicas == replicas
    assert any("keeps 1 to 3 replicas" in note for note in found.assumed)


def test_the_context_that_a_server_takes_is_kept_and_fewer_bits_are_said() -> None:
    model = "Qwen/Qwen3-235B-A22B-Instruct-2507"
    text = f"vllm serve {model} --tensor-parallel-size 8 --max-model-len 262144 --kv-cache-dtype auto"
    found = adopt(adopt_request({"file": text, "accelerator": "H200"}), read_running(text), today=TODAY)
    better = found.better
    assert isinstance(better, ServePlan) and better.request.max_context == 262_144
    assert all(option.kv_tokens >= 262_144 for option in better.options)
    assert "--context 262144" in found.command
    narrow = better.options[0].configuration.precision
    assert narrow.stored == "fp8"
    assert "carries the same load with FP8 weights" in found.sentence


def test_a_stated_load_beyond_what_it_carries_is_a_finding() -> None:
    name = "kubernetes-vllm.yaml"
    fields = {"file": (FILES / name).read_text(encoding="utf-8"), "rate": "50/s", **LAMBDA}
    found = adopt(adopt_request(fields), read(name), today=TODAY)
    assert not found.feasible and found.current is not None
    assert "does not carry the load; " in found.sentence and found.sentence.endswith(" does.")
    assert any("50/s arrive" in finding for finding in found.findings)
    assert isinstance(found.better, ServePlan) and found.better.feasible
    best = found.better.options[0]
    assert best.replicas * best.capacity.max_rate_per_s.value >= 50


def test_what_runs_today_is_ringed_among_what_would_do_the_same() -> None:
    answer = adopted("compose.yaml")
    (chart,) = tonnage.charts(answer)
    assert answer.current is not None and answer.better is not None
    (ringed,) = (one for one in chart.body["data"]["values"] if one["rank"] == chart.body["params"][0]["value"])
    assert ringed["usd"] == answer.current.options[0].bill.usd_per_hour
    assert 3 < len(chart.rows) <= 1 + len(answer.better.options)


def test_a_plan_that_is_started_and_adopted_again_is_not_bettered() -> None:
    load = {"rate": "2/s", "traffic": "chat", "ttft": "1 s", "tpot": "50 ms", "quick": True, **LAMBDA}
    plan = tonnage.plan_serve("Qwen/Qwen3-32B", **load)
    launched, option = launchable_option(plan)
    text = export.export(launched, option, to=option.configuration.engine.name)["serve.sh"]
    fields = {"file": text, "accelerator": option.configuration.accelerator, "replicas": option.replicas, **load}
    found = adopt(adopt_request(fields), read_running(text), today=TODAY)
    assert found.sentence.endswith("nothing cheaper does the same.")
    assert isinstance(found.current, ServePlan) and isinstance(found.better, ServePlan)
    runs, better = found.current.options[0], found.better.options[0]
    assert (runs.cost, runs.capacity.max_rate_per_s) == (better.cost, better.capacity.max_rate_per_s)
    assert (better.configuration.label(), better.replicas) == (option.configuration.label(), option.replicas)
