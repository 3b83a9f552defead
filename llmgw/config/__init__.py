"""Configuration: structs that are the schema, the defaults and the documentation."""
