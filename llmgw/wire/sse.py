"""Server-sent events: bytes in, whole events out, the bytes of each kept as they came.

An engine writes when it likes and a network cuts where it likes: a read may end in the middle of a line, of a line
end, or of a character. Whatever is passed on must therefore be cut at the blank line that ends an event and nowhere
else, and nothing may be decoded before that (F-3). The format: WHATWG HTML, section 9.2.6.
"""

import re

import msgspec

MAX_EVENT_BYTES = 1_048_576
COMMENT = b": \n\n"
"""What keeps a silent stream open: a comment that every parser skips (S-8)."""

# The blank line after an event's last line. "\r" at the end of what has arrived may be half of "\r\n"; it is taken as
# a whole line end, and a "\n" that follows is swallowed by the next call.
# The groups are atomic, else one "\r\n" could be read as two line ends.
_END = re.compile(rb"(?>\r\n|\n|\r)(?>\r\n|\n|\r)")
_LINE_END = re.compile(rb"\r\n|\n|\r")
_BOM = b"\xef\xbb\xbf"


class SSETooLong(Exception):
    """An event that does not end within 1 MiB: not a stream of events, or one that would fill the memory."""


class SSEEvent(msgspec.Struct, frozen=True):
    """One whole event. `raw` is its bytes with the blank line, `data` its data lines joined; both b"" when absent.

    `event` is its type, "" for the default. A block of comments is an event with no data.
    """

    raw: bytes
    data: bytes
    event: str = ""


class SSEParser:
    """Cuts a byte stream into events. Feed it what arrived; it returns the events that became whole."""

    __slots__ = ("_held", "_looked", "_swallow_lf", "_unstarted")

    def __init__(self) -> None:
        self._held = b""
        self._looked = 0
        self._swallow_lf = False
        self._unstarted = True

    @property
    def pending(self) -> bytes:
        """Bytes of an event that is not whole. At the end of a stream they are a truncation, never an event."""
        return self._held

    def feed(self, data: bytes) -> list[SSEEvent]:
        """Return the events completed by these bytes, in order. Raises SSETooLong."""
        if self._swallow_lf and data:
            self._swallow_lf = False
            data = data.removeprefix(b"\n")
        buffer = self._held + data if self._held else data
        if self._unstarted:
            if len(buffer) < len(_BOM) and _BOM.startswith(buffer):
                self._held = buffer
                return []
            self._unstarted = False
            buffer = buffer.removeprefix(_BOM)
        return self._cut(buffer)

    def _cut(self, buffer: bytes) -> list[SSEEvent]:
        events: list[SSEEvent] = []
        start = 0
        search = max(0, self._looked - 3)
        plain = b"\r" not in buffer
        while True:
            if plain:
                at = buffer.find(b"\n\n", search)
                end = at + 2 if at >= 0 else -1
            else:
                match = _END.search(buffer, search)
                end = match.end() if match else -1
            if end < 0:
                break
            events.append(read_event(buffer[start:end]))
            start = search = end
        self._held = buffer[start:]
        self._looked = len(self._held)
        if len(self._held) > MAX_EVENT_BYTES:
            raise SSETooLong(f"an event is longer than {MAX_EVENT_BYTES} bytes")
        self._swallow_lf = not self._held and buffer.endswith(b"\r")
        return events


def read_event(raw: bytes) -> SSEEvent:
    """Return the event that one whole block of lines is."""
    if raw.startswith(b"data: ") and raw.endswith(b"\n\n") and raw.count(b"\n") == 2 and b"\r" not in raw:
        return SSEEvent(raw, raw[6:-2])
    data: list[bytes] = []
    kind = b""
    for line in _LINE_END.split(raw):
        name, _, value = line.partition(b":")
        if name == b"data":
            data.append(value.removeprefix(b" "))
        elif name == b"event":
            kind = value.removeprefix(b" ")
    return SSEEvent(raw, b"\n".join(data), kind.decode("utf-8", "replace"))


def encode(data: bytes, event: str = "") -> bytes:
    """Return one event with these data, which may hold line ends of any kind."""
    head = f"event: {event}\n".encode() if event else b""
    lines = _LINE_END.split(data)
    return head + b"".join(b"data: " + line + b"\n" for line in lines) + b"\n"
