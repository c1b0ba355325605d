"""Images of a plan as blocks and as a picture: what one is to the model, and what each place for the encoder costs."""

from __future__ import annotations

from tonnage.domain.images import EncoderWay
from tonnage.domain.plan import ServePlan
from tonnage.report.charts.chart import Chart, axis, layer_charts, names, records
from tonnage.report.document import Contents, Note, grid
from tonnage.units import show


def image_sections(plan: ServePlan) -> dict[str, Contents]:
    """What an image is, and what each place for the encoder costs on the first option's accelerators."""
    found = plan.images
    if found is None:
        return {}
    chosen = plan.options[0].configuration.label() if plan.options else None
    rows = [
        (
            f"{way.name} (this plan)" if way.configuration == chosen else way.name,
            show(way.encode_s, "s"),
            show(way.move_s, "s") if way.move_s else "–",
            f"{way.hits:.0%}",
            show(way.memory_bytes, "bytes"),
            f"{way.rate_per_s:.3g}" if way.rate_per_s else "misses",
            f"{way.accelerators:,}",
            _price(way),
        )
        for way in found.ways
    ]
    heads = ["encoder", "encodes>", "moves>", "kept>", "holds>", "req/s at most>", "accelerators>", "$/h>"]
    size = (
        f"{found.encoder_parameters / 1e9:.2f} B parameters; a token's encoding is {found.token_bytes:,.0f} bytes, an "
        f"image's {show(found.images.tokens * found.token_bytes, 'bytes')}"
    )
    note = (
        "req/s of one replica or unit, and prices, by averages at the confidence asked for; no instance: none that is"
        " rented holds a unit of so many"
    )
    return {
        "Images": [found.sentence, size],
        "Where images are encoded": [grid(heads, rows), Note(note)],
    }


def _price(way: EncoderWay) -> str:
    if way.usd_per_hour is None:
        return "no instance" if way.rate_per_s else "–"
    return f"{way.usd_per_hour:,.2f}"


def images_chart(plan: ServePlan) -> Chart | None:
    """Price of the fleet by place of the encoder; None where fewer than two serve."""
    found = plan.images
    rows = [(way.configuration, way.usd_per_hour, way.encode_s + way.move_s) for way in found.ways] if found else []
    priced = [(name, usd, taken) for name, usd, taken in rows if usd is not None]
    if len(priced) < 2:
        return None
    columns = ("where", "usd", "encode")
    body = layer_charts(
        records(columns, priced),
        {
            "mark": {"type": "bar"},
            "encoding": {
                "y": names("where", "where images are encoded"),
                "x": axis("usd", "price of the fleet ($/h), less is better"),
            },
        },
    )
    least = min(priced, key=lambda row: row[1])
    return Chart(
        "images",
        "Where images are encoded",
        f"Price of the fleet by place of the vision encoder; the least is {least[0]} at ${least[1]:,.2f}/h.",
        body=body,
        columns=("configuration", "$/h", "encoding"),
        rows=tuple((name, f"{usd:,.2f}", show(taken, "s")) for name, usd, taken in priced),
    )
