"""What a request from the network may name: an upload that is there, and no file or folder of this machine."""

from pathlib import Path
from typing import Any

import pytest
from tests.catalog.hub.files import CONFIG

pytest.importorskip("litestar", reason="the web extra brings it")

from tonnage.errors import BadRequest, TonnageError
from tonnage.web.models import (
    MOST_UPLOADS,
    refuse_named_paths,
    store_model,
    store_text,
    with_uploaded_models,
)

PATHS = ("./a", "/etc/hostname", "a\\b", "a/..b", "own")
"""As a path looks, with a backslash, with two dots, and what lies here."""


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "own").mkdir()
    monkeypatch.chdir(tmp_path)


@pytest.mark.parametrize("name", PATHS)
@pytest.mark.parametrize("wrapped", [lambda name: {"model": name}, lambda name: {"ways": [{"model": name}]}])
def test_a_path_is_no_model(name: str, wrapped: Any, tmp_path: Path) -> None:
    with pytest.raises(BadRequest, match="is a path"):
        with_uploaded_models(wrapped(name), folder=tmp_path)
    with pytest.raises(BadRequest, match="is a path"):
        refuse_named_paths(wrapped(name))
    sound = wrapped("meta-llama/Llama-3.1-8B")
    assert with_uploaded_models(sound, folder=tmp_path) == sound
    refuse_named_paths(sound)


def test_a_log_of_this_machine_is_not_played(tmp_path: Path) -> None:
    for refuse in (refuse_named_paths, lambda value: with_uploaded_models(value, folder=tmp_path)):
        with pytest.raises(BadRequest, match="a file of this machine"):
            refuse({"traffic": [{"trace": "log.csv"}]})


@pytest.mark.parametrize("field", ["model", "file"])
def test_an_upload_is_one_of_this_server(field: str, tmp_path: Path) -> None:
    store_text("kept", folder=tmp_path)
    for name in ("upload:0123456789abcdef", "upload:../own", "upload:"):
        with pytest.raises(BadRequest, match="not kept here"):
            with_uploaded_models({field: name}, folder=tmp_path)


def test_uploads_come_back_and_have_an_end(tmp_path: Path) -> None:
    folder = tmp_path / "uploads"
    folder.mkdir()
    model, file = store_model(CONFIG, b"{}", folder=folder), store_text("a text", folder=folder)
    assert with_uploaded_models({"file": file}, folder=folder) == {"file": "a text"}
    assert with_uploaded_models({"model": model}, folder=folder)["model"].startswith(str(folder))
    with pytest.raises(TonnageError):
        store_model({"model_type": "llama"}, b"[]", folder=folder)
    for number in range(MOST_UPLOADS):
        (folder / f"{number}.txt").touch()
    for store in (lambda: store_model(CONFIG, b" ", folder=folder), lambda: store_text("more", folder=folder)):
        with pytest.raises(BadRequest, match="are kept already"):
            store()
    assert store_text("a text", folder=folder) == file
