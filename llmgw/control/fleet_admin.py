"""What the admin API changes: the catalog, scaling, cordons, parked models. Checked first, kept next, then in force."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from llmgw.config.model import definition_data
from llmgw.config.refusal import Refused
from llmgw.control.estate import Estate
from llmgw.control.keeper import Keeper, StoredModel
from llmgw.ports import AuditEvent

LOG_LINES_AT_MOST = 5000


class FleetChanges:
    """The changing half of `ports.FleetAdmin`. `wake` starts a pass after a change."""

    def __init__(self, estate: Estate, keeper: Keeper, wake: Callable[[], None]) -> None:
        self._estate = estate
        self._keeper = keeper
        self._wake = wake

    async def add_model(self, definition: Mapping[str, Any], audit: AuditEvent) -> Mapping[str, Any]:
        """Validate and keep a model; return it with defaults filled. Refused 400, 409, 501, 503."""
        term = self._term()
        checked, data = self._estate.catalog.checked(definition)
        now_unix = self._estate.now_unix()
        await self._keeper.save_model(term, StoredModel(checked.name, data, now_unix), audit.actor, audit)
        self._estate.catalog.add(checked, now_unix)
        self._estate.forget_model(checked.name)
        self._wake()
        return definition_data(checked)

    async def remove_model(self, name: str, force: bool, audit: AuditEvent) -> None:
        """Forget a model; its replicas drain and stop. Refused 404, 409, 503."""
        term, catalog = self._term(), self._estate.catalog
        _ = catalog[name]
        if catalog.is_declared(name):
            raise Refused(
                409, f"model {name!r} is declared in the settings; remove it from `models:` there instead"
            )
        users = catalog.named_as_fallback(name)
        if users and not force:
            raise Refused(
                409, f"model {name!r} is a fallback of {', '.join(users)}; change those first, or use force"
            )
        await self._keeper.delete_model(term, name, audit)
        catalog.remove(name)
        self._estate.forget_model(name)
        self._wake()

    async def scale_model(self, name: str, change: Mapping[str, Any], audit: AuditEvent) -> Mapping[str, Any]:
        """Set any of min, max, idle_timeout. Returns the scaling in force. Refused 400, 404, 503."""
        term, catalog = self._term(), self._estate.catalog
        scaling = catalog.checked_scaling(name, change)
        await self._keeper.save_scaling(term, name, scaling, audit)
        catalog.set_scaling(name, scaling)
        self._wake()
        return definition_data(catalog[name])["scaling"]

    async def retry_model(self, name: str, audit: AuditEvent) -> None:
        """Clear a model's failures and parked state. Refused 404, 503."""
        term = self._term()
        _ = self._estate.catalog[name]
        await self._keeper.unpark(term, name, audit)
        self._estate.forgive(name)
        self._wake()

    async def set_cordon(self, node_id: str, cordoned: bool, audit: AuditEvent) -> None:
        """Keep new replicas off a node, or stop doing so. Refused 404, 503."""
        term = self._term()
        self._known(node_id)
        by = audit.actor if cordoned else None
        await self._keeper.set_cordon(term, node_id, by, audit)
        self._estate.inventory.cordon(node_id, by or "")
        self._estate.inventory.refresh(self._estate.now_s(), self._estate.now_unix())
        self._wake()

    async def node_logs(self, node_id: str, shard_id: str, lines: int) -> tuple[Sequence[str], bool]:
        """Return log lines of a shard ("" = the agent's own) and whether they were cut. Refused 404, 503."""
        self._known(node_id)
        reply = await self._estate.links.logs(node_id, shard_id, max(1, min(lines, LOG_LINES_AT_MOST)))
        if reply.error:
            raise Refused(404, reply.error)
        return reply.lines, reply.truncated

    def _known(self, node_id: str) -> None:
        if self._estate.inventory.get(node_id) is None:
            raise Refused(404, f"there is no node {node_id[:80]!r}; `llmgw ctl nodes` lists those there are")

    def _term(self) -> int:
        """Return the term to write under. Raises Refused(503) while this control plane does not lead."""
        if not self._estate.term:
            raise Refused(503, "this control plane does not lead now; ask the one that does, or try again shortly")
        return self._estate.term
