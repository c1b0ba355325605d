"""
What is particular to one serving engine or training framework? One module each; the folder is the list.

A module holds a record: `ENGINE` (defaults by release, scheduler, memory rule, kernels), `SOFTWARE` (what a family of
training software keeps, fuses and shards), `FRAMEWORK` (what is particular to one of a family), `metrics()` (what its
metrics page says), or several of them. The records' types stand in `domain`, so that formulas, simulation and planning
take a record as an argument and no code beside this folder asks for a name.
"""
