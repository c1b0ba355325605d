"""
Compose verl's configuration from its scripts' overrides, by Hydra and as outside of a checkout.

A key that verl does not have, or a value of another kind, is refused there. Of verl its configurations alone are read:
its programs import what needs accelerators.
"""

import shlex
import sys
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType

# This file's own name would shadow the package.
sys.path.pop(0)

from hydra import compose, initialize_config_dir

(HOME,) = find_spec("verl").submodule_search_locations
for name, place in (("verl", HOME), ("verl.trainer", f"{HOME}/trainer")):
    sys.modules[name] = ModuleType(name)
    sys.modules[name].__path__ = [place]

for path in sys.argv[1:]:
    text = Path(path).read_text(encoding="utf-8").replace("\\\n", " ")
    module, config, *overrides = shlex.split(text.partition("python3 -m ")[2])
    folder = Path(HOME, *module.split(".")[1:-1], "config")
    with initialize_config_dir(config_dir=str(folder), version_base=None):
        read = compose(
            config.partition("=")[2], overrides=[word.replace("${DATA:?}", "data") for word in overrides[:-1]]
        )
    print(f"ok: {path}: {len(overrides) - 1} settings, {read.trainer.nnodes} x {read.trainer.n_gpus_per_node} train")
