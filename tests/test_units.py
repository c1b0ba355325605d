"""Human quantities in, base units inside, human quantities out."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tonnage.errors import UnitError
from tonnage.units import DIMENSIONS, read, show


@pytest.mark.parametrize(
    ("text", "dimension", "value"),
    [
        ("80 GB", "bytes", 80e9),
        ("80GiB", "bytes", 80 * 2**30),
        ("3.35 TB/s", "bytes/s", 3.35e12),
        ("400 Gbit/s", "bytes/s", 50e9),
        ("400Gbps", "bytes/s", 50e9),
        ("500 ms", "s", 0.5),
        ("3 days", "s", 259200.0),
        ("989 TFLOP/s", "FLOP/s", 989e12),
        ("989 TFLOPS", "FLOP/s", 989e12),
        ("4/s", "1/s", 4.0),
        ("240/min", "1/s", 4.0),
        ("4 req/s", "1/s", 4.0),
        ("$2.10/h", "USD/h", 2.1),
        ("$730/month", "USD/h", 1.0),
        ("100B tokens", "tokens", 100e9),
        ("4096", "tokens", 4096.0),
        ("70 %", "fraction", 0.7),
        ("0.7", "fraction", 0.7),
        ("1,000", "count", 1000.0),
        (8, "count", 8.0),
        ("3 b", "tokens", 3e9),
        ("8.192k", "tokens", 8192.0),
        ("8.192 tokens", "tokens", 8.192),
        (8.192, "tokens", 8.192),
        ("300 per minute", "1/s", 5.0),
        ("0.5 seconds", "s", 0.5),
        ("8 hrs", "s", 28800.0),
        ("<= 1 s", "s", 1.0),
        ("60 percent", "fraction", 0.6),
        ("50 million", "count", 5e7),
        ("1.5 trillion", "tokens", 1.5e12),
        ("1 000 000", "count", 1e6),
        ("64 GPUs", "count", 64.0),
        ("$5k/month", "USD/h", 5000.0 / 730.0),
        ("2 dollars an hour", "USD/h", 2.0),
    ],
)
def test_reads_what_people_write(text: str | float, dimension: str, value: float) -> None:
    assert read(text, dimension) == pytest.approx(value, rel=1e-12)


@pytest.mark.parametrize(
    ("text", "dimension", "told"),
    [
        ("80", "bytes", "no unit"),
        ("80 s", "bytes", "is s, but bytes is expected"),
        ("80 GBB", "bytes", "did you mean"),
        ("fast", "s", "not a quantity"),
        ("", "s", "not a quantity"),
        ("nan s", "s", "not a quantity"),
        ("1e999 s", "s", "not a finite"),
        ("€5", "USD", "euro"),
        ("$5", "s", "is money"),
        ("30 tokens/s", "s", "is a rate, but a time is expected: write '33.3 ms' a token"),
        ("30 tokens per second", "s", "write '33.3 ms' a token"),
        ("0 tok/s", "s", "is tokens/s, but s is expected"),
        ("9" * 500 + " s", "s", "not a quantity"),
        (True, "count", "not a quantity"),
    ],
)
def test_refuses_with_the_field_and_an_example(text: str | float, dimension: str, told: str) -> None:
    with pytest.raises(UnitError, match=told) as caught:
        read(text, dimension, field="memory")
    assert str(caught.value).startswith("memory: ")
    assert len(str(caught.value)) < 300


@given(
    st.floats(1e-6, 1e17, allow_nan=False), st.sampled_from(["bytes", "bytes/s", "s", "FLOP/s", "1/s", "W", "tokens"])
)
def test_what_is_shown_reads_back(value: float, dimension: str) -> None:
    shown = show(value, dimension, digits=6).replace(",", "")  # a lone comma, "1,020 TiB", is not taken back
    assert math.isclose(read(shown, dimension), value, rel_tol=1e-3, abs_tol=1e-6)


@given(st.text(max_size=80), st.sampled_from(sorted(DIMENSIONS)))
def test_any_text_is_a_number_or_one_sentence(text: str, dimension: str) -> None:
    try:
        assert math.isfinite(read(text, dimension))
    except UnitError as error:
        assert "\n" not in str(error)


@pytest.mark.parametrize("text", ["€2/h", "2 EUR/h", "£2/h", "200 CHF/h", "¥300/h"])
def test_other_currencies_are_named_and_refused(text: str) -> None:
    with pytest.raises(UnitError, match=r"rent: .* is in (euro|pounds|francs|yen); prices here are in USD"):
        read(text, "USD/h", field="rent")


def test_the_dollar_may_stand_before_or_behind() -> None:
    assert read("$2.10/h", "USD/h") == read("2.10 $/h", "USD/h") == read("2.10 USD/h", "USD/h") == 2.1


@pytest.mark.parametrize("text", ["2020-01-01", "2030-1-1 08:00"])
def test_a_date_is_no_length_of_time(text: str) -> None:
    with pytest.raises(UnitError, match="is a date; write how long from now"):
        read(text, "s", field="deadline")


@pytest.mark.parametrize("text", ["yesterday", "8", "8 moons"])
def test_the_example_holds_for_short_times_and_long_ones(text: str) -> None:
    with pytest.raises(UnitError, match=r"^deadline: .* for example '500 ms or 8 h'"):
        read(text, "s", field="deadline")


def test_one_day_is_no_days() -> None:
    assert [show(n * 86400.0, "s") for n in (1, 1.5, 365)] == ["1 day", "1.5 days", "1 year"]


def test_little_money_is_written_out() -> None:
    assert [show(usd, "USD") for usd in (8.333e-05, 0.004747, 0.0, 0.31)] == ["$0.00008333", "$0.004747", "$0", "$0.31"]


@pytest.mark.parametrize(
    ("text", "dimension", "told"),
    [
        ("0,5 s", "s", "decimal comma; write '0.5 s'"),
        ("2,50 $/h", "USD/h", "decimal comma; write '2.50 "),
        ("$2,5/h", "USD/h", "decimal comma"),
        ("1,2,3/s", "1/s", "no one number"),
        ("1,000,00/s", "1/s", "no one number"),
        ("0,500 s", "s", "decimal comma"),
        (",5 s", "s", "not a quantity"),
        ("1,500 ms", "s", "may be 1500 or 1.500"),
        ("1,200/s", "1/s", "may be 1200 or 1.200"),
        ("1,500M tokens", "tokens", "may be 1500 or 1.500"),
        ("$2,499/h", "USD/h", "may be 2499 or 2.499"),
        ("1.000,5 s", "s", "part decimals by a point"),
        ("1.000.000", "tokens", "part decimals by a point"),
        ("70,5 %", "fraction", "decimal comma; write '70.5 %'"),
        ("0,7", "fraction", "decimal comma; write '0.7'"),
        ("1_5 s", "s", "between thousands"),
        ("0_5 s", "s", "between thousands"),
        ("400 Gb/s", "bytes/s", "'GB/s' for bytes or 'Gbit/s' for bits"),
        ("400 Mb/s", "bytes/s", "'MB/s' for bytes or 'Mbit/s' for bits"),
        ("400 gb/s", "bytes/s", "bits or bytes"),
        ("400 gb per s", "bytes/s", "not known|bits or bytes"),
        ("400 b/s", "bytes/s", "'B/s' for bytes or 'bit/s' for bits"),
        ("400 b", "bytes", "may be bits or bytes; write 'B' for bytes"),
        ("8.192", "tokens", "may be 8192 or 8.192 tokens"),
        ("80 Gb", "bytes", "may be bits or bytes; write 'GB' for bytes"),
        ("80 Gib", "bytes", "may be bits or bytes; write 'GiB' for bytes"),
        ("5 Ms", "s", "not known: .*write '5 ms'"),
        ("4 m/s", "1/s", "'4/min' or '4 M/s'"),
        ("4 m/h", "1/s", "'4/h' or '4/min' or '4 M/h'"),
        ("4/m", "1/s", "did you mean '/min'"),
        ("4 rpm", "1/s", "did you mean '/min'"),
        ("10m", "s", "did you mean 'min'"),
        ("2 mw", "W", "'2 mW' or '2 MW'"),
        ("12 mwh", "Wh", "'12 MWh'"),
        ("$120/mWh", "USD/kWh", "'.120/MWh'"),
        ("4 rps/h", "1/s", "not known"),
        ("DDR4-3200", "bytes/s", "25.6 GB/s a channel; with two write '51.2 GB/s'"),
    ],
)
def test_what_two_readers_take_for_two_values_is_refused(text: str, dimension: str, told: str) -> None:
    with pytest.raises(UnitError, match=told) as caught:
        read(text, dimension, field="memory")
    assert str(caught.value).startswith("memory: ") and "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("text", "dimension", "value"),
    [
        ("1,000,000", "tokens", 1e6),
        ("1,000,000 ms", "s", 1000.0),
        ("1,234.5 GB", "bytes", 1234.5e9),
        ("1_000_000", "count", 1e6),
        ("1_500 tokens", "tokens", 1500.0),
        ("$5,000", "USD", 5000.0),
        ("$3,000/month", "USD/h", 3000.0 / 730.0),
        ("5,000 USD/month", "USD/h", 5000.0 / 730.0),
        ("1,200/min", "1/s", 20.0),
        ("1,000 users", "count", 1000.0),
        ("5,000 USD", "USD", 5000.0),
        ("8,000 tokens", "tokens", 8000.0),
        ("80 gb", "bytes", 80e9),
        ("4 rps", "1/s", 4.0),
        ("100 gbit/s", "bytes/s", 12.5e9),
        ("10m tokens", "tokens", 1e7),
        ("$5m", "USD", 5e6),
        ("5 Minutes", "s", 300.0),
    ],
)
def test_what_can_only_be_thousands_is_read(text: str, dimension: str, value: float) -> None:
    assert read(text, dimension) == pytest.approx(value, rel=1e-12)


@given(st.integers(0, 999), st.integers(0, 99), st.sampled_from(["s", "bytes", "USD/h", "1/s", "tokens", "USD", "W"]))
def test_no_decimal_comma_is_read_as_thousands(whole: int, part: int, dimension: str) -> None:
    unit = {"s": "s", "bytes": "GB", "USD/h": "/h", "1/s": "/s", "W": "W"}.get(dimension, "")
    with pytest.raises(UnitError):
        read(f"{whole},{part:02d}{unit}", dimension)
