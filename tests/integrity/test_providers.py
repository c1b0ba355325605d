"""Every provider: terms are texts or numbers, unknown is absent, and every row says where it is from."""

from datetime import date
from functools import cache

from tests.asked import Fields, told
from tests.shipped import table

FACTS = {row["provider"]: row for row in table("providers/providers.csv")}
COUNTRIES = {row["country"]: row for row in table("providers/countries.csv")}


@cache
def providers() -> dict[str, Fields]:
    return {row.provider: row for row in told("catalog", "providers").rows}


def test_all_forty_are_here_and_sourced() -> None:
    assert len(providers()) == 40 and providers().keys() == FACTS.keys()
    for provider in providers().values():
        assert provider.source
        assert provider.kind
        assert date.fromisoformat(provider.checked) <= date.today()
        assert provider.confidence.split()[0] in {"high", "medium", "low"}


def test_numbers_are_in_range() -> None:
    for provider in providers().values():
        assert provider.egress is None or 0 <= provider.egress <= 0.2
        assert provider.spot_notice is None or 0 <= provider.spot_notice <= 3600


def test_unknown_is_absent() -> None:
    for provider in providers().values():
        assert "unknown" not in provider.values()
        assert "" not in provider.values()
    assert providers()["vast"].egress is None
    assert providers()["lyceum"].spot is None


def test_a_notice_is_given_only_for_spot() -> None:
    for provider in providers().values():
        assert provider.spot_notice is None or provider.spot is True


def test_certifications_are_the_plain_yes_only() -> None:
    assert providers()["aws"].certified == "gdpr iso27001 soc2 hipaa"
    assert providers()["lambda"].certified == "iso27001 soc2"  # GDPR by contract, HIPAA on request
    assert FACTS["lambda"]["gdpr"] == "DPA"


def test_known_terms() -> None:
    aws, azure = providers()["aws"], providers()["azure"]
    assert (aws.egress, aws.spot_notice) == (0.09, 120)
    assert (azure.egress, azure.spot_notice) == (0.087, 30)


def test_countries_are_iso_and_the_union_has_27() -> None:
    assert sum(row["eu"] == "1" for row in COUNTRIES.values()) == 27
    assert sum(row["eea"] == "1" for row in COUNTRIES.values()) == 30
    assert COUNTRIES["CH"]["eea"] == COUNTRIES["GB"]["eu"] == "0"
    assert all(len(two) == 2 and len(row["iso3"]) == 3 for two, row in COUNTRIES.items())
    assert len({row["iso3"] for row in COUNTRIES.values()}) == len(COUNTRIES)
