"""Found first on a measured command's path: lets the probe in as soon as the command imports PyTorch."""

import atexit
import importlib
import importlib.util
import os
import sys
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType
from typing import Any

_HERE = str(Path(__file__).parent)


def _follow() -> None:
    """The system's own sitecustomize, which this one hides."""
    sys.path[:] = [entry for entry in sys.path if entry != _HERE]
    this = sys.modules.pop("sitecustomize", None)
    try:
        importlib.import_module("sitecustomize")
    except ImportError:
        if this is not None:
            sys.modules["sitecustomize"] = this


def _start_probe() -> None:
    """Starts the probe, to be closed at exit; where it cannot start, stderr says why and the command goes on."""
    try:
        from tonnage.measure.train.probe import start

        atexit.register(start().close)
    except Exception as error:
        print(f"tonnage: the probe cannot watch this process: {type(error).__name__}: {error}", file=sys.stderr)


def _watch() -> None:
    """Starts the probe after `import torch`."""

    def find_spec(name: str, path: Any = None, target: Any = None) -> ModuleSpec | None:
        if name != "torch":
            return None
        sys.meta_path.remove(finder)
        spec = importlib.util.find_spec("torch")
        if spec is None or spec.loader is None:
            return spec
        loader: Any = spec.loader
        execute = loader.exec_module

        def exec_module(module: ModuleType) -> None:
            execute(module)
            _start_probe()

        loader.exec_module = exec_module
        return spec

    finder: Any = type("Finder", (), {"find_spec": staticmethod(find_spec)})()
    sys.meta_path.insert(0, finder)


_follow()
if os.environ.get("TONNAGE_PROBE"):
    _watch()
