"""Hold JobSets and Kueue's queues against the dated extract of their types, and set their pods apart as a plain Job."""

import json
import sys
from pathlib import Path

import jsonschema
import yaml

KINDS = json.loads(Path(__file__).with_name("jobset.schema.json").read_text(encoding="utf-8"))["kinds"]

for path in map(Path, sys.argv[1:]):
    ours = [one for one in yaml.safe_load_all(path.read_text(encoding="utf-8")) if one["kind"] in KINDS]
    for document in ours:
        jsonschema.validate(document, KINDS[document["kind"]])
    print(f"ok: {path}: {', '.join(document['kind'] for document in ours)}")
