"""Where each number of an answer comes from."""
