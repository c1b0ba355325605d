"""
How is a model read from anywhere: the catalogue, Hugging Face, a config.json, weight files, a bare size?
"""
