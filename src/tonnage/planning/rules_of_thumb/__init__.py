"""Rules of thumb, recomputed."""
