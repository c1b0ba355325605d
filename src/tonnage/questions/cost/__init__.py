"""Rent or buy: what owning costs and where it meets renting."""
