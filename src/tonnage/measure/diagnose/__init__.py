"""
What limits a running system? Evidence from whatever source, rules that judge it, and the next step.

`sources` opens files and addresses; `window` turns readings over time into evidence; `serving`, `training`, `device`
hold the rules, pure functions over `Evidence`; `judge` asks them all. A rule that lacks what it needs gives no verdict.
"""
