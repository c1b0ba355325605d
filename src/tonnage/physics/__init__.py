"""
What follows? The work a model needs, and the bytes and seconds that work takes on an accelerator.

Two kinds of function: formulas take numbers and give numbers, one published source each; estimates take
records of `domain`, pick their fields and add the parts. Nothing here opens a file: what was measured
arrives as an argument.
"""
