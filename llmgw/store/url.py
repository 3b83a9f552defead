"""Where the store is: what an operator may write in `auth.store`, turned into a SQLAlchemy address."""

import os
from pathlib import Path

from sqlalchemy.engine import URL, make_url
from sqlalchemy.exc import ArgumentError

from llmgw.config.refusal import Refused

_POSTGRES = ("postgres://", "postgresql://", "postgresql+psycopg://")


def store_url(text: str) -> URL:
    """Return the address of a path, a postgres:// address, `@file` or `env:NAME` that holds one. Raises Refused."""
    text = _resolved(text.strip())
    if not text:
        raise Refused(400, "auth.store is empty; write the path of an SQLite file or a postgres:// address")
    if text.startswith(_POSTGRES):
        return _parsed("postgresql+psycopg://" + text.partition("://")[2])
    if text.startswith(("sqlite:///", "sqlite+aiosqlite:///")):
        return _parsed("sqlite+aiosqlite:///" + text.partition(":///")[2])
    if "://" in text:
        scheme = text.partition("://")[0]
        raise Refused(
            400, f"auth.store begins with {scheme}://, which is not a store; use a path or postgres://"
        )
    return URL.create("sqlite+aiosqlite", database=str(Path(text).expanduser()))


def sqlite_path(url: URL) -> Path | None:
    """Return the file of an SQLite store, None for PostgreSQL."""
    return Path(url.database or "") if url.get_backend_name() == "sqlite" else None


def shown(url: URL) -> str:
    """Return the address as it may be shown: a path, or a PostgreSQL address without its password."""
    path = sqlite_path(url)
    return str(path) if path else url.set(drivername="postgresql").render_as_string(hide_password=True)


def _resolved(text: str) -> str:
    if text.startswith("@"):
        try:
            return Path(text[1:]).read_text("utf-8").strip()
        except (OSError, UnicodeDecodeError) as error:
            raise Refused(
                400, f"auth.store names the file {text[1:]}, which cannot be read: {error}"
            ) from None
    if text.startswith("env:"):
        found = os.environ.get(text[4:])
        if not found:
            raise Refused(400, f"auth.store names the environment variable {text[4:]}, which is not set")
        return found.strip()
    if text.startswith("vault:"):
        raise Refused(
            400, "auth.store names a vault, which this release cannot read; use a path, @file or env:"
        )
    return text


def _parsed(text: str) -> URL:
    try:
        return make_url(text)
    except (ArgumentError, ValueError):
        raise Refused(
            400, "auth.store is not an address that can be read; check its port and brackets"
        ) from None
