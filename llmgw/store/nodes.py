"""Nodes a new leader must count with before they register, their cordons, and what was said of them (L-33)."""

import time

import sqlalchemy as sa
from msgspec import Struct

from llmgw.store.dialect import upsert
from llmgw.store.tables import facility_holds, node_cordons, node_engines, node_labels, nodes


class NodeRow(Struct, frozen=True):
    """A node that has registered once. `joined_at` is Unix seconds of its first registration."""

    id: str
    address: str
    joined_at: float


class CordonRow(Struct, frozen=True):
    """A node kept free of new replicas, by whom and since when; `drain` when its running ones must leave too."""

    node: str
    by: str
    at: float
    drain: bool


class HoldRow(Struct, frozen=True):
    """A power or cooling domain that is held back."""

    domain: str
    reason: str
    by: str
    at: float
    drain: bool


def remember(connection: sa.Connection, node_id: str, address: str) -> bool:
    """Note a registered node; return whether anything changed."""
    known = connection.execute(sa.select(nodes.c.address).where(nodes.c.id == node_id)).scalar()
    if known == address:
        return False
    if known is None:
        connection.execute(nodes.insert(), {"id": node_id, "address": address, "joined_at": time.time()})
    else:
        connection.execute(nodes.update().where(nodes.c.id == node_id).values(address=address))
    return True


def known(connection: sa.Connection) -> list[NodeRow]:
    """Return every node remembered, by id."""
    return [NodeRow(*row) for row in connection.execute(sa.select(nodes).order_by(nodes.c.id))]


def forget(connection: sa.Connection, node_id: str) -> bool:
    """Forget a node with its labels, engines and cordon; return whether it was known."""
    for table in (node_labels, node_engines, node_cordons):
        connection.execute(table.delete().where(table.c.node == node_id))
    return connection.execute(nodes.delete().where(nodes.c.id == node_id)).rowcount > 0


def set_cordon(connection: sa.Connection, node_id: str, by: str | None, *, drain: bool = False) -> None:
    """Keep new replicas off a node, or with `by=None` stop doing so."""
    if by is None:
        connection.execute(node_cordons.delete().where(node_cordons.c.node == node_id))
        return
    upsert(connection, node_cordons, {"node": node_id, "by": by, "at": time.time(), "drain": drain})


def cordons(connection: sa.Connection) -> dict[str, CordonRow]:
    """Return the cordons in force, by node id."""
    rows = connection.execute(sa.select(node_cordons).order_by(node_cordons.c.node))
    return {row.node: CordonRow(*row) for row in rows}


def labels(connection: sa.Connection) -> dict[str, dict[str, str]]:
    """Return the labels operators set, node id -> key -> value."""
    out: dict[str, dict[str, str]] = {}
    for node, key, value in connection.execute(sa.select(node_labels)):
        out.setdefault(node, {})[key] = value
    return out


def set_label(connection: sa.Connection, node_id: str, key: str, value: str | None) -> None:
    """Set a label, or with None remove it."""
    if value is None:
        connection.execute(
            node_labels.delete().where(node_labels.c.node == node_id, node_labels.c.key == key)
        )
        return
    upsert(connection, node_labels, {"node": node_id, "key": key, "value": value})


def holds(connection: sa.Connection) -> list[HoldRow]:
    """Return the facility holds in force, by domain."""
    return [
        HoldRow(*row)
        for row in connection.execute(sa.select(facility_holds).order_by(facility_holds.c.domain))
    ]
