"""Train here, serve there: one bill, one timeline."""
