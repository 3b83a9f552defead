"""A streamed answer of OpenAI's APIs, event by event: looked at always, changed only where it must be.

Each event is decoded once into the few members that matter. What the client gets is the engine's own bytes, except for
the name of the model, the usage chunk a client did not ask for (S-18, F-4) and tool calls that are numbered wrong
(F-8). An end without `[DONE]` is a truncation, whatever the connection says (F-5): see `is_done`.
"""

import re
from typing import Any, cast

import msgspec

from llmgw.wire.canonical import Call, Usage
from llmgw.wire.openai_chat import EngineUsage, NotAnAnswer, estimate_prompt_tokens, message_of
from llmgw.wire.openai_tool_calls import ToolCalls
from llmgw.wire.sse import SSEEvent, encode

_ABSENT = msgspec.Raw(b"null")


class _Delta(msgspec.Struct):
    """What may count as output: of any type, since it is only asked whether it is empty."""

    content: Any = None
    reasoning_content: Any = None
    reasoning: Any = None
    refusal: Any = None
    tool_calls: list[dict[str, Any]] | None = None

    def has_output(self) -> bool:
        """Return whether it carries anything the model produced."""
        return bool(self.content or self.reasoning_content or self.reasoning or self.refusal or self.tool_calls)


class _Choice(msgspec.Struct):
    index: int = 0
    delta: _Delta | None = None
    text: Any = None


class _Chunk(msgspec.Struct):
    id: str | None = None
    model: msgspec.Raw = _ABSENT
    choices: list[_Choice] | None = None
    usage: EngineUsage | None = None
    error: msgspec.Raw = _ABSENT


_CHUNK = msgspec.json.Decoder(_Chunk)
_MODEL = re.compile(rb'"model"\s*:\s*("(?:[^"\\]|\\.)*"|null)')


class EngineSaid(Exception):
    """An error event in a stream. `message` is the engine's; `status` its HTTP-like code where it gave one."""

    def __init__(self, message: str, status: int | None) -> None:
        super().__init__(message)
        self.message = message
        self.status = status


class StreamReader:
    """Reads one engine's stream for one client. Make another for another attempt."""

    def __init__(self, call: Call, answer_name: str) -> None:
        self._call = call
        self._name = msgspec.json.encode(answer_name)
        self._model = b'"model":' + self._name
        self._engine_model = b'"model":\n'
        self._usage: EngineUsage | None = None
        self._deltas = 0
        self._tool_calls: dict[int, ToolCalls] = {}
        self.is_done = False

    @property
    def has_output(self) -> bool:
        """Whether anything the model produced has come."""
        return self._deltas > 0

    def usage(self) -> Usage:
        """Return the tokens so far: the engine's count, else one per delta and the prompt's estimate."""
        if self._usage is not None:
            return self._usage.tokens(self._call.operation)
        return Usage(estimate_prompt_tokens(self._call), self._deltas, is_estimated=True)

    def feed(self, event: SSEEvent) -> bytes:
        """Return what the client gets of an event, b"" for nothing.

        Raises EngineSaid for an error event, NotAnAnswer for data that is no chunk of this API.
        """
        data = event.data
        if not data or self.is_done:
            return b""
        if data == b"[DONE]":
            self.is_done = True
            return b"data: [DONE]\n\n"
        try:
            chunk = _CHUNK.decode(data)
        except (msgspec.DecodeError, RecursionError):
            if event.event == "error":
                raise EngineSaid("the engine reported an error", None) from None
            raise NotAnAnswer("the engine sent an event that is no chunk of this API") from None
        if chunk.choices is None or event.event == "error":
            self._without_choices(chunk, event)
        if chunk.usage is not None:
            self._usage = chunk.usage
            if not chunk.choices and not self._call.wants_usage:
                return b""
        return self._pass_on(event, chunk)

    def _without_choices(self, chunk: _Chunk, event: SSEEvent) -> None:
        """Raise for an event with no choices, unless it is a bare usage chunk."""
        if bytes(chunk.error) != b"null" or event.event == "error":
            raise _engine_error(event.data)
        if chunk.usage is None:
            raise NotAnAnswer("the engine sent an event without choices")

    def _pass_on(self, event: SSEEvent, chunk: _Chunk) -> bytes:
        changed: bytes | None = None
        for choice in chunk.choices or ():
            if choice.delta is not None:
                self._deltas += choice.delta.has_output()
                if choice.delta.tool_calls:
                    changed = self._settle_tool_calls(choice, changed or event.data, chunk.id or "") or changed
            elif choice.text:
                self._deltas += 1
        whole = event.raw if changed is None else changed
        renamed = self._renamed(whole, chunk)
        if renamed is None:
            return encode(self._renamed_slowly(changed or event.data), event.event)
        return renamed if changed is None else encode(renamed, event.event)

    def _settle_tool_calls(self, choice: _Choice, data: bytes, answer_id: str) -> bytes | None:
        """Return the event's data with the choice's tool calls put right, None where they are right."""
        assert choice.delta is not None
        assert choice.delta.tool_calls is not None
        calls = self._tool_calls.get(choice.index)
        if calls is None:
            calls = self._tool_calls[choice.index] = ToolCalls(answer_id, choice.index)
        settled, is_changed = calls.settle(choice.delta.tool_calls)
        if not is_changed:
            return None
        whole = msgspec.json.decode(data)
        for entry in whole["choices"]:
            if entry.get("index", 0) == choice.index:
                entry["delta"]["tool_calls"] = settled
        return msgspec.json.encode(whole)

    def _renamed(self, text: bytes, chunk: _Chunk) -> bytes | None:
        """Return the text with the value of `model` replaced, None where that takes the slow way.

        A quote inside a JSON text is escaped, so the member's name in quotes is found nowhere but at a member. Where it
        is found twice, an object inside has one too, and which is whose cannot be told without taking it apart.
        """
        if bytes(chunk.model) in (b"null", self._name):
            return text
        if text.count(b'"model"') != 1:
            return None
        if self._engine_model not in text:
            found = _MODEL.search(text)
            if found is None:
                return None
            self._engine_model = found[0]
        return text.replace(self._engine_model, self._model, 1)

    def _renamed_slowly(self, data: bytes) -> bytes:
        fields = msgspec.json.decode(data, type=dict[str, msgspec.Raw])
        fields["model"] = msgspec.Raw(self._name)
        return msgspec.json.encode(fields)


def _engine_error(data: bytes) -> EngineSaid:
    fields = msgspec.json.decode(data, type=dict[str, Any])
    error = fields.get("error")
    code = cast("dict[str, Any]", error if isinstance(error, dict) else fields).get("code")
    message = message_of(error) or message_of(fields) or "the engine reported an error"
    return EngineSaid(message, code if isinstance(code, int) and 400 <= code < 600 else None)
