"""Prices from a server that behaves, fails, lies and changes: what is known is never lost."""

import io
import os
import sys
import threading
import zipfile
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

gpuhunt = pytest.importorskip("gpuhunt", reason="the prices extra brings it")

from gpuhunt._internal.storage import CATALOG_V2_FIELDS  # noqa: E402
from tests.asked import Fields, Refused, printed, told  # noqa: E402

AWS = ("p5.48xlarge", "us-east-1", "H100", 8, 80, "nvidia")


def row(
    instance: str = AWS[0], region: str = AWS[1], *, price: float = 50.0, spot: bool = False, **changes: Any
) -> str:
    told = {
        "instance_name": instance,
        "location": region,
        "price": price,
        "cpu": 192,
        "memory": 2048,
        "gpu_count": AWS[3],
        "gpu_name": AWS[2],
        "gpu_memory": AWS[4],
        "spot": spot,
        "disk_size": "",
        "gpu_vendor": AWS[5],
        "flags": "",
        "cpu_arch": "x86",
        "provider_data": "{}",
        **changes,
    }
    return ",".join(str(told[name]) for name in CATALOG_V2_FIELDS)


def packed(provider: str, *rows: str) -> bytes:
    data = io.BytesIO()
    with zipfile.ZipFile(data, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr(f"{provider}.csv", "\n".join([",".join(CATALOG_V2_FIELDS), *rows]) + "\n")
    return data.getvalue()


@pytest.fixture
def served(monkeypatch: pytest.MonkeyPatch) -> Iterator[dict[str, bytes]]:
    """Files of a server that stands where gpuhunt's catalogue is; what is not there is 404."""
    files: dict[str, bytes] = {}

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            body = files.get(self.path)
            self.send_response(404 if body is None else 200)
            self.end_headers()
            self.wfile.write(body or b"")

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    monkeypatch.setenv("GPUHUNT_CATALOG_URL", f"http://127.0.0.1:{server.server_port}")
    yield files
    server.shutdown()


@pytest.fixture
def own_folder() -> Path:
    return Path(os.environ["XDG_DATA_HOME"]) / "tonnage" / "prices"


def refresh(*providers: str) -> dict[str, Fields]:
    """What came of each provider."""
    return {one.provider: one for one in told("catalog", "refresh", *providers).refreshed}


def offers() -> list[Fields]:
    found: list[Fields] = told("catalog", "offers", "--history", "--limit", "0").rows
    return found


def publish(files: dict[str, bytes], provider: str, *rows: str, version: str = "20261120-71") -> None:
    files[f"/{provider}/version"] = version.encode()
    files[f"/{provider}/{version}/catalog.zip"] = packed(provider, *rows)


def hourly() -> Fields:
    """The offer of AWS with its prices by term."""
    asked = ("aws", AWS[0], AWS[1], None)
    (one,) = (o for o in offers() if (o.provider, o.instance_type, o.region, o.history or None) == asked)
    return one


def test_fetched_prices_take_the_place_of_shipped_ones_and_other_terms_stay(served: dict[str, bytes]) -> None:
    before = hourly()
    publish(served, "aws", row(price=before.on_demand * 0.9), row(price=11.0, spot=True))
    one = refresh("aws")["aws"]
    after = hourly()
    assert (one.kept, one.as_of, one.moved) == (1, "2026-11-20", pytest.approx(0.9, rel=1e-4))
    assert after.on_demand == pytest.approx(before.on_demand * 0.9, rel=1e-4) and after.spot == 11.0
    assert (before.reserved_1y, before.reserved_3y) == (after.reserved_1y, after.reserved_3y)
    assert all(offer.as_of == "2026-11-20" for offer in offers() if "gpuhunt catalogue" in offer.source)
    assert any(offer.provider == "gcp" and "gpuhunt catalogue" not in offer.source for offer in offers())


def test_one_provider_that_fails_keeps_what_it_had_and_says_so(served: dict[str, bytes]) -> None:
    publish(served, "aws", row(price=55.0))
    publish(served, "lambdalabs", row("gpu_8x_h100", "us-west-1", price=24.0))
    assert refresh("lambdalabs")["lambda"].kept == refresh("lambda")["lambda"].kept == 1
    found = refresh()
    assert found["aws"].kept == 1 and not found["azure"].kept and "fetched" in found["azure"].why


@pytest.mark.parametrize(
    ("rows", "why"),
    [
        ([row(price=0.0), row(price=9e9)], "outside"),
        ([row(price="nan"), row(price=50.0, gpu_count=10**400), row(gpu_count=-8)], "3 of 3 prices are outside"),
        ([row(price=AWS[3] * 150.0)], "times those known"),
        ([row("x.large", gpu_name="H9000", gpu_memory=7)], "none of its instances"),
        ([row("p5\u202e.48xlarge")], r"holds the character U\+202E"),
        (["not,a,row"], "none of its instances"),
        ([], "none of its instances"),
    ],
)
def test_prices_that_look_wrong_replace_nothing(served: dict[str, bytes], rows: list[str], why: str) -> None:
    before = offers()
    publish(served, "aws", *rows)
    with pytest.raises(Refused, match=why):
        refresh("aws")
    assert offers() == before


@pytest.mark.parametrize(
    ("version", "archive", "why"),
    [
        (b"20261120-1", b"no archive", "no table of prices"),
        (b"20261120-1", packed("azure", row()), "no table of prices"),
        (b"20261120-1", packed("aws", "x" * 20_000), "its table has more than 10000 bytes"),
        (b"20261120-1", b"x" * 10_000, "sends more than 9000 bytes"),
        (b"9" * 101, b"", "sends more than 100 bytes"),
        (b"../up", b"", "'../up' is no version of prices"),
        (b"", b"", "'' is no version of prices"),
    ],
)
def test_what_is_no_table_replaces_nothing(
    served: dict[str, bytes], monkeypatch: pytest.MonkeyPatch, version: bytes, archive: bytes, why: str
) -> None:
    monkeypatch.setattr("tonnage.catalog.refresh.MAX_ZIP_BYTES", 9_000)
    monkeypatch.setattr("tonnage.catalog.refresh.MAX_CSV_BYTES", 10_000)
    served["/aws/version"] = version
    served[f"/aws/{version.decode()}/catalog.zip"] = archive
    with pytest.raises(Refused, match="those known stay: aws: ") as caught:
        refresh("aws")
    assert why in str(caught.value)


def test_no_server_replaces_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    before = offers()
    monkeypatch.setenv("GPUHUNT_CATALOG_URL", "http://127.0.0.1:9")
    with pytest.raises(Refused, match="could not be fetched"):
        refresh("aws")
    monkeypatch.setitem(sys.modules, "gpuhunt", None)
    with pytest.raises(Refused, match=r"pip install 'tonnage\[prices\]'"):
        refresh("aws")
    assert offers() == before


def test_rolling_back_and_dropping(served: dict[str, bytes]) -> None:
    shipped = offers()
    for version, price in (("20261119-1", 50.0), ("20261120-1", 60.0)):
        publish(served, "aws", row(price=price), version=version)
        refresh("aws")
    assert hourly().on_demand == 60.0
    assert "the prices before hold again for aws" in printed("catalog", "refresh", "--rollback")[0]
    assert hourly().on_demand == 50.0
    assert "no provider" in printed("catalog", "refresh", "--rollback")[0]
    assert "the shipped prices hold again for aws" in printed("catalog", "refresh", "aws", "--drop")[0]
    assert offers() == shipped


def test_a_file_that_was_changed_by_others_counts_as_absent(served: dict[str, bytes], own_folder: Path) -> None:
    shipped = offers()
    publish(served, "aws", row(price=50.0))
    refresh("aws")
    (path,) = own_folder.glob("aws-*.csv")
    path.write_text(path.read_text(encoding="utf-8").replace("50", "5"), encoding="utf-8")
    assert [o for o in offers() if o.provider == "aws"] == [o for o in shipped if o.provider == "aws"]
    (own_folder / "index.json").write_text("[" * 9, encoding="utf-8")
    assert offers() == shipped


def test_a_wrong_name_is_told_and_the_command_prints_what_it_did(served: dict[str, bytes]) -> None:
    with pytest.raises(Refused, match="aws"):
        refresh("awz")
    publish(served, "aws", row(price=50.0), row("x.large", gpu_name="H9000", gpu_memory=7))
    shown, _ = printed("catalog", "refresh", "aws")
    assert "1 prices" in shown and "1 instances with unknown" in shown


def test_a_folder_that_cannot_be_written_is_one_sentence(served: dict[str, bytes], own_folder: Path) -> None:
    own_folder.parent.mkdir(parents=True)
    own_folder.write_text("a file stands here", encoding="utf-8")
    publish(served, "aws", row(price=50.0))
    with pytest.raises(Refused, match="cannot be kept"):
        refresh("aws")
