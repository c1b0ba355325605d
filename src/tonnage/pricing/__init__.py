"""
What does it cost? Listed prices and their terms, renting against owning, energy and carbon.

A price shows its provider, region, term and date; a cost says what it pays for.
"""
