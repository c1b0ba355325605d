"""SGLang's own parser: read scripts' arguments with it, or write its option list.

python sglang_options.py serve.sh ...        each script's `sglang.launch_server` arguments are parsed
python sglang_options.py --write FILE.json   option names and choices of the installed release
"""

import argparse
import importlib.metadata
import shlex
import sys
from pathlib import Path

import listing

# Names of the files beside this one would shadow packages.
sys.path.pop(0)

from sglang.srt.server_args import ServerArgs

START = "python3 -m sglang.launch_server"
HOW = "sglang_options.py: sglang.srt.server_args.ServerArgs.add_cli_args of the sglang"


def parser() -> argparse.ArgumentParser:
    """Of its server, without what it checks once there are accelerators."""
    made = argparse.ArgumentParser(allow_abbrev=False)
    ServerArgs.add_cli_args(made)
    return made


def read(path: str) -> None:
    """Parse every start of a script."""
    text = Path(path).read_text(encoding="utf-8").replace("\\\n", " ").replace("$NODE_RANK", "0")
    starts = [line.partition(START)[2] for line in text.splitlines() if START in line and not line.startswith("#")]
    assert starts, f"{path} starts no server"
    for words in starts:
        parsed = parser().parse_args(shlex.split(words))
        print(f"ok: {path}: tp {parsed.tp_size} kv {parsed.kv_cache_dtype} seqs {parsed.max_running_requests}")


if __name__ == "__main__":
    if sys.argv[1:2] == ["--write"]:
        version = importlib.metadata.version("sglang")
        options = dict(sorted(listing.of_parser(parser()).items()))
        listing.write(sys.argv[2], engine="SGLang", version=version, how=f"{HOW} {version} wheel", options=options)
    else:
        for script in sys.argv[1:]:
            read(script)
