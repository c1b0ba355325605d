"""Read dstack files with dstack's own parser."""

import sys
from pathlib import Path

# This file's own name would shadow the package.
sys.path.pop(0)

import yaml
from dstack._internal.core.models.configurations import parse_run_configuration

for path in sys.argv[1:]:
    parsed = parse_run_configuration(yaml.safe_load(Path(path).read_text(encoding="utf-8")))
    print(f"ok: {path}: {parsed.type} {parsed.resources.gpu}")
