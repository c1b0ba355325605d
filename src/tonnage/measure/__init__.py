"""
What is true? Endpoints are asked, and reports of other tools are read, in one set of definitions.

The client times requests against a serving endpoint; every result is in a file before the next one
is sent. Latencies are computed by `tonnage.simulation.metrics`, which the simulator uses too.
"""
