"""Tool calls of a streamed answer, put right: dense indices from 0, id and name once, fragments in order (F-8).

Clients join fragments by `index` and nothing else. Engines number from 1, leave the index or the id out, give every
parallel call index 0, or repeat id and name with each fragment: joined as they stand, calls merge or vanish. Whose
fragment one is can be told from what it carries: a new id, or a new index, or a name where the call at hand is
complete. A stream that is right already is passed on byte for byte.
"""

from typing import Any, cast

import msgspec


class _Call:
    """One call under way: the engine's index and id of it, and its arguments so far."""

    __slots__ = ("arguments", "engine_id", "engine_index", "name")

    def __init__(self, engine_index: int | None, engine_id: str, name: str) -> None:
        self.engine_index = engine_index
        self.engine_id = engine_id
        self.name = name
        self.arguments: list[str] = []

    def is_complete(self) -> bool:
        """Return whether the arguments are a whole JSON text, so that another name means another call."""
        try:
            msgspec.json.decode("".join(self.arguments))
        except msgspec.DecodeError:
            return False
        return True


class ToolCalls:
    """The calls of one choice. `answer_id` is what ids that the engine left out are made from."""

    def __init__(self, answer_id: str, choice: int) -> None:
        self._stem = f"call_{answer_id.rpartition('-')[2] or 'x'}_{choice}"
        self._calls: list[_Call] = []

    def settle(self, fragments: list[dict[str, Any]]) -> tuple[list[dict[str, Any]], bool]:
        """Return the fragments as they should be, and whether that differs from how they came."""
        settled = [self._settle(fragment) for fragment in fragments]
        return settled, settled != fragments

    def _settle(self, fragment: dict[str, Any]) -> dict[str, Any]:
        engine_id = _text(fragment.get("id"))
        engine_index = fragment.get("index") if isinstance(fragment.get("index"), int) else None
        function = _object(fragment.get("function"))
        name = _text(function.get("name"))
        arguments = function.get("arguments")
        position = self._find(engine_index, engine_id, name)
        out: dict[str, Any] = {key: value for key, value in fragment.items() if key not in ("id", "type", "function")}
        if position is None:
            position = len(self._calls)
            self._calls.append(_Call(engine_index, engine_id, name))
            out |= {"id": engine_id or f"{self._stem}_{position}", "type": _text(fragment.get("type")) or "function"}
            out["function"] = function
        else:
            if not self._calls[position].name and name:
                self._calls[position].name = name
            elif "name" in function:
                function = {key: value for key, value in function.items() if key != "name"}
            if "type" in fragment:
                out["type"] = fragment["type"]
            out["function"] = function
        out["index"] = position
        if isinstance(arguments, str):
            self._calls[position].arguments.append(arguments)
        elif arguments is not None:
            text = msgspec.json.encode(arguments).decode()
            out["function"] = {**function, "arguments": text}
            self._calls[position].arguments.append(text)
        return out

    def _find(self, index: int | None, engine_id: str, name: str) -> int | None:
        """Return the position of the call a fragment belongs to, None when it begins another."""
        newest_first = range(len(self._calls) - 1, -1, -1)
        if engine_id:
            for at in newest_first:
                if self._calls[at].engine_id == engine_id:
                    return at
            return None
        if index is not None:
            same = [at for at in newest_first if self._calls[at].engine_index == index]
        else:
            same = list(newest_first[:1])
        if not same:
            return None
        call = self._calls[same[0]]
        begins_another = name and call.name and (name != call.name or call.is_complete())
        return None if begins_another else same[0]


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""


def _object(value: Any) -> dict[str, Any]:
    return cast("dict[str, Any]", value) if isinstance(value, dict) else {}
