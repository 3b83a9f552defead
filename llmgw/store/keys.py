"""API keys: what is kept of one (T-11), who it speaks for, and its end.

Every change moves the tenancy epoch in its own transaction, which is how running servers drop what they remember.
"""

import time

import sqlalchemy as sa
from msgspec import Struct

from llmgw.config.refusal import Refused
from llmgw.ports import Principal
from llmgw.store import epoch
from llmgw.store.ids import new_id
from llmgw.store.tables import api_keys, projects, teams, users

PREFIX_LENGTH = 12


class NewKey(Struct, frozen=True, kw_only=True):
    """What a new key is made of. `hash` is the SHA-256 hex of its text and `prefix` the text's first 12 characters."""

    kind: str
    hash: str
    prefix: str
    name: str = ""
    project_id: str | None = None
    user_id: str | None = None
    created_by: str = ""
    expires_at: float | None = None
    rotated_from: str | None = None
    band: str = "silver"
    profile: str = "chat"


class KeyRow(Struct, frozen=True):
    """One row of `api_keys`, its columns in order. Times are Unix seconds."""

    id: str
    kind: str
    hash: str
    prefix: str
    name: str
    project_id: str | None
    user_id: str | None
    created_at: float
    created_by: str
    expires_at: float | None
    revoked_at: float | None
    revoked_by: str | None
    last_used_at: float | None
    rotated_from: str | None
    band: str
    profile: str

    def is_usable(self, now_unix: float) -> bool:
        """Return whether the key itself is neither revoked nor expired."""
        return self.revoked_at is None and (self.expires_at is None or self.expires_at > now_unix)


def create(connection: sa.Connection, new: NewKey) -> KeyRow:
    """Keep a key. Its owner must exist; a foreign key says so otherwise."""
    row = KeyRow(
        id=new_id("key"),
        kind=new.kind,
        hash=new.hash,
        prefix=new.prefix,
        name=new.name,
        project_id=new.project_id,
        user_id=new.user_id,
        created_at=time.time(),
        created_by=new.created_by,
        expires_at=new.expires_at,
        revoked_at=None,
        revoked_by=None,
        last_used_at=None,
        rotated_from=new.rotated_from,
        band=new.band,
        profile=new.profile,
    )
    connection.execute(api_keys.insert(), {name: getattr(row, name) for name in row.__struct_fields__})
    epoch.bump(connection)
    return row


def list_keys(
    connection: sa.Connection, project_id: str | None = None, *, every: bool = False
) -> list[KeyRow]:
    """Return keys, oldest first; without `every`, only those neither revoked nor expired."""
    query = sa.select(api_keys).order_by(api_keys.c.created_at, api_keys.c.id)
    if project_id is not None:
        query = query.where(api_keys.c.project_id == project_id)
    rows = [KeyRow(*row) for row in connection.execute(query)]
    now = time.time()
    return [row for row in rows if every or row.is_usable(now)]


def find(connection: sa.Connection, text: str) -> KeyRow:
    """Return the key of an id, a hash or a prefix. Raises Refused: none (404), several of one prefix (409)."""
    matches = (api_keys.c.id == text) | (api_keys.c.hash == text) | (api_keys.c.prefix == text)
    rows = [KeyRow(*row) for row in connection.execute(sa.select(api_keys).where(matches))]
    if not rows:
        raise Refused(404, f"there is no key {text!r}; `llmgw keys list --all` shows ids and prefixes")
    if len(rows) > 1:
        raise Refused(
            409, f"{len(rows)} keys begin with {text}: {', '.join(row.id for row in rows)}; give an id"
        )
    return rows[0]


def revoke(connection: sa.Connection, id_or_prefix: str, by: str) -> KeyRow:
    """End a key for good and return it as it is now; a key that is revoked already stays as it was (T-15)."""
    row = find(connection, id_or_prefix)
    if row.revoked_at is not None:
        return row
    connection.execute(
        api_keys.update()
        .where(api_keys.c.id == row.id, api_keys.c.revoked_at.is_(None))
        .values(revoked_at=time.time(), revoked_by=by)
    )
    epoch.bump(connection)
    return find(connection, row.id)


def by_hash(connection: sa.Connection, sha256_hex: str) -> Principal | None:
    """Return who a usable key speaks for: not revoked, not expired, its owner active. None otherwise."""
    query = (
        sa.select(api_keys, projects.c.team_id, teams.c.org_id, users.c.state)
        .outerjoin(projects, projects.c.id == api_keys.c.project_id)
        .outerjoin(teams, teams.c.id == projects.c.team_id)
        .outerjoin(users, users.c.id == api_keys.c.user_id)
        .where(api_keys.c.hash == sha256_hex)
    )
    found = connection.execute(query).first()
    if found is None:
        return None
    *columns, team_id, org_id, state = found
    row = KeyRow(*columns)
    if not row.is_usable(time.time()) or (row.user_id is not None and state != "active"):
        return None
    return Principal(
        key_id=row.id,
        kind=row.kind,
        hash=row.hash,
        org_id=org_id or "",
        team_id=team_id or "",
        project_id=row.project_id or "",
        user_id=row.user_id or "",
        name=row.name,
        prefix=row.prefix,
        band=row.band,
        profile=row.profile,
        expires_unix=row.expires_at,
    )
