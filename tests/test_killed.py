"""Every store, killed before each of its file operations: what is read is the old or the new, and it works again."""

import contextlib
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from tools.data_release import archive_bytes, pack, public_key, sign

from tonnage.catalog import rows
from tonnage.catalog.additions import save_calibration
from tonnage.catalog.offers import COLUMNS, index_entries, keep_prices, snapshots
from tonnage.data import archive, update
from tonnage.domain.calibration import Calibration, Stretch

SEED = bytes(range(32))
EVENTS = {"open", "os.mkdir", "os.rename", "os.remove", "os.rmdir", "os.link", "os.symlink", "shutil.rmtree"}
TABLE = "prices/rates.csv"


class Killed(BaseException):
    """Nothing after it reaches a file."""


class _Dying:
    """The interpreter's own account of file operations below a folder, which from one of them on refuses them all."""

    def __init__(self) -> None:
        self.below, self.left, self.hooked = "", 0, False

    def hear(self, event: str, given: tuple[Any, ...]) -> None:
        if not self.below or event not in EVENTS or not str(given[0]).startswith(self.below):
            return
        self.left -= 1
        if self.left < 0:
            raise Killed

    @contextlib.contextmanager
    def after(self, operations: int, *, below: Path) -> Iterator[None]:
        if not self.hooked:
            sys.addaudithook(self.hear)
            self.hooked = True
        self.below, self.left = str(below), operations
        try:
            yield
        finally:
            self.below = ""


DYING = _Dying()


class Store(NamedTuple):
    """Something kept in a folder."""

    put: Callable[[Path, int], object]
    """Keep the first or the second content."""
    get: Callable[[Path], object]
    """What a reader finds: 1, 2, or None where nothing was kept yet."""


def _release(folder: Path, number: int) -> Path:
    text = f"a,b\n1,{number}\n".encode()
    manifest, members = pack("2099.01.01", {TABLE: text}, needs="0.1.0", before="")
    file = folder.parent / f"{number}.zip"
    file.write_bytes(archive_bytes(members, sign(SEED, manifest)))
    return file


def _installed(folder: Path) -> object:
    if "2099.01.01" not in rows.installed_versions():
        return None
    assert not archive.checked_release("2099.01.01", keys=[public_key(SEED)])
    return int((rows.folder_in("2099.01.01") / TABLE).read_text(encoding="utf-8").split(",")[-1])


def _priced(folder: Path) -> object:
    found = index_entries(folder).get("aws")
    if found is None:
        return None
    text = (folder / found["file"]).read_text(encoding="utf-8")
    return int(text.splitlines()[1].split(",")[0].removeprefix("row"))


def _keep_prices(folder: Path, number: int) -> object:
    row = {column: f"row{number}" if column == COLUMNS[0] else "" for column in COLUMNS}
    return keep_prices("aws", [row], as_of="2026-11-01", folder=folder)


def _calibration(folder: Path, number: int) -> object:
    made = Calibration(accelerator="h100-sxm5-80gb", engine="vllm", stretch=Stretch(), points=number)
    return save_calibration(made, folder / "c.toml")


def _calibrated(folder: Path) -> object:
    file = folder / "c.toml"
    if not file.exists():
        return None
    return int(file.read_text(encoding="utf-8").partition("points = ")[2].split()[0])


def _pin(_: Path, number: int) -> object:
    return update.pin({1: rows.SHIPPED, 2: rows.shipped_version()}[number])


STORES = {
    "data": Store(lambda folder, n: archive.install(_release(folder, n), keys=[public_key(SEED)]), _installed),
    "pin": Store(_pin, lambda _: {None: None, rows.SHIPPED: 1, rows.shipped_version(): 2}[rows.pinned_version()]),
    "prices": Store(_keep_prices, _priced),
    "calibration": Store(_calibration, _calibrated),
}


@pytest.mark.parametrize("before", [None, 1], ids=["nothing", "something"])
@pytest.mark.parametrize("name", STORES)
def test_a_kill_between_any_two_file_operations_leaves_the_old_or_the_new(
    name: str, before: int | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    put, get = STORES[name]
    kills = 0
    while True:
        folder = tmp_path / f"{kills}" / "store"
        folder.mkdir(parents=True)
        monkeypatch.setenv("TONNAGE_DATA_FOLDER", str(folder))
        if before is not None:
            put(folder, before)
        try:
            with DYING.after(kills, below=folder):
                put(folder, 2)
        except Killed:
            assert get(folder) in (before, 2), f"killed before operation {kills + 1}"
            put(folder, 2)
            assert get(folder) == 2
            kills += 1
            continue
        assert get(folder) == 2 and kills >= 3
        return


WRITER = """
import sys
from pathlib import Path
from tests.test_killed import COLUMNS
from tonnage.catalog.offers import drop, keep_prices
for number in range(30):
    row = {column: "1" for column in COLUMNS}
    keep_prices(f"{sys.argv[2]}{number}", [row], as_of="2026-11-01", folder=Path(sys.argv[1]))
drop([f"{sys.argv[2]}0"], folder=Path(sys.argv[1]))
"""


def test_two_programs_that_keep_prices_at_once_lose_none(tmp_path: Path) -> None:
    both = [subprocess.Popen([sys.executable, "-c", WRITER, tmp_path, name], stderr=subprocess.PIPE) for name in "ab"]
    said = [one.communicate()[1] for one in both]
    assert not any(one.returncode for one in both), said
    assert {found.provider for found in snapshots(tmp_path)} == {f"{a}{n}" for a in "ab" for n in range(1, 30)}
