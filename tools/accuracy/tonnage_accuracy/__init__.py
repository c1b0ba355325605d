"""
How right are we? Predictions scored against published measurements, block by block, with how often the
stated interval held the measured value. A distribution of its own: planning needs none of it.
"""
