"""What the admin API writes into the audit log, and how it is read back (C-55 to C-58).

A change that succeeds is recorded by the leader, in the transaction of the change where there is one; the API only
prepares the event. What is refused or fails is recorded here. Requests without a valid token could be many, so those
become one event per address and minute.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import anyio
import msgspec

from llmgw.config.redaction import redact, redact_text
from llmgw.obs import log
from llmgw.ports import AuditEvent, AuditLog, StoreUnavailable
from llmgw.wire.admin import AuditEventView

_LONGEST = 2048
_MOST_FIELDS = 64
_MOST_ADDRESSES = 1000
_LAST_WRITE_S = 2.0


class AuditAsk(msgspec.Struct, frozen=True, kw_only=True):
    """What to read. Times are Unix seconds; `action` may end in `*`; `before` is an id; newest first."""

    since_unix: float | None = None
    until_unix: float | None = None
    actor: str | None = None
    source: str | None = None
    action: str | None = None
    target: str | None = None
    result: str | None = None
    limit: int = 200
    before: int | None = None


class AuditReader(Protocol):
    """Reads audit events."""

    async def query(self, ask: AuditAsk) -> Sequence[AuditEventView]:
        """Return events, newest first. Raises StoreUnavailable."""
        ...


@dataclass
class Attempt:
    """What is known of a change while it is being answered; filled in as the request is read."""

    at_unix: float
    address: str
    actor: str = "unknown"
    action: str = ""
    target: str = ""
    fields: Mapping[str, Any] = field(default_factory=dict[str, Any])


def struck(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return the values of fields fit for the log: secrets struck out, each cut at 2 KiB (C-57)."""
    clean: dict[str, Any] = redact(values)
    return {name: _cut(value) for name, value in list(clean.items())[:_MOST_FIELDS]}


def _cut(value: Any) -> Any:
    text = value if isinstance(value, str) else msgspec.json.encode(value, enc_hook=str).decode()
    return value if len(text.encode()) <= _LONGEST else text.encode()[: _LONGEST - 3].decode(errors="ignore") + "…"


class AuditTrail:
    """Prepares and writes the events of one control plane's admin API."""

    def __init__(self, sink: AuditLog | None, control_plane: str) -> None:
        self._sink = sink
        self._control_plane = control_plane
        self._unauthorized: dict[str, tuple[float, int]] = {}
        self._log = log.get("admin.audit")

    def prepare(
        self, attempt: Attempt, before: Mapping[str, Any], after: Mapping[str, Any], status: int
    ) -> AuditEvent:
        """Return the event of a change that is about to be made; whoever makes it writes it."""
        return self._event(attempt, "ok", status, "", struck(before), struck(after))

    async def not_made(self, attempt: Attempt, result: str, status: int, sentence: str) -> None:
        """Record a change that was `refused` or `failed`. Values are left out: nothing was changed."""
        await self._write(self._event(attempt, result, status, sentence, {}, {}))

    def unauthorized(self, attempt: Attempt) -> None:
        """Count a change that came without a valid token; `write_unauthorized` records it."""
        address = attempt.address
        if address not in self._unauthorized and len(self._unauthorized) >= _MOST_ADDRESSES:
            address = "other"
        first, count = self._unauthorized.get(address, (attempt.at_unix, 0))
        self._unauthorized[address] = (first, count + 1)

    async def write_unauthorized(self) -> None:
        """Record what `unauthorized` counted, one event per address, and begin again."""
        counted, self._unauthorized = self._unauthorized, {}
        for address, (first, count) in counted.items():
            attempt = Attempt(first, address, action="api.unauthorized", target="api")
            await self._write(self._event(attempt, "refused", 401, _without_token(count), {}, {}))

    async def run(self, every_s: float = 60.0) -> None:
        """Record counted requests every minute, and what is left when cancelled. A service."""
        try:
            while True:
                await anyio.sleep(every_s)
                await self.write_unauthorized()
        finally:
            with anyio.move_on_after(_LAST_WRITE_S, shield=True):
                await self.write_unauthorized()

    async def _write(self, event: AuditEvent) -> None:
        if self._sink is None:
            return
        try:
            await self._sink.write(event)
        except StoreUnavailable:
            facts = {name: getattr(event, name) for name in ("actor", "action", "target", "result", "status")}
            self._log.error("an audit event could not be written; the store is away", **facts)

    def _event(
        self, attempt: Attempt, result: str, status: int, sentence: str, before: Mapping[str, Any],
        after: Mapping[str, Any],
    ) -> AuditEvent:
        return AuditEvent(
            at_unix=attempt.at_unix,
            actor=redact_text(attempt.actor),
            source="api",
            action=attempt.action or "api.unknown",
            target=redact_text(attempt.target)[:_LONGEST],
            result=result,
            status=status,
            error=redact_text(sentence)[:_LONGEST],
            address=attempt.address,
            control_plane=self._control_plane,
            fields=tuple(_field_names(attempt.fields)),
            before=before,
            after=after,
        )


def _field_names(fields: Mapping[str, Any]) -> Sequence[str]:
    """Names are what the caller chose too, so a secret sent as a name is struck out as well."""
    return [redact_text(name)[:128] for name in list(fields)[:_MOST_FIELDS]]


def _without_token(count: int) -> str:
    return f"{count} change{'s' if count > 1 else ''} asked for without a valid token"
