"""
What is in a machine? Outputs of the tools that come with drivers, systems and clusters become an `Inventory`.

Each reader is a function from text to nouns and runs nothing; `detect` runs the tools that are there, `recorded` reads
files of their outputs. Names stay as the source writes them: whoever has the catalogue finds the part.
"""
