"""
How right are we? Predictions scored against published measurements, block by block, with how often the
stated interval held the measured value.
"""
