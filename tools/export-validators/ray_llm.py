"""Read Ray Serve's files with its own schema and each model with Ray's, and build a Ray Data script's processor."""

import runpy
import sys
import tempfile
from pathlib import Path
from unittest.mock import patch

# Names of the files beside this one would shadow packages.
sys.path.pop(0)

import ray.data.llm
import yaml
from ray.serve.llm import LLMConfig
from ray.serve.schema import ServeDeploySchema


def read_serve(path: Path) -> None:
    """A configuration of Ray Serve: its schema, and every model's."""
    document = yaml.safe_load(path.read_text(encoding="utf-8"))
    (application,) = ServeDeploySchema(**document).applications
    for given in application.args["llm_configs"]:
        model = LLMConfig(**given)
        replicas = model.deployment_config["autoscaling_config"]
        assert model.engine_kwargs == given["engine_kwargs"], path
        print(
            f"ok: {path}: {replicas['min_replicas']} replicas, {len(model.engine_kwargs)} engine arguments", flush=True
        )


def read_data(path: Path) -> None:
    """A script of Ray Data: run up to its processor, which needs accelerators and is left out."""
    built, made = [], ray.data.llm.build_processor

    def recorded(config, **stages):
        built.append(config)
        made(config, **stages)
        return lambda rows: rows

    with tempfile.TemporaryDirectory() as folder, patch.object(ray.data.llm, "build_processor", recorded):
        source, answers = Path(folder) / "in.jsonl", Path(folder) / "out"
        source.write_text('{"id": 1, "messages": [{"role": "user", "content": "How many?"}]}\n', encoding="utf-8")
        with patch.dict("os.environ", {"INPUT": str(source), "OUTPUT": str(answers)}):
            runpy.run_path(str(path), run_name="__main__")
        rows = sum(len(part.read_text(encoding="utf-8").splitlines()) for part in answers.iterdir())
    (config,) = built
    assert rows == 1 and config.engine_kwargs["max_num_seqs"] > 1, path
    print(
        f"ok: {path}: {config.concurrency} replicas of {config.model_source}, {rows} row read and written", flush=True
    )


if __name__ == "__main__":
    for given in map(Path, sys.argv[1:]):
        (read_data if given.suffix == ".py" else read_serve)(given)
