"""Frames of the agent protocol: one flag byte (0), a 4-byte big-endian length, one msgpack document (P-3).

Messages straddle and share HTTP/2 DATA frames as they please, so the decoder takes bytes in any pieces. A length over
the bound is refused when its prefix is complete, before a byte of the message is kept (P-4).
"""

MAX_MESSAGE_BYTES = 16 * 1024 * 1024
"""Largest message that is received (P-4)."""

PREFIX_BYTES = 5


class FrameTooLarge(Exception):
    """The peer announced a message over the bound; the stream is reset with ENHANCE_YOUR_CALM."""

    def __init__(self, size_bytes: int, bound_bytes: int) -> None:
        super().__init__(f"a message of {size_bytes} bytes was announced; {bound_bytes} is the most")
        self.size_bytes = size_bytes


class BadFlag(Exception):
    """The flag byte is not 0: the framing is lost, or of another version."""

    def __init__(self, flag: int) -> None:
        super().__init__(f"flag byte {flag} before a message; only 0 is known")
        self.flag = flag


def frame(document: bytes) -> bytes:
    """Return `document` with its prefix. Raises FrameTooLarge, since the peer would refuse it."""
    if len(document) > MAX_MESSAGE_BYTES:
        raise FrameTooLarge(len(document), MAX_MESSAGE_BYTES)
    return b"\0" + len(document).to_bytes(4, "big") + document


class FrameDecoder:
    """Bytes in, whole documents out. Holds at most one message's bytes and what `feed` gave beyond it."""

    def __init__(self, max_message_bytes: int = MAX_MESSAGE_BYTES) -> None:
        self._max_message_bytes = max_message_bytes
        self._held = bytearray()

    def feed(self, data: bytes) -> None:
        """Take bytes as they came; `next_document` says what they complete."""
        self._held += data

    def next_document(self) -> bytes | None:
        """Return the next whole document, or None until more bytes come. Raises FrameTooLarge, BadFlag."""
        held = self._held
        if held and held[0] != 0:
            raise BadFlag(held[0])
        if len(held) < PREFIX_BYTES:
            return None
        size_bytes = int.from_bytes(held[1:PREFIX_BYTES], "big")
        if size_bytes > self._max_message_bytes:
            raise FrameTooLarge(size_bytes, self._max_message_bytes)
        end = PREFIX_BYTES + size_bytes
        if len(held) < end:
            return None
        document = bytes(held[PREFIX_BYTES:end])
        del held[:end]
        return document

    def is_between_messages(self) -> bool:
        """Return whether nothing is held: a stream that ends here lost no message."""
        return not self._held
