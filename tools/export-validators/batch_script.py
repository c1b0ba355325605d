"""Read Slurm's scripts: their shell by bash, their #SBATCH options by the list of sbatch's manual."""

import re
import subprocess
import sys
from pathlib import Path

# slurm.schedmd.com/sbatch.html of 24.05, read 2026-11-23: the long options that exported scripts use.
OPTIONS = {
    "array", "comment", "constraint", "cpus-per-task", "error", "exclusive", "gpus-per-node", "gres", "job-name", "mem",
    "nodes", "ntasks", "ntasks-per-node", "open-mode", "output", "partition", "requeue", "signal", "time",
}  # fmt: skip

for path in sys.argv[1:]:
    subprocess.run(["bash", "-n", path], check=True)
    asked = re.findall(r"^#SBATCH --([\w-]+)", Path(path).read_text(encoding="utf-8"), re.MULTILINE)
    if unknown := set(asked) - OPTIONS or not asked:
        sys.exit(f"{path}: sbatch has no option {unknown}")
    print(f"ok: {path}: {len(asked)} options")
