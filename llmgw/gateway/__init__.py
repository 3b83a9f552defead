"""The request pipeline, from a parsed head to an accounted answer."""
