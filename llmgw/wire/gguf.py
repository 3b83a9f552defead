"""The header of a GGUF file, read from its first bytes and bounded before anything is believed (X-37).

Layout (GGUF v2 and v3, little endian; the format's description in the ggml project): magic, version, tensor count,
metadata count, metadata key/value pairs, tensor infos, padding to the alignment, tensor data. Every count in it is the
file's own claim, so each is checked against what the bytes could hold before a loop runs over it.

What it does not do: read tensors, big-endian files, or version 1, which no engine here loads.
"""

import struct
from collections.abc import Mapping
from typing import Any

import msgspec

MAX_METADATA_BYTES = 64 * 1024 * 1024
MAX_NESTING = 4
MAX_KEPT_ELEMENTS = 64
_MAX_DIMENSIONS = 4
_STRING, _ARRAY = 8, 9
_SCALARS = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q", 11: "q", 12: "d"}
# ggml type -> (elements per block, bytes per block); a type not listed leaves the file's length unchecked.
_BLOCKS = {
    0: (1, 4), 1: (1, 2), 2: (32, 18), 3: (32, 20), 6: (32, 22), 7: (32, 24), 8: (32, 34), 9: (32, 36),
    10: (256, 84), 11: (256, 110), 12: (256, 144), 13: (256, 176), 14: (256, 210), 15: (256, 292), 16: (256, 66),
    17: (256, 74), 18: (256, 98), 19: (256, 50), 20: (32, 18), 21: (256, 110), 22: (256, 82), 23: (256, 136),
    24: (1, 1), 25: (1, 2), 26: (1, 4), 27: (1, 8), 28: (1, 8), 29: (256, 56), 30: (1, 2), 34: (256, 54),
    35: (256, 66), 39: (32, 17),
}  # fmt: skip


class NotGGUF(Exception):
    """These bytes are no usable GGUF file; `sentence` says what is wrong with them."""

    def __init__(self, sentence: str) -> None:
        super().__init__(sentence)
        self.sentence = sentence


class HeaderCutShort(NotGGUF):
    """The bytes end inside the header. With more of the file at hand, read again; without, the file is truncated."""


class LongArray(msgspec.Struct, frozen=True):
    """An array too long to keep: its element type's number and its count."""

    kind: int
    count: int


class GGUFHeader(msgspec.Struct, frozen=True):
    """What a header says. `needs_bytes`: the least size of a whole file, None when a tensor type is unknown here."""

    version: int
    tensor_count: int
    metadata: Mapping[str, Any]
    needs_bytes: int | None

    def text(self, key: str) -> str:
        """Return a string value, or "" when it is absent or something else."""
        value = self.metadata.get(key, "")
        return value if isinstance(value, str) else ""

    def number(self, key: str) -> int | None:
        """Return an integer value, or None."""
        value = self.metadata.get(key)
        return value if isinstance(value, int) and not isinstance(value, bool) else None

    @property
    def architecture(self) -> str:
        """The model family, for example `llama`."""
        return self.text("general.architecture")

    @property
    def context_length(self) -> int | None:
        """Tokens the model was made for."""
        return self.number(f"{self.architecture}.context_length")


def read_header(prefix: bytes, file_size_bytes: int | None = None) -> GGUFHeader:
    """Read a header from a file's first bytes.

    With `file_size_bytes` the counts are checked against it and a file shorter than its tensors is refused. Raises
    HeaderCutShort when `prefix` ends too early, NotGGUF for everything else.
    """
    if prefix[:4] != b"GGUF"[: len(prefix[:4])] or not prefix:
        raise NotGGUF("it does not begin with GGUF, so it is not a GGUF file")
    cursor = _Cursor(prefix, file_size_bytes if file_size_bytes is not None else 1 << 62)
    cursor.skip(4)
    version, tensor_count, pair_count = cursor.scalars("<IQQ")
    if version not in (2, 3):
        raise NotGGUF(f"it is GGUF version {version if version < 1000 else 'of another byte order'}; versions 2 and 3 load")
    cursor.can_hold(tensor_count, 24, "tensors")
    cursor.can_hold(pair_count, 13, "metadata pairs")
    metadata: dict[str, Any] = dict(_pair(cursor) for _ in range(pair_count))
    alignment = metadata.get("general.alignment", 32)
    if not isinstance(alignment, int) or not 1 <= alignment <= 1 << 20:
        raise NotGGUF("its alignment makes no sense")
    needs = _needed_bytes(cursor, tensor_count, alignment)
    if needs is not None and file_size_bytes is not None and file_size_bytes < needs:
        raise NotGGUF(f"it is cut short: {file_size_bytes} bytes of the {needs} its header describes")
    return GGUFHeader(version, tensor_count, metadata, needs)


