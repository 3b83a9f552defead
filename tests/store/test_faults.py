"""Which errors mean that the store is away, and their sentences."""

import sqlite3

import pytest
from sqlalchemy import exc

from llmgw.store.faults import as_unavailable, is_locked


@pytest.mark.parametrize(
    ("message", "part"),
    [
        ("database or disk is full", "database or disk is full: free space where the store /s.db lies"),
        ("could not extend file: No space left on device", "database or disk is full"),
        ("database is locked", "locked by another process"),
        ("database disk image is malformed", "is damaged"),
        ("file is not a database", "is not an SQLite database"),
        ("attempt to write a readonly database", "may not be written"),
        ("canceling statement due to statement timeout", "statement timeout"),
        ('FATAL:  password authentication failed for user "x"', "refuses the user or password"),
        ("server closed the connection unexpectedly", "does not answer: server closed"),
    ],
)
def test_the_databases_state_is_one_sentence(message: str, part: str) -> None:
    away = as_unavailable(exc.OperationalError("SELECT 1", {}, sqlite3.OperationalError(message)), "/s.db")
    assert part in str(away)
    assert "/s.db" in str(away)


def test_the_statements_own_errors_are_not_the_stores() -> None:
    for kind in (exc.IntegrityError, exc.ProgrammingError, exc.DataError):
        assert as_unavailable(kind("INSERT", {}, sqlite3.DatabaseError("no")), "/s.db") is None
    assert as_unavailable(exc.InvalidRequestError("no"), "/s.db") is None


def test_a_lock_is_worth_a_wait_and_a_full_disk_is_not() -> None:
    assert is_locked(exc.OperationalError("x", {}, sqlite3.OperationalError("database is locked")))
    assert not is_locked(exc.OperationalError("x", {}, sqlite3.OperationalError("disk full")))
