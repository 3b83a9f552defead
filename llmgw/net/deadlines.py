"""How long each phase of talking to an engine may take; the caller's `total` is a cancel scope around all of them."""

import msgspec
import trio


class Deadlines(msgspec.Struct, frozen=True):
    """Seconds: to connect, from the request to the first byte of the answer's body, and between two bytes (S-11)."""

    connect_s: float = 5.0
    first_byte_s: float = 600.0
    idle_s: float = 120.0


def within(seconds: float) -> trio.CancelScope:
    """Return a scope that ends its block after `seconds`: anyio's `move_on_after`, at two thirds of its price."""
    return trio.move_on_after(seconds)
