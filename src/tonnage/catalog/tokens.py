"""
What do others charge for the tokens of a model? Prices of open-weight models behind APIs, by model.

Providers name models their own way ("accounts/fireworks/models/llama-v3p1-70b-instruct",
"meta.llama3-3-70b-instruct-v1:0"). What an API adds to a name is taken off, and what remains is looked up as any other
name is; a row whose name means no model of the catalogue is kept, and answers for none. The list is kept by a
community: the same provider may list a model twice, and some rows are of retired models. A tier in the name ("turbo",
"fast") may be another weight format of the same model, which the list does not say.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from functools import cache, lru_cache
from typing import Final

import msgspec

from tonnage.catalog.additions import NOTHING, Additions
from tonnage.catalog.models import identify, keys_of, look_up
from tonnage.catalog.rows import DATA, Row, number, table
from tonnage.domain.money import TokenPrice
from tonnage.errors import BadFact

FOLDER: Final = DATA / "tokens"

_AMOUNTS: Final = (
    "input_usd_per_million_tokens",
    "cached_input_usd_per_million_tokens",
    "output_usd_per_million_tokens",
    "usd_per_audio_s",
    "usd_per_image",
)

_VENDORS: Final = "meta|mistral|google|openai|qwen|deepseek|minimax|moonshotai|nvidia|zai|cohere|ai21|stability|writer"
_TAKEN_OFF: Final = tuple(
    re.compile(pattern)
    for pattern in (
        r"^(?:us|eu|apac|au|jp|global)\.",  # regions of Bedrock
        rf"^(?:{_VENDORS})\.",  # its vendors
        r"^(?:databricks|snowflake|fw|coding|cc)-",  # a provider in front of the name
        r"-v?\d+:\d+$",  # revisions of Bedrock
        r"-maas$",
        r"@\d{3,4}(?:-\d+)?$",  # revisions of Vertex
        r"-(?:turbo|fast|instant|versatile|highspeed|lightning|lite|tput|community|tee)$",  # tiers of service
        r"-\d{3,4}k$",  # a stated context
    )
)


def token_prices(model: str, additions: Additions = NOTHING) -> tuple[TokenPrice, ...]:
    """
    What providers charge for a model, the cheapest output first; trusted rows before those that nothing backs.

    Parameters
    ----------
    model : str
        Any name of a model of the catalogue; a weight format in it selects nothing.
    additions : Additions
        The user's own models.

    Raises
    ------
    UnknownName
        No such model.

    Examples
    --------
    >>> cheapest = token_prices("meta-llama/Llama-3.3-70B-Instruct")[0]
    >>> cheapest.model, cheapest.trusted, cheapest.output_usd_per_million_tokens < 1
    ('meta-llama/Llama-3.3-70B-Instruct', True, True)
    """
    return _prices_of(identify(model, additions))


@lru_cache(maxsize=64)
def _prices_of(id: str) -> tuple[TokenPrice, ...]:
    return tuple(sorted(_once_each(price for price in _read(_rows_that_may_mean(id)) if price.model == id), key=_order))


@cache
def all_token_prices() -> tuple[TokenPrice, ...]:
    """Every row in the order of the file; `model` is empty where the name means no model of the catalogue."""
    return _read(table(FOLDER / "prices.csv"))


def _rows_that_may_mean(id: str) -> Iterator[Row]:
    """
    Rows in whose names the letters and digits of one of a model's keys follow in their order, all others left out.

    Reading a name takes much longer than this, and most names are of other models. Nothing is lost: what is taken off a
    name, or spelt in another way, are whole words and punctuation.
    """
    keys = {re.sub(r"[^a-z0-9]", "", key.lower()) for key in keys_of(id)}
    may_mean = re.compile("|".join("".join(f"[^{sign}]*{sign}" for sign in key) for key in sorted(keys) if key))
    return (row for row in table(FOLDER / "prices.csv") if may_mean.match(row["name"].lower()))


def _read(rows: Iterable[Row]) -> tuple[TokenPrice, ...]:
    """
    Rows as prices, with the page that each is from and the doubt that is noted of it; one listed twice is refused.
    """
    pages = {row["page"]: row["address"] for row in table(FOLDER / "pages.csv")}
    doubts = {(row["provider"], row["name"]): row["why"] for row in table(FOLDER / "doubts.csv")}
    (source,) = table(FOLDER / "sources.csv")
    seen: set[tuple[str, str]] = set()
    found = []
    for row in rows:
        key = row["provider"], row["name"]
        if key in seen:
            raise BadFact(f"prices.csv: '{row['name']}' of {row['provider']} is listed twice")
        seen.add(key)
        found.append(_from_row(row, pages, doubt=doubts.get(key, ""), source=source))
    return tuple(found)


def plain_name(name: str, provider: str) -> str:
    """
    A provider's name without what its API adds to it.

    Examples
    --------
    >>> plain_name("fireworks_ai/accounts/fireworks/models/llama-v3p1-70b-instruct", "fireworks_ai")
    'llama-3.1-70b-instruct'
    >>> plain_name("us.meta.llama3-3-70b-instruct-v1:0", "bedrock_converse")
    'llama3-3-70b-instruct'
    """
    last = name.removeprefix(f"{provider}/").rpartition("/")[2].lower()
    last = re.sub(r"(?:^|(?<=[a-z]\.))deepseek\.(?=[vr]\d)", "deepseek-", last)  # the vendor is part of the name
    shorter = None
    while shorter != last:
        shorter, last = last, _take_off(last)
    last = re.sub(r"(?<=\d)p(?=\d)", ".", last)  # Fireworks writes 3.1 as 3p1
    return re.sub(r"^(llama|qwen|gemma|mixtral)-v(?=\d)", r"\1-", last)


def _take_off(name: str) -> str:
    for pattern in _TAKEN_OFF:
        name = pattern.sub("", name)
    return name


@lru_cache(maxsize=4096)
def _meant(name: str) -> str:
    """
    Id of the model that a plain name means, as written or with its first "3-1" read as "3.1"; empty = none.

    "latest" is another model each season, so it means none.
    """
    if name.endswith("latest"):
        return ""
    for spelt in dict.fromkeys((name, re.sub(r"(?<=[a-z-])(\d)-(\d)(?=-|$)", r"\1.\2", name, count=1))):
        found = look_up(spelt)
        if found is not None:
            return found
    return ""


def _once_each(prices: Iterable[TokenPrice]) -> Iterator[TokenPrice]:
    """Prices of one model without rows that repeat another of the same provider."""
    seen: set[tuple[object, ...]] = set()
    for price in sorted(prices, key=lambda price: not price.trusted):
        key = (price.provider, *(getattr(price, amount) for amount in _AMOUNTS))
        if key not in seen:
            yield price
        seen.add(key)


def _order(price: TokenPrice) -> tuple[bool, float, float, str, str]:
    """By trust, then by the price of output and of input, those without one last."""
    output, given = price.output_usd_per_million_tokens, price.input_usd_per_million_tokens
    far = float("inf")
    return (
        not price.trusted,
        far if output is None else output,
        far if given is None else given,
        price.provider,
        price.name,
    )


def _from_row(row: Row, pages: Mapping[str, str], *, doubt: str, source: Row) -> TokenPrice:
    """One row as prices; refused without any price, with one below zero, or from an unlisted page."""
    amounts = {amount: number(row, amount) for amount in _AMOUNTS}
    for amount, value in amounts.items():
        if value is not None and value < 0:
            raise BadFact(f"prices.csv, {row['name']}: {amount} is '{row[amount]}', but a price is expected")
    if all(value is None for value in amounts.values()):
        raise BadFact(f"prices.csv, {row['name']}: no price; leave the row out")
    if row["page"] and row["page"] not in pages:
        raise BadFact(f"prices.csv, {row['name']}: page '{row['page']}' is not in pages.csv")
    found = TokenPrice(
        provider=row["provider"],
        name=row["name"],
        model=_meant(plain_name(row["name"], row["provider"])),
        mode=row["mode"],
        max_input_tokens=number(row, "max_input_tokens"),
        page=pages.get(row["page"], ""),
        doubt=doubt,
        as_of=source["as_of"],
        source=source["text"],
    )
    return msgspec.structs.replace(found, **amounts)
