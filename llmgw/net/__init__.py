"""Sockets: listeners, HTTP servers, the engine connection pool, TLS, deadlines."""
