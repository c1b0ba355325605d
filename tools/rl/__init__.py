"""Published steps of reinforcement learning beside predicted ones."""
