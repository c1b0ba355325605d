"""What a file says is read as its program would read it; what cannot be read is one sentence."""

from __future__ import annotations

from typing import Any

import pytest
from click.testing import CliRunner
from hypothesis import given, settings
from hypothesis import strategies as st

from tonnage.adopt import read_running
from tonnage.adopt.shell import expand_text, read_script
from tonnage.cli import root
from tonnage.errors import TonnageError

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
        ("accelerate launch --num_processes 8 sft.py --model_name_or_path a/b --use_peft --load_in_4bit True "
         "--per_device_train_batch_size 2", "method", "qlora"),
        ("torchrun --nproc-per-node 8 -m torchtitan.train --module llama3 --config llama3_8b "
         "--training.local_batch_size 2 activation_checkpoint:full", "recompute", "full"),
    ],
)  # fmt: skip
def test_options_are_read_as_their_program_reads_them(command: str, name: str, expected: Any) -> None:
    assert value(command, name) == expected


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
    done = CliRunner().invoke(root, ["adopt", str(tmp_path / "run.sh"), *arguments])
    assert done.exit_code == 2 and told in done.output
