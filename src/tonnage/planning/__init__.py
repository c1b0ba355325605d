"""
Which accelerators should it be? The only floor that joins all others: request in, answer out.

It hands prices to search as an objective and calibration to physics as an argument, and keeps why each
loser lost.
"""
