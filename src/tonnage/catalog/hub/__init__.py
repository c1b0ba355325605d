"""
How is a model read from anywhere: the catalogue, Hugging Face, a config.json, weight files, a bare size?

`resolve.resolve` takes what a person writes. The adapters (`dense`, `moe`, `latent`, `hybrids`, `encoders`, `vision`)
turn the fields of a config.json into the house's `Model`, one small function for each `model_type`.
"""
