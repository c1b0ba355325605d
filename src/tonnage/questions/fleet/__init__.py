"""Several workloads on one mixed fleet."""
