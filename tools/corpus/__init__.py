"""The corpus: questions of every kind with their kept answers, the judge of changes of code that move no answer.

`python -m tools.corpus` asks them all and lists what differs, grouped by cause; `--write` keeps the new answers.
"""
