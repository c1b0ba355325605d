"""Traffic as sessions: fitted from logs, and what caches find again of it."""
