"""What the process loads from which workers are forked: importing this asks one small question and loads the rest."""

from __future__ import annotations

import importlib

for _module in ("tonnage.sweep.ready", "tonnage.web.tasks", "tonnage.web.tool_results"):
    importlib.import_module(_module)
