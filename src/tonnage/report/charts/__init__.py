"""Answers as pictures: each chart is a Vega-Lite specification beside the table it was drawn from."""

from tonnage.report.charts.chart import Chart, specification
from tonnage.report.charts.gallery import charts_of

__all__ = ["Chart", "charts_of", "specification"]
