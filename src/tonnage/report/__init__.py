"""
How is an answer shown? As a text table, JSON, Markdown, HTML or a chart specification.

The only floor that formats numbers. It computes nothing: what it shows is in the answer it is given.
"""
