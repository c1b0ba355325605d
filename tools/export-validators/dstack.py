"""Read dstack files with dstack's own parser, and the fleet that the head of one asks for."""

import re
import sys
from pathlib import Path

# This file's own name would shadow the package.
sys.path.pop(0)

import yaml
from dstack._internal.core.models.configurations import parse_apply_configuration, parse_run_configuration

for path in sys.argv[1:]:
    text = Path(path).read_text(encoding="utf-8")
    for fleet in re.findall(r"^# .*(\{type: fleet.*\})$", text, re.MULTILINE):
        parse_apply_configuration(yaml.safe_load(fleet))
    parsed = parse_run_configuration(yaml.safe_load(text))
    print(f"ok: {path}: {parsed.type} {parsed.resources.gpu}")
