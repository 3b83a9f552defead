"""Which of the database's errors mean that the store cannot be asked now, and the sentence for each."""

from sqlalchemy import exc

from llmgw.ports import StoreUnavailable

_SENTENCES = (
    ("database or disk is full", "database or disk is full: free space where the store {store} lies"),
    ("disk full", "database or disk is full: free space where the store {store} lies"),
    ("no space left", "database or disk is full: free space where the store {store} lies"),
    ("database is locked", "the store {store} is locked by another process"),
    ("malformed", "the store {store} is damaged: restore a backup, or see docs/store.md"),
    ("not a database", "the file {store} is not an SQLite database"),
    ("readonly database", "the store {store} may not be written: check its owner, mode and folder"),
    ("unable to open database", "the store {store} cannot be opened: check its owner, mode and folder"),
    ("disk i/o error", "the disk of the store {store} failed a read or write"),
    ("statement timeout", "the store {store} took longer than its statement timeout"),
    ("authentication failed", "the store {store} refuses the user or password of auth.store"),
    ("too many clients", "the store {store} has no connection free"),
)


def is_locked(error: exc.SQLAlchemyError) -> bool:
    """Return whether another process holds SQLite's lock, which is worth a wait."""
    return "database is locked" in _word(error)


def _word(error: BaseException) -> str:
    """Return the driver's own message, lower-case."""
    return str(getattr(error, "orig", None) or error).lower()


def as_unavailable(error: exc.SQLAlchemyError, store: str) -> StoreUnavailable | None:
    """Return the StoreUnavailable for an error that is the database's state, None for one that is the statement's."""
    if isinstance(error, exc.TimeoutError):
        return StoreUnavailable(f"the store {store} has no connection free")
    if not isinstance(error, exc.DBAPIError) or isinstance(error, (exc.IntegrityError, exc.ProgrammingError)):
        return None
    word = _word(error)
    for part, sentence in _SENTENCES:
        if part in word:
            return StoreUnavailable(sentence.format(store=store))
    if isinstance(error, (exc.OperationalError, exc.InterfaceError)) or error.connection_invalidated:
        return StoreUnavailable(
            f"the store {store} does not answer: {word.splitlines()[0] if word else 'no reason'}"
        )
    return None
