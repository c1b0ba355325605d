"""
How is it asked from a terminal? One file per command, holding options and no arithmetic.

A command reads its options into a request, hands it to the planner, and shows the answer through a
report.
"""