class _Cursor:
    """A position in the prefix that refuses to run past its end or past the metadata bound."""

    __slots__ = ("_data", "_size_bytes", "at")

    def __init__(self, data: bytes, size_bytes: int) -> None:
        self._data = data
        self._size_bytes = size_bytes
        self.at = 0

    def skip(self, count: int) -> int:
        """Move on by `count` bytes and return where they begin."""
        start, end = self.at, self.at + count
        if end > self._size_bytes:
            raise NotGGUF(f"it is cut short: its header says more than its {self._size_bytes} bytes can hold")
        if end > MAX_METADATA_BYTES:
            raise NotGGUF(f"its metadata is larger than {MAX_METADATA_BYTES} bytes")
        if end > len(self._data):
            raise HeaderCutShort(f"it is cut short: it ends inside its header, after {len(self._data)} bytes")
        self.at = end
        return start

    def scalars(self, layout: str) -> tuple[Any, ...]:
        """Read fixed size numbers of a struct layout."""
        return struct.unpack_from(layout, self._data, self.skip(struct.calcsize(layout)))

    def text(self) -> str:
        """Read a length-prefixed string; bytes that are not UTF-8 are replaced."""
        (length,) = self.scalars("<Q")
        start = self.skip(length)
        return bytes(self._data[start : self.at]).decode("utf-8", "replace")

    def can_hold(self, count: int, each_bytes: int, what: str) -> None:
        """Refuse a count that the file is too small for."""
        if count * each_bytes > min(self._size_bytes, MAX_METADATA_BYTES):
            raise NotGGUF(f"it claims {count} {what}, more than its size can hold")


def _pair(cursor: _Cursor) -> tuple[str, Any]:
    key = cursor.text()
    (kind,) = cursor.scalars("<I")
    return key, _value(cursor, kind, 0)


def _value(cursor: _Cursor, kind: int, depth: int) -> Any:
    if kind == _STRING:
        return cursor.text()
    if kind == _ARRAY:
        return _array(cursor, depth + 1)
    code = _SCALARS.get(kind)
    if code is None:
        raise NotGGUF(f"its metadata has a value of unknown type {kind}")
    return cursor.scalars("<" + code)[0]


def _array(cursor: _Cursor, depth: int) -> Any:
    if depth > MAX_NESTING:
        raise NotGGUF(f"its metadata nests arrays more than {MAX_NESTING} deep")
    kind, count = cursor.scalars("<IQ")
    code = _SCALARS.get(kind)
    each = struct.calcsize("<" + code) if code else 8
    cursor.can_hold(count, each, "array elements")
    if count <= MAX_KEPT_ELEMENTS:
        return [_value(cursor, kind, depth) for _ in range(count)]
    if code:
        cursor.skip(count * each)
    else:
        for _ in range(count):
            _value(cursor, kind, depth)
    return LongArray(kind, count)


def _needed_bytes(cursor: _Cursor, tensor_count: int, alignment: int) -> int | None:
    """Walk the tensor infos; return where the last tensor ends, or None when a type's size is not known here."""
    end_of_data, known = 0, True
    for _ in range(tensor_count):
        cursor.text()
        (dimensions,) = cursor.scalars("<I")
        if dimensions > _MAX_DIMENSIONS:
            raise NotGGUF(f"a tensor has {dimensions} dimensions, {_MAX_DIMENSIONS} is the most")
        elements = 1
        for size in cursor.scalars(f"<{dimensions}Q"):
            elements *= size
        kind, offset = cursor.scalars("<IQ")
        per_block, block_bytes = _BLOCKS.get(kind, (0, 0))
        known = known and per_block > 0
        if per_block:
            end_of_data = max(end_of_data, offset + -(-elements // per_block) * block_bytes)
    start = -(-cursor.at // alignment) * alignment
    return start + end_of_data if known else None
