"""Offline work: from a job and a deadline to the cheapest way of finishing it."""
