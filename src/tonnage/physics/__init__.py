"""
What follows? The work a model needs, and the bytes and seconds that work takes on an accelerator.

Two floors inside: formulas take numbers and give numbers, one published source each; estimates take
nouns, pick their fields and add the parts. Nothing here opens a file: what was measured arrives as an
argument.
"""
