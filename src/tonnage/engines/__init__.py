"""
What is particular to one serving engine or training framework? Rows of the tables in `data`, read into records.

`engines.toml` holds `EngineSpec` (defaults by release, scheduler, memory rule, kernels), `families.toml` `SoftwareSpec`
(what a family of training software keeps, fuses and shards), `frameworks.toml` `FrameworkSpec` (what is particular to
one of a family), `metrics.toml` what metrics pages say. What no row can say is a function in the module of an engine's
name. The records' types stand in `domain`, so that formulas, simulation and planning take a record as an argument and
no code beside this folder asks for a name.
"""
