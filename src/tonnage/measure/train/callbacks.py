"""The probe as a callback of Hugging Face's Trainer and of Lightning; neither is imported.

Both call methods by name and ask nothing of the class, so one object serves: what it does not care about does nothing.
"""

from __future__ import annotations

import os
from typing import Any

from tonnage.measure.train.probe import Probe, start


def callback(folder: str | os.PathLike[str] | None = None) -> Any:
    """
    `Trainer(callbacks=[tonnage.probe_callback("probe")])`, for Hugging Face and for Lightning.

    The probe runs while the fit does; steps end with the optimizer's, whichever library calls it.
    """
    running: list[Probe] = []

    def begin(*_: Any, **__: Any) -> None:
        if not running:
            running.append(start(folder))

    def end(*_: Any, **__: Any) -> None:
        while running:
            running.pop().close()

    def nothing(*_: Any, **__: Any) -> None:
        return None

    known = {
        "on_train_begin": begin,
        "on_train_end": end,  # Hugging Face, and Lightning's end
        "on_fit_start": begin,
        "on_fit_end": end,
        "on_exception": end,  # Lightning
    }

    def other(_: Any, name: str) -> Any:
        if name.startswith("__") or not name.startswith(("on_", "setup", "teardown")):
            raise AttributeError(name)
        return nothing

    methods = {name: staticmethod(function) for name, function in known.items()}
    extra = {"state_key": "tonnage.probe", "state_dict": lambda _: {}, "load_state_dict": lambda _, __: None}
    return type("TonnageProbe", (), {**methods, **extra, "__getattr__": other})()
