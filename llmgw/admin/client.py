"""The admin API's client: for `llmgw ctl`, synchronous, on the standard library's http.client.

It starts fast because it imports no event loop, no server and no store. Paths and methods come from the route table.
Every failure is one sentence that says what was asked of whom and what to check (C-49, C-50).
"""

import http.client
import json
from collections.abc import Mapping
from typing import Any
from urllib.parse import quote, urlencode, urlsplit

from llmgw.admin.routes import API, by_operation

_TIMEOUT_S = 30.0
_MOST_BYTES = 64 * 1024 * 1024


class ClientFailure(Exception):
    """What went wrong, as one sentence. `status` is the answer's, 0 when there was none."""

    def __init__(self, sentence: str, status: int = 0) -> None:
        super().__init__(sentence)
        self.sentence = sentence
        self.status = status


class AdminClient:
    """Asks one control plane. `address` is `http://HOST:PORT`; `actor` is who runs the program (C-08)."""

    def __init__(self, address: str, token: str, actor: str, timeout_s: float = _TIMEOUT_S) -> None:
        self.address = address.rstrip("/")
        self._token = token
        self._actor = actor
        self._timeout_s = timeout_s
        try:
            parts = urlsplit(address if "://" in address else f"http://{address}")
            host, port = parts.hostname, parts.port
        except ValueError:  # a bracket that is not closed, a port that is none
            parts, host, port = urlsplit(""), None, None
        if parts.scheme not in ("http", "https") or not host:
            raise ClientFailure(f"{address} is no address of a server; write it like http://127.0.0.1:9090")
        kind = http.client.HTTPSConnection if parts.scheme == "https" else http.client.HTTPConnection
        self._connect = lambda: kind(host, port, timeout=timeout_s)
        self._root = parts.path.rstrip("/")

    def call(
        self, operation: str, params: Mapping[str, str] | None = None, *,
        query: Mapping[str, Any] | None = None, body: Mapping[str, Any] | None = None,
    ) -> Any:
        """Ask for an operation of the route table; return its decoded answer. Raises ClientFailure."""
        route = by_operation(operation)
        path = API + route.path
        for name, value in (params or {}).items():
            if "/" in value:
                raise ClientFailure(f"{value[:80]!r} is no {name}: none holds a slash")
            path = path.replace("{" + name + "}", quote(value, safe=""))
        given = {k: _query_text(v) for k, v in (query or {}).items() if v is not None}
        return self._ask(route.method, path + ("?" + urlencode(given) if given else ""), body, route.is_change)

    def _ask(self, method: str, path: str, body: Mapping[str, Any] | None, is_change: bool) -> Any:
        headers = {"Authorization": f"Bearer {self._token}", "X-Llmgw-Actor": self._actor, "Accept": "application/json"}
        raw = None
        if is_change:
            headers["Content-Type"] = "application/json"
            raw = json.dumps(body or {}).encode()
        connection = self._connect()
        try:
            connection.request(method, self._root + path, raw, headers)
            response = connection.getresponse()
            return self._read(response, response.read(_MOST_BYTES + 1))
        except ConnectionRefusedError:
            raise ClientFailure(
                f"nothing answers at {self.address}; start the server, or name another with --server"
            ) from None
        except TimeoutError:
            raise ClientFailure(f"{self.address} did not answer within {self._timeout_s:g} s") from None
        except (OSError, http.client.HTTPException, ValueError) as error:
            said = getattr(error, "strerror", None) or str(error) or type(error).__name__
            reason = "".join(c if c.isprintable() else " " for c in said).strip()[:200]
            raise ClientFailure(f"{self.address} cannot be asked: {reason}; check the address") from None
        finally:
            connection.close()

    def _read(self, response: http.client.HTTPResponse, raw: bytes) -> Any:
        kind = (response.getheader("Content-Type") or "").partition(";")[0].strip().lower()
        if kind == "text/html" or raw[:15].lstrip().lower().startswith((b"<!doctype", b"<html")):
            raise ClientFailure(
                f"{self.address} answers with a web page, not with the admin API; check that it is the address of "
                "admin_listen and that no proxy or portal stands there",
                response.status,
            )
        if len(raw) > _MOST_BYTES:
            raise ClientFailure(f"the answer of {self.address} is larger than {_MOST_BYTES} bytes", response.status)
        try:
            answer = json.loads(raw) if raw.strip() else None
        except ValueError:
            raise ClientFailure(
                f"{self.address} does not answer with JSON; check that it is the address of admin_listen",
                response.status,
            ) from None
        if 200 <= response.status < 300:
            return answer
        raise self._refusal(response.status, answer)

    def _refusal(self, status: int, answer: Any) -> ClientFailure:
        sentence = answer.get("error") if isinstance(answer, dict) else None
        if status == 401:
            return ClientFailure(
                f"{self.address} does not take this admin token; set LLMGW_ADMIN_TOKEN to the one of its "
                "admin_token_file, or run it with sudo where that file is",
                status,
            )
        if status == 404 and isinstance(sentence, str) and "openapi.json" in sentence:
            return ClientFailure(f"the server at {self.address} is older than this ctl and cannot do that", status)
        if not isinstance(sentence, str):
            return ClientFailure(f"{self.address} answers {status} without a reason; is it the admin API?", status)
        return ClientFailure(sentence, status)


def _query_text(value: Any) -> str:
    return ("true" if value else "false") if isinstance(value, bool) else str(value)
