"""Training plans: from a run to ranked arrangements of accelerators."""
