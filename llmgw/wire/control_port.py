"""Bytes of the control port between two processes of one machine: framed msgpack, calls matched by id.

A frame is a 4-byte big-endian length and one message. Calls run side by side, so an answer names its call; a caller
that gives up says so with `Cancel`, since a `feed` may wait for hours and the other side must not keep waiting for a
caller that is gone. Both ends are the same release, so the messages need no version.
"""

import struct

import msgspec

from llmgw.ports import Found, LeaseAsk, LeaseGrant, Report, Snapshot

LARGEST_FRAME_BYTES = 64 * 1024 * 1024
_LENGTH = struct.Struct(">I")


class Feed(msgspec.Struct, frozen=True, tag="feed"):
    """Call `feed(after)`."""

    call: int
    after: int


class Lookup(msgspec.Struct, frozen=True, tag="lookup"):
    """Call `lookup(key_hash)`."""

    call: int
    key_hash: str


class Lease(msgspec.Struct, frozen=True, tag="lease"):
    """Call `lease(ask)`."""

    call: int
    ask: LeaseAsk


class Reported(msgspec.Struct, frozen=True, tag="report"):
    """Call `report(report)`."""

    call: int
    report: Report


class Cancel(msgspec.Struct, frozen=True, tag="cancel"):
    """The caller of `call` no longer waits. Gets no answer."""

    call: int


Call = Feed | Lookup | Lease | Reported | Cancel


class Fed(msgspec.Struct, frozen=True, tag="fed"):
    """The answer of `feed`."""

    call: int
    snapshot: Snapshot


class LookedUp(msgspec.Struct, frozen=True, tag="found"):
    """The answer of `lookup`."""

    call: int
    found: Found


class Leased(msgspec.Struct, frozen=True, tag="leased"):
    """The answer of `lease`."""

    call: int
    grant: LeaseGrant


class Noted(msgspec.Struct, frozen=True, tag="noted"):
    """The answer of `report`."""

    call: int


class Away(msgspec.Struct, frozen=True, tag="away"):
    """The call ended in StoreUnavailable, in these words."""

    call: int
    sentence: str


class Failed(msgspec.Struct, frozen=True, tag="failed"):
    """The call ended in a fault of the other side, in these words."""

    call: int
    sentence: str


Answer = Fed | LookedUp | Leased | Noted | Away | Failed


class BadFrame(Exception):
    """The other side sent what no release of ours sends; the connection is of no more use."""


_calls = msgspec.msgpack.Decoder(Call)
_answers = msgspec.msgpack.Decoder(Answer)
_encoder = msgspec.msgpack.Encoder()


def frame(message: Call | Answer) -> bytes:
    """Return one message with its length before it."""
    body = _encoder.encode(message)
    return _LENGTH.pack(len(body)) + body


class Frames:
    """Cuts a byte stream into message bodies. Holds at most one incomplete frame."""

    def __init__(self) -> None:
        self._held = bytearray()

    def feed(self, data: bytes) -> list[bytes]:
        """Take bytes, return the bodies completed by them. Raises BadFrame above 64 MiB."""
        self._held += data
        bodies: list[bytes] = []
        start = 0
        while len(self._held) - start >= _LENGTH.size:
            (length,) = _LENGTH.unpack_from(self._held, start)
            if length > LARGEST_FRAME_BYTES:
                raise BadFrame(
                    f"A frame of {length} bytes on the control port; at most {LARGEST_FRAME_BYTES} are taken."
                )
            end = start + _LENGTH.size + length
            if end > len(self._held):
                break
            bodies.append(bytes(self._held[start + _LENGTH.size : end]))
            start = end
        del self._held[:start]
        return bodies


def decode_call(body: bytes) -> Call:
    """Return the call in a message body. Raises BadFrame."""
    try:
        return _calls.decode(body)
    except msgspec.MsgspecError as fault:
        raise BadFrame(f"A message on the control port is no call: {fault}.") from fault


def decode_answer(body: bytes) -> Answer:
    """Return the answer in a message body. Raises BadFrame."""
    try:
        return _answers.decode(body)
    except msgspec.MsgspecError as fault:
        raise BadFrame(f"A message on the control port is no answer: {fault}.") from fault
