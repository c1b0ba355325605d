"""Fast domains and published results: every row belongs to a part, counts packages, and says who said so."""

from datetime import date
from math import prod

from tests.every_row import every_row

from tonnage import catalog
from tonnage.catalog.rows import DATA, table
from tonnage.domain.accelerator import PublishedResult, ScaleUpDomain

DOMAINS = [one for part in catalog.accelerators() for one in catalog.scale_up_domains(part)]
RESULTS = [one for part in catalog.accelerators() for one in catalog.published_results(part)]


def test_no_row_is_lost() -> None:
    assert len(DOMAINS) == len(list(table(DATA / "domains" / "domains.csv"))) == 26
    assert len({domain.id for domain in DOMAINS}) == len(DOMAINS)
    assert len(RESULTS) == len(list(table(DATA / "results" / "published.csv"))) == 9


@every_row(DOMAINS, name=lambda domain: domain.id)
def test_packages_are_counted(domain: ScaleUpDomain) -> None:
    assert domain.packages == domain.trays * domain.packages_per_tray
    assert not domain.dims or domain.packages == prod(domain.dims)
    assert domain.dies_per_package in {1, 2}
    assert domain.usable_packages <= domain.packages
    assert bool(domain.dims or domain.slices) <= (domain.shape == "torus")
    assert len(domain.fact.source) >= 8
    assert date.fromisoformat(domain.fact.checked) <= date.today()


@every_row(DOMAINS, name=lambda domain: domain.id)
def test_slices_are_parts_of_the_torus(domain: ScaleUpDomain) -> None:
    sizes = [prod(sides) for sides in domain.slices]
    assert sizes == sorted(sizes)
    assert all(size <= domain.packages for size in sizes)
    assert all(len(sides) == len(domain.dims or sides) for sides in domain.slices)


def test_the_link_of_a_part_reaches_one_of_its_domains() -> None:
    for part in catalog.accelerators().values():
        sizes = {domain.packages for domain in catalog.scale_up_domains(part.id)}
        assert not sizes or part.link.domain in sizes, part.id


def test_a_rack_named_by_its_dies_counts_packages() -> None:
    (rubin,) = catalog.scale_up_domains("vr200-nvl72")
    assert (rubin.packages, rubin.packages * rubin.dies_per_package) == (72, 144)


def test_spare_trays_shrink_what_one_job_has() -> None:
    (rack,) = catalog.scale_up_domains("gb200-nvl72")
    assert (rack.packages, rack.spare_trays, rack.usable_packages) == (72, 2, 64)


@every_row(RESULTS, name=lambda result: f"{result.accelerator} {result.model}")
def test_a_published_result_is_of_a_part_without_prediction(result: PublishedResult) -> None:
    assert catalog.accelerators()[result.accelerator].status == "facts-only"
    assert catalog.model(result.model).layers
    assert result.value > 0
    assert result.conditions
    assert result.source
    assert date.fromisoformat(result.as_of) <= date.today()
