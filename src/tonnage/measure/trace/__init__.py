"""
What does a PyTorch module compute and hold? It runs once on tensors without data, and every operation is written down.

`trace_module` takes a module and example inputs, `load` the user's own factory by the name "module:callable". torch is
imported when something is traced, never before. No weight is allocated: a module of any size takes seconds.
"""

from tonnage.measure.trace.load import load, parse_input
from tonnage.measure.trace.run import trace_module, trace_named

__all__ = ["load", "parse_input", "trace_module", "trace_named"]
