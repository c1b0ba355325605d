"""Serving plans: from a workload to ranked ways of running it."""
