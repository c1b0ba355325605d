"""Tonnage tells you which accelerators a model needs, and checks itself against the real thing."""

from __future__ import annotations

__version__ = "0.1.0"
