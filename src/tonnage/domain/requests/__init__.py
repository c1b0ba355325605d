"""
What is asked: one frozen struct a question, whose annotations say once how each of its fields is written.

Unit, bounds, help, group and other programs' names stand in a `Field` beside the attribute that holds the value, the
default is the attribute's own. Command line, request files, JSON Schema, forms, tools for assistants and the typed
Python signatures are derived from these structs (`tonnage.core.requests`).
"""
