"""
Which choices exist? Accelerators, counts, layouts and precisions, pruned with a reason each, down to the
few that nothing beats.

Search is handed its objective as a function, so it can rank by dollars without knowing what a dollar is.
"""
