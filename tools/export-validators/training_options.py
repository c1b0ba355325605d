"""Write the option lists of training programs from unpacked wheels, without importing them.

python training_options.py NAME VERSION FILE.json FOLDER...
    NAME: axolotl, trl, openrlhf, neuronx (optimum-neuron), nemo (megatron-bridge), maxtext

FOLDER holds what `pip download --no-deps axolotl==0.19.0` gives, unpacked; TRL's list also takes the
folder of transformers, whose arguments it adds, and nemo's that of megatron-core.
OpenRLHF's are those of its train_ppo_ray, with the choices they take.
"""

import ast
import sys
from pathlib import Path

import listing

CLASSES = {
    "axolotl": ("axolotl/utils/schemas/*.py", None),
    "trl": ("tr*/**/*.py", {"_BaseConfig", "SFTConfig", "ModelConfig", "ScriptArguments", "TrainingArguments"}),
    "neuronx": ("optimum/neuron/trainers/training_args.py", {"NeuronTrainingArguments"}),
    "nemo": ("megatron/**/*.py", {"TransformerConfig", "ModelParallelConfig", "GPTModelProvider", "TrainingConfig",
             "OptimizerConfig", "DistributedDataParallelConfig", "CheckpointConfig", "LoRA", "DoRA"}),
}  # fmt: skip
"""Files that declare the options, and their classes; all of a file's where there is none."""
SECTIONS = {
    "TrainingConfig": "train", "TransformerConfig": "provider", "ModelParallelConfig": "provider",
    "GPTModelProvider": "provider",
    "OptimizerConfig": "optimizer", "DistributedDataParallelConfig": "ddp", "CheckpointConfig": "checkpoint",
    "LoRA": "adapters", "DoRA": "adapters",
}  # fmt: skip
"""Sections by the class that declares them, of the plan that Megatron-Bridge is given."""


def options(name: str, folders: list[Path]) -> list[str]:
    """Every annotated field, in its section where the program has sections."""
    pattern, wanted = CLASSES[name]
    found = set()
    for folder in folders:
        for path in sorted(folder.glob(pattern)):
            if path.name == "vllm_serve.py":  # a program of its own
                continue
            for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
                if isinstance(node, ast.ClassDef) and (wanted is None or node.name in wanted):
                    section = f"{SECTIONS[node.name]}." if node.name in SECTIONS else ""
                    found |= {
                        section + field.target.id
                        for field in node.body
                        if isinstance(field, ast.AnnAssign) and isinstance(field.target, ast.Name)
                    }
    return sorted(found)


PREFIXES = ("actor", "critic")
"""What openrlhf's one loop over options is for."""


def declared(source: Path) -> dict[str, list[str] | None]:
    """Options of the `add_argument` calls of a program, each with its choices; those of its loop once a prefix."""
    found: dict[str, list[str] | None] = {}
    for node in ast.walk(ast.parse(source.read_text(encoding="utf-8"))):
        if not (isinstance(node, ast.Call) and getattr(node.func, "attr", "") == "add_argument"):
            continue
        choices = next((ast.literal_eval(word.value) for word in node.keywords if word.arg == "choices"), None)
        text = ast.unparse(node.args[0]).removeprefix("f").strip("'\"")
        for name in {text.replace("{prefix}", prefix) for prefix in PREFIXES}:
            found[name] = choices
    return dict(sorted(found.items()))


def registered(source: Path) -> list[str]:
    """Functions that `@register` makes choices of."""
    tree = ast.parse(source.read_text(encoding="utf-8"))
    functions = (node for node in tree.body if isinstance(node, ast.FunctionDef))
    return sorted(
        node.name for node in functions if any(getattr(mark, "id", "") == "register" for mark in node.decorator_list)
    )


def maxtext(folder: Path) -> tuple[dict[str, list[str] | None], dict[str, list[float]]]:
    """
    Keys of MaxText's base.yml with the choices that its types give them, and what each of its networks builds.

    Layers, width, heads, key-value heads, feed-forward width (of an expert), experts (0 = none), vocabulary, rotary
    base.
    """
    import yaml

    tree = ast.parse((folder / "types.py").read_text(encoding="utf-8"))
    classes = [node for node in tree.body if isinstance(node, ast.ClassDef)]
    named = {
        node.name: [
            str(line.value.value)
            for line in node.body
            if isinstance(line, ast.Assign) and isinstance(line.value, ast.Constant)
        ]
        for node in classes
        if any(getattr(base, "id", "") == "Enum" for base in node.bases)
    }
    choices = {}
    for node in classes:
        for field in node.body:
            if isinstance(field, ast.AnnAssign) and isinstance(field.target, ast.Name):
                written = ast.unparse(field.annotation)
                literal = written.startswith("Literal[") and "|" not in written
                words = [str(one.value) for one in ast.walk(field.annotation) if isinstance(one, ast.Constant)]
                choices[field.target.id] = named.get(written) or (words if literal else None)
    base = yaml.safe_load((folder / "base.yml").read_text(encoding="utf-8"))
    networks = {}
    for path in sorted((folder / "models").glob("*.yml")):
        found = {**base, **(yaml.safe_load(path.read_text(encoding="utf-8")) or {})}
        experts = found["num_experts"] if found["num_experts"] > 1 else 0
        width = found["base_moe_mlp_dim"] if experts and found["base_moe_mlp_dim"] > 0 else found["base_mlp_dim"]
        networks[path.stem] = [
            found["base_num_decoder_layers"],
            found["base_emb_dim"],
            found["base_num_query_heads"],
            found["base_num_kv_heads"],
            width,
            experts,
            found["vocab_size"],
            float(found["rope_max_timescale"]),
        ]
    return {f"--{name}": choices.get(name) or None for name in sorted(base)}, networks


if __name__ == "__main__":
    name, version, target, *folders = sys.argv[1:]
    how = f"annotated fields of the {name} {version} wheel"
    names: dict[str, list[str] | None] = {}
    networks: dict[str, list[float]] = {}
    if name == "openrlhf":
        program = "openrlhf/cli/train_ppo_ray.py"
        how = f"{program} of the {version} wheel, read 2026-11-22"
        names = declared(next(Path(folders[0]).rglob(program)))
    elif name == "maxtext":
        (folder,) = (path.parent for path in Path(folders[0]).rglob("configs/base.yml"))
        how = f"configs of the maxtext {version} wheel"
        names, networks = maxtext(folder)
    else:
        names = {f"--{option}": None for option in options(name, [Path(folder) for folder in folders])}
        if name == "nemo":
            names["--mixed_precision"] = registered(next(Path(folders[0]).rglob("training/mixed_precision.py")))
    shapes = {name: " ".join(f"{value:.0f}" for value in built) for name, built in networks.items()}
    more = {"networks": shapes} if shapes else {}
    how = f"training_options.py: {how}"
    listing.write(target, engine=name, version=version, how=how, options=names, **more)
