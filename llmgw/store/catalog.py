"""Models added at run time, and overrides of any model's scaling and the like (L-33)."""

import time

import sqlalchemy as sa
from msgspec import Struct

from llmgw.store.dialect import upsert
from llmgw.store.tables import catalog_models, model_overrides

OVERRIDES = ("scaling", "class", "owner", "resources", "adapters", "gate")


class CatalogRow(Struct, frozen=True):
    """A stored definition. `version` grows by one with each put; `at` is Unix seconds."""

    name: str
    definition_json: str
    version: int
    by: str
    at: float


class OverrideRow(Struct, frozen=True):
    """What overrides one model's definition; each field is JSON text, or None where nothing does."""

    name: str
    scaling: str | None = None
    class_: str | None = None
    owner: str | None = None
    resources: str | None = None
    adapters: str | None = None
    gate: str | None = None


def all(connection: sa.Connection) -> list[CatalogRow]:
    """Return every stored definition, by name."""
    return [
        CatalogRow(*row)
        for row in connection.execute(sa.select(catalog_models).order_by(catalog_models.c.name))
    ]


def put(connection: sa.Connection, name: str, definition_json: str, by: str) -> CatalogRow:
    """Add or replace a definition."""
    known = connection.execute(
        sa.select(catalog_models.c.version).where(catalog_models.c.name == name).with_for_update()
    ).scalar()
    row = CatalogRow(name, definition_json, (known or 0) + 1, by, time.time())
    columns = {"name": name, "definition": definition_json, "version": row.version, "by": by, "at": row.at}
    upsert(connection, catalog_models, columns)
    return row


def delete(connection: sa.Connection, name: str) -> bool:
    """Forget a definition and its overrides; return whether there was a definition."""
    connection.execute(model_overrides.delete().where(model_overrides.c.name == name))
    return connection.execute(catalog_models.delete().where(catalog_models.c.name == name)).rowcount > 0


def overrides(connection: sa.Connection) -> dict[str, OverrideRow]:
    """Return every override, by model name."""
    rows = connection.execute(sa.select(model_overrides).order_by(model_overrides.c.name))
    return {row.name: OverrideRow(*row) for row in rows}


def put_override(connection: sa.Connection, name: str, field: str, value_json: str | None) -> None:
    """Set or clear (None) one override of a model. `field` is one of OVERRIDES."""
    if field not in OVERRIDES:
        raise ValueError(f"{field} is not a column of model_overrides")
    upsert(connection, model_overrides, {"name": name, field: value_json})


def delete_overrides(connection: sa.Connection, name: str) -> None:
    """Clear every override of a model."""
    connection.execute(model_overrides.delete().where(model_overrides.c.name == name))
