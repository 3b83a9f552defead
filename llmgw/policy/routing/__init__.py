"""Which replica answers a request."""
