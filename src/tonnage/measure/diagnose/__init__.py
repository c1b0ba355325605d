"""
What limits a running system? Evidence from whatever source, rules that judge it, and the next step.

`sources` opens files and addresses and asks all rules (`judge`); `window` turns readings over time into evidence;
`rules` (servers and training steps) and `device` (accelerator and host) hold the rules, rows as `row` reads them and
pure functions where a row cannot say it. A rule that lacks what it needs gives no verdict.
"""
