"""A plan made before, asked again: what changed, and whether its answer still stands."""
