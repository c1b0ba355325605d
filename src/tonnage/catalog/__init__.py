"""
What is known? Accelerators, models, offers, providers, ownership costs and carbon, as facts in files.

Each fact carries a unit, a source and the date it was checked; what nobody has published is absent, never
zero. The loaders turn the files into nouns, find a thing by any of its names, and say "did you mean" when
there is none.
"""
