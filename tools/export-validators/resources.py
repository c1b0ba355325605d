"""Hold custom resources among other documents (JobSet, Kueue, Dynamo) against the dated extracts of their types."""

import json
import sys
from pathlib import Path

import jsonschema
import yaml

HERE = Path(__file__).parent
KINDS = json.loads((HERE / "jobset.schema.json").read_text(encoding="utf-8"))["kinds"]
KINDS["DynamoGraphDeployment"] = json.loads((HERE / "dynamographdeployment.schema.json").read_text(encoding="utf-8"))

for path in map(Path, sys.argv[1:]):
    ours = [one for one in yaml.safe_load_all(path.read_text(encoding="utf-8")) if one["kind"] in KINDS]
    for document in ours:
        jsonschema.validate(document, KINDS[document["kind"]])
    print(f"ok: {path}: {', '.join(document['kind'] for document in ours)}")
