"""Alembic's revisions, oldest first, in `versions/`. docs/store.md says how to add one."""
