"""How fast Tonnage itself is: CPU seconds, not wall time, so that a busy machine does not change the verdict."""
