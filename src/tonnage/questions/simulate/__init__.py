"""One configuration under its traffic, request by request."""
