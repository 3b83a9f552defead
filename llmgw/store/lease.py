"""The leader's lease: who leads, until when, and a term that only grows (architecture.md, section 9).

Time is the database's on PostgreSQL, so that two control planes with different clocks agree; on SQLite both are on one
machine. Every write of the leader calls `check` in its own transaction: a leader that was asleep while another took
over is refused there, however late its write arrives.
"""

import time

import sqlalchemy as sa
from msgspec import Struct

from llmgw.store.dialect import is_postgres
from llmgw.store.tables import lease

_NAME = "leader"


class Lease(Struct, frozen=True):
    """The lease as it stands. `expires_at` is Unix seconds of the store's clock."""

    holder: str
    address: str
    term: int
    expires_at: float


class StaleTerm(Exception):
    """The writer no longer leads: `held` is the term it carried, `current` the one in force."""

    def __init__(self, held: int, current: int) -> None:
        super().__init__(f"this control plane led in term {held}, and term {current} has begun")
        self.held, self.current = held, current


def read(connection: sa.Connection) -> Lease:
    """Return the lease; its holder is "" when nobody has led or it was released."""
    return _row(connection, locked=False)


def acquire(connection: sa.Connection, holder: str, ttl_s: float, address: str = "") -> Lease | None:
    """Take the lease when it is free, expired or `holder`'s own; the term grows. None when another holds it.

    Taking one's own lease again is a new term: the process that held it before is gone.
    """
    found, now = _row(connection, locked=True), _now(connection)
    if found.holder not in ("", holder) and found.expires_at > now:
        return None
    return _store(connection, Lease(holder, address, found.term + 1, now + ttl_s))


def renew(connection: sa.Connection, term: int, ttl_s: float) -> Lease:
    """Hold on for `ttl_s` from now. Raises StaleTerm when another term has begun or the lease was released."""
    found = _row(connection, locked=True)
    if found.term != term or not found.holder:
        raise StaleTerm(term, found.term)
    return _store(connection, Lease(found.holder, found.address, term, _now(connection) + ttl_s))


def release(connection: sa.Connection, term: int) -> bool:
    """Give the lease up, so that another need not wait; return whether it was still held. The term stays."""
    found = _row(connection, locked=True)
    if found.term != term or not found.holder:
        return False
    _store(connection, Lease("", "", term, 0.0))
    return True


def check(connection: sa.Connection, term: int) -> None:
    """Refuse a write of a leader whose term is over. Holds the lease's row until the transaction ends."""
    found = _row(connection, locked=True)
    if found.term != term or not found.holder:
        raise StaleTerm(term, found.term)


def _row(connection: sa.Connection, *, locked: bool) -> Lease:
    query = sa.select(lease.c.holder, lease.c.address, lease.c.term, lease.c.expires_at).where(
        lease.c.name == _NAME
    )
    return Lease(*connection.execute(query.with_for_update() if locked else query).one())


def _store(connection: sa.Connection, new: Lease) -> Lease:
    values = {name: getattr(new, name) for name in new.__struct_fields__}
    connection.execute(lease.update().where(lease.c.name == _NAME).values(values))
    return new


def _now(connection: sa.Connection) -> float:
    if is_postgres(connection):
        return float(connection.execute(sa.text("SELECT extract(epoch FROM clock_timestamp())")).scalar_one())
    return time.time()
