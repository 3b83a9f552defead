"""Decisions without I/O: a snapshot in, a decision and its reasons out."""
