"""Cameras, images, audio, embeddings: from a load to the accelerators that carry it."""
