"""
Read OpenRLHF's scripts with its own program: its parser and its checks of the arguments, up to where it starts Ray.

What starts workers needs accelerators and is never reached, so that a stand-in takes its place.
"""

import runpy
import shlex
import sys
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType
from unittest.mock import MagicMock

# This file's own name would shadow the package.
sys.path.pop(0)

WORKERS = "openrlhf.trainer.ray"


class ReadError(Exception):
    """The arguments as they were read, on their way out of the program."""


def starts() -> bool:
    """In place of Ray's first question."""
    raise ReadError(sys._getframe(1).f_locals["args"])


for name in ("ray", "ray.util", "ray.util.placement_group", "openrlhf.trainer", WORKERS):
    sys.modules[name] = MagicMock(is_initialized=starts)
for name in ("launcher", "ppo_actor", "ppo_critic"):
    sys.modules[f"{WORKERS}.{name}"] = MagicMock()
(home,) = find_spec("openrlhf").submodule_search_locations
sys.modules["openrlhf.utils"] = utils = ModuleType("openrlhf.utils")
utils.__path__, utils.get_strategy = [f"{home}/utils"], None

for path in sys.argv[1:]:
    text = Path(path).read_text(encoding="utf-8").partition("python3 -m ")[2].replace("\\\n", " ")
    module, *words = shlex.split(text.replace("${DATA:?}", "data").replace("${REWARD:?}", "reward.py"))[:-1]
    sys.argv = [module, *words]
    try:
        runpy.run_module(module, run_name="__main__")
    except ReadError as read:
        (args,) = read.args
    actor = f"{args.actor.num_nodes} x {args.actor.num_gpus_per_node} train"
    print(f"ok: {path}: {len(words)} words, {actor}, {args.vllm.num_engines} engines generate")
