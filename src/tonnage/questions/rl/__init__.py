"""Reinforcement learning of a language model: rollouts beside training."""
