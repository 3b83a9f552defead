"""One adapter per inference engine."""
