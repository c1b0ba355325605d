"""What is said: the frozen nouns that files, command line, HTTP and Python share.

Three go in (a model, a workload, accelerators) and one comes out (an answer). Every noun is a
frozen `msgspec.Struct`; a what-if is a new noun made with `msgspec.structs.replace`.
"""
