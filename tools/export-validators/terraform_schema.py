"""
Write terraform.schema.json: arguments and blocks of the resources that are exported, from the providers' own schemas.

    python terraform_schema.py terraform.schema.json WHEEL ...

HashiCorp generated CDK for Terraform's bindings from each provider's schema: a class a resource, a keyword an argument,
optional where it is annotated so. Wheels: `pip download --no-deps cdktf-cdktf-provider-google` (-aws, -azurerm).
"""

import ast
import datetime
import json
import re
import sys
import zipfile
from pathlib import Path

RESOURCES = (
    "aws_budgets_budget", "aws_eks_node_group", "azurerm_consumption_budget_subscription",
    "azurerm_kubernetes_cluster_node_pool", "google_billing_budget", "google_container_node_pool",
)  # fmt: skip
META = {"connection", "count", "depends_on", "for_each", "lifecycle", "provider", "provisioners", "id", "timeouts"}
"""Of every resource, not of these."""


def fields_of(node: ast.ClassDef) -> dict[str, str]:
    """Keywords of a class -> their annotations."""
    (made,) = [one for one in node.body if isinstance(one, ast.FunctionDef) and one.name == "__init__"]
    return {one.arg: ast.unparse(one.annotation) for one in made.args.kwonlyargs if one.annotation}


def block(classes: dict[str, ast.ClassDef], name: str) -> dict:
    """Arguments of one class, those that are required, and the blocks within."""
    fields = {key: kind for key, kind in fields_of(classes[name]).items() if key not in META}
    inner = {}
    for key, kind in fields.items():
        named = [word for word in re.findall(r"\w+", kind) if word in classes]
        if named:
            inner[key] = block(classes, named[0])
    required = sorted(key for key, kind in fields.items() if not kind.startswith("typing.Optional"))
    return {"required": required, "arguments": sorted(fields), "blocks": inner}


def main(target: Path, wheels: list[Path]) -> None:
    """One file of all resources."""
    found, versions = {}, []
    for wheel in wheels:
        with zipfile.ZipFile(wheel) as archive:
            (about,) = [name for name in archive.namelist() if name.endswith(".dist-info/METADATA")]
            told = re.search(r"bindings for (\S+) provider version (\S+)", archive.read(about).decode())
            assert told, wheel
            versions.append(f"{told[1]} {told[2]}")
            provider = told[1].partition("/")[2]
            for resource in (one for one in RESOURCES if one.startswith(f"{provider}_")):
                module = resource.removeprefix(f"{provider}_")
                source = archive.read(f"cdktf_cdktf_provider_{provider}/{module}/__init__.py").decode()
                classes = {node.name: node for node in ast.parse(source).body if isinstance(node, ast.ClassDef)}
                (top,) = [name for name in classes if name.lower() == f"{module.replace('_', '')}config"]
                found[resource] = block(classes, top)
    day = datetime.date.today().isoformat()
    how = (
        "tools/export-validators/terraform_schema.py: the providers' schemas as CDK for Terraform's bindings hold them"
    )
    made = {"read": day, "source": f"{how}; {', '.join(sorted(versions))}", "resources": dict(sorted(found.items()))}
    target.write_text(json.dumps(made, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]), [Path(wheel) for wheel in sys.argv[2:]])
