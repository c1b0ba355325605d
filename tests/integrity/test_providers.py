"""Every provider: terms are texts or numbers, unknown is absent, and every row says where it is from."""

from datetime import date

from tonnage import catalog
from tonnage.catalog.providers import CERTIFICATIONS


def test_all_forty_are_here_and_sourced() -> None:
    providers = catalog.providers()
    assert len(providers) == 40
    for provider in providers.values():
        assert provider.source
        assert provider.kind
        assert date.fromisoformat(provider.facts["checked"]) <= date.today()
        assert provider.facts["confidence"].split()[0] in {"high", "medium", "low"}


def test_numbers_are_in_range() -> None:
    for provider in catalog.providers().values():
        assert provider.egress_usd_per_gb is None or 0 <= provider.egress_usd_per_gb <= 0.2
        assert provider.spot_notice_s is None or 0 <= provider.spot_notice_s <= 3600


def test_unknown_is_absent() -> None:
    for provider in catalog.providers().values():
        assert "unknown" not in provider.facts.values()
        assert "" not in provider.facts.values()
    assert catalog.providers()["vast"].egress_usd_per_gb is None
    assert catalog.providers()["lyceum"].spot_offered is None


def test_a_notice_is_given_only_for_spot() -> None:
    for provider in catalog.providers().values():
        assert provider.spot_notice_s is None or provider.spot_offered is True


def test_certifications_are_the_plain_yes_only() -> None:
    providers = catalog.providers()
    assert providers["aws"].certifications == CERTIFICATIONS
    assert providers["lambda"].certifications == ("iso27001", "soc2")  # GDPR by contract, HIPAA on request
    assert providers["lambda"].facts["gdpr"] == "DPA"


def test_known_terms() -> None:
    aws, azure = catalog.providers()["aws"], catalog.providers()["azure"]
    assert (aws.egress_usd_per_gb, aws.spot_notice_s) == (0.09, 120)
    assert (azure.egress_usd_per_gb, azure.spot_notice_s) == (0.087, 30)


def test_countries_are_iso_and_the_union_has_27() -> None:
    countries = catalog.countries()
    assert sum(country.eu for country in countries.values()) == 27
    assert sum(country.eea for country in countries.values()) == 30
    assert not countries["CH"].eea
    assert not countries["GB"].eu
    assert all(len(two) == 2 and len(country.iso3) == 3 for two, country in countries.items())
    assert len({country.iso3 for country in countries.values()}) == len(countries)
