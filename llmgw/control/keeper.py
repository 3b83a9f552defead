"""What the leader keeps in the store, each change with its audit event in one transaction, under the leader's term.

The seam between deciding and remembering: `StoreKeeper` is the store, tests keep in memory. A write of a leader whose
term is over is refused inside the transaction, however late it arrives.
"""

from collections.abc import Mapping
from typing import Any, Protocol

import msgspec
import sqlalchemy as sa

from llmgw.config.refusal import Refused
from llmgw.ports import AuditEvent
from llmgw.store import audit, catalog, lease, nodes, parked, secrets
from llmgw.store.loop import Store

LEASE_S = 15.0


class StoredModel(msgspec.Struct, frozen=True):
    """A model added at run time: its definition as plain data, and when it was added (Unix seconds)."""

    name: str
    definition: Mapping[str, Any]
    at_unix: float


class Kept(msgspec.Struct, frozen=True):
    """What a new leader starts from. `scalings`: model -> overridden keys; `parked`: model -> (failures, reason)."""

    term: int
    engine_secret: bytes
    models: tuple[StoredModel, ...] = ()
    scalings: Mapping[str, Mapping[str, Any]] = {}
    cordons: Mapping[str, tuple[str, bool]] = {}
    nodes: Mapping[str, str] = {}
    parked: Mapping[str, tuple[int, str]] = {}


class Keeper(Protocol):
    """Where the leader's memory is. Every method may raise StoreUnavailable; writes raise Refused(503) when stale."""

    async def lead(self, holder: str) -> Kept | None:
        """Take the lease and read everything; None while another control plane leads."""
        ...

    async def renew(self, term: int) -> bool:
        """Hold on to the lease; False when another term has begun."""
        ...

    async def release(self, term: int) -> None:
        """Give the lease up."""
        ...

    async def save_model(self, term: int, model: StoredModel, by: str, event: AuditEvent) -> None:
        """Keep a definition."""
        ...

    async def delete_model(self, term: int, name: str, event: AuditEvent) -> None:
        """Forget a definition, its overrides and that it was parked."""
        ...

    async def save_scaling(self, term: int, name: str, scaling: Mapping[str, Any], event: AuditEvent) -> None:
        """Keep the scaling keys that override a definition."""
        ...

    async def set_cordon(self, term: int, node_id: str, by: str | None, event: AuditEvent) -> None:
        """Keep or forget a cordon."""
        ...

    async def park(self, term: int, model: str, failures: int, reason: str, event: AuditEvent) -> None:
        """Keep that a model is parked."""
        ...

    async def unpark(self, term: int, model: str, event: AuditEvent) -> None:
        """Forget that a model is parked."""
        ...

    async def remember_node(self, term: int, node_id: str, address: str) -> None:
        """Keep a node's id and address."""
        ...


class StoreKeeper:
    """`Keeper` over the store."""

    def __init__(self, store: Store) -> None:
        self._store = store

    async def lead(self, holder: str) -> Kept | None:
        """Take the lease and read everything; None while another control plane leads."""
        return await self._store.run(_lead, holder)

    async def renew(self, term: int) -> bool:
        """Hold on to the lease; False when another term has begun."""
        try:
            await self._store.run(lease.renew, term, LEASE_S)
        except lease.StaleTerm:
            return False
        return True

    async def release(self, term: int) -> None:
        """Give the lease up."""
        await self._store.run(lease.release, term)

    async def save_model(self, term: int, model: StoredModel, by: str, event: AuditEvent) -> None:
        """Keep a definition."""
        text = msgspec.json.encode(model.definition).decode()
        await self._write(term, event, lambda c: catalog.put(c, model.name, text, by))

    async def delete_model(self, term: int, name: str, event: AuditEvent) -> None:
        """Forget a definition, its overrides and that it was parked."""

        def delete(connection: sa.Connection) -> None:
            catalog.delete(connection, name)
            parked.clear(connection, name)

        await self._write(term, event, delete)

    async def save_scaling(self, term: int, name: str, scaling: Mapping[str, Any], event: AuditEvent) -> None:
        """Keep the scaling keys that override a definition."""
        text = msgspec.json.encode(scaling).decode()
        await self._write(term, event, lambda c: catalog.put_override(c, name, "scaling", text))

    async def set_cordon(self, term: int, node_id: str, by: str | None, event: AuditEvent) -> None:
        """Keep or forget a cordon."""
        await self._write(term, event, lambda c: nodes.set_cordon(c, node_id, by))

    async def park(self, term: int, model: str, failures: int, reason: str, event: AuditEvent) -> None:
        """Keep that a model is parked."""
        await self._write(term, event, lambda c: parked.put(c, model, failures, reason))

    async def unpark(self, term: int, model: str, event: AuditEvent) -> None:
        """Forget that a model is parked."""
        await self._write(term, event, lambda c: parked.clear(c, model))

    async def remember_node(self, term: int, node_id: str, address: str) -> None:
        """Keep a node's id and address."""
        await self._write(term, None, lambda c: nodes.remember(c, node_id, address))

    async def _write(self, term: int, event: AuditEvent | None, change: Any) -> None:
        try:
            await self._store.run(_fenced, term, event, change)
        except lease.StaleTerm as stale:
            raise Refused(503, f"{stale}; ask the control plane that leads") from None


def _fenced(connection: sa.Connection, term: int, event: AuditEvent | None, change: Any) -> None:
    lease.check(connection, term)
    change(connection)
    if event is not None:
        audit.insert(connection, event)


def _lead(connection: sa.Connection, holder: str) -> Kept | None:
    taken = lease.acquire(connection, holder, LEASE_S)
    if taken is None:
        return None
    overrides = catalog.overrides(connection)
    return Kept(
        term=taken.term,
        engine_secret=secrets.engine_secret(connection),
        models=tuple(
            StoredModel(row.name, msgspec.json.decode(row.definition_json), row.at)
            for row in catalog.all(connection)
        ),
        scalings={name: msgspec.json.decode(row.scaling) for name, row in overrides.items() if row.scaling},
        cordons={node: (row.by, row.drain) for node, row in nodes.cordons(connection).items()},
        nodes={row.id: row.address for row in nodes.known(connection)},
        parked={name: (row.failures, row.reason) for name, row in parked.all(connection).items()},
    )
