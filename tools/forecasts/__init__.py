"""Dated predictions of what nobody has published yet, kept unchanged and scored when results appear."""
