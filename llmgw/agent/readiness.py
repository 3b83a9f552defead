"""When an engine counts as ready: it answers health, lists its model, and has computed one token (E-131).

Health alone has been seen to answer 200 before a first request would, and to come from another program on the port; the
model's name proves whose answer it is, and one token proves that the weights compute.
"""

from typing import Any

import anyio
import httpx

from llmgw.agent.engines.adapter import EngineAdapter
from llmgw.agent.process_group import EngineProcess
from llmgw.agent.shard_spec import ShardSpec

SETTLE_S = 10.0
"""How long a worker must stay alive to count as ready (E-132)."""

_POLL_S = 1.0
_FIRST_POLL_S = 0.05
_REQUEST_S = 2.0
_FIRST_TOKEN_S = 120.0
_MODELS_BYTES = 4 * 1024 * 1024


class NotReady(Exception):
    """The engine did not become ready; `sentence` says what it last answered."""

    def __init__(self, sentence: str) -> None:
        super().__init__(sentence)
        self.sentence = sentence


async def wait_ready(process: EngineProcess, adapter: EngineAdapter, spec: ShardSpec, timeout_s: float) -> None:
    """Wait until the shard is ready, at most `timeout_s` seconds. Raises NotReady; returns early when it exited."""
    if not adapter.serves_http(spec):
        with anyio.move_on_after(SETTLE_S):
            await process.exited.wait()
        return
    check = _Check(adapter, spec)
    base = f"http://{spec.health_host}:{spec.http_port}"
    async with httpx.AsyncClient(base_url=base, timeout=_REQUEST_S, trust_env=False) as client:
        with anyio.move_on_after(timeout_s):
            await _poll(process, check, client)
            return
    raise NotReady(f"it was not ready within {timeout_s:g} s: {check.last}")


async def _poll(process: EngineProcess, check: "_Check", client: httpx.AsyncClient) -> None:
    pause_s = _FIRST_POLL_S
    while not process.exited.is_set():
        try:
            if await check.passes(client):
                return
        except httpx.HTTPError as error:
            check.last = f"no answer ({type(error).__name__})"
        except ValueError:
            check.last = "an answer that is not HTTP with JSON"
        with anyio.move_on_after(pause_s):
            await process.exited.wait()
        pause_s = min(pause_s * 1.5, _POLL_S)


class _Check:
    """The three questions in turn; one that was answered is not asked again. `last` says where it stands."""

    def __init__(self, adapter: EngineAdapter, spec: ShardSpec) -> None:
        self.last = "it has not been asked yet"
        self._adapter = adapter
        self._spec = spec
        self._headers = {"Authorization": f"Bearer {spec.api_key}"} if spec.api_key else {}

    async def passes(self, client: httpx.AsyncClient) -> bool:
        """Ask what is still open; return whether everything is answered."""
        return await self._is_healthy(client) and await self._lists_model(client) and await self._computes(client)

    async def _is_healthy(self, client: httpx.AsyncClient) -> bool:
        answer = await client.get(self._adapter.health_path)
        self.last = f"{self._adapter.health_path} answers {answer.status_code}"
        return answer.status_code == 200

    async def _lists_model(self, client: httpx.AsyncClient) -> bool:
        name = self._spec.profile.served_model_name
        if not name:
            return True
        answer = await client.get("/v1/models", headers=self._headers)
        if answer.status_code != 200 or len(answer.content) > _MODELS_BYTES:
            self.last = f"/v1/models answers {answer.status_code}"
            return False
        self.last = f"/v1/models does not list {name}"
        return name in _model_names(answer.json())

    async def _computes(self, client: httpx.AsyncClient) -> bool:
        """A 4xx or 501 says that this model does not answer such requests: it has spoken, and that is enough."""
        asked = self._adapter.first_token(self._spec)
        if asked is None:
            return True
        headers = {**self._headers, "Content-Type": "application/json"}
        answer = await client.post(asked.path, content=asked.body, headers=headers, timeout=_FIRST_TOKEN_S)
        self.last = f"{asked.path} answers {answer.status_code}"
        if answer.status_code == 401:
            self.last += ": it does not take the key it was given"
        return answer.status_code == 200 or answer.status_code in (400, 404, 501)


def _model_names(document: Any) -> set[str]:
    """Return ids and aliases of an OpenAI model list."""
    rows = document.get("data", []) if isinstance(document, dict) else []
    names: set[str] = set()
    for row in rows if isinstance(rows, list) else []:
        if isinstance(row, dict):
            names.add(str(row.get("id", "")))
            names.update(str(alias) for alias in row.get("aliases") or [])
    return names
