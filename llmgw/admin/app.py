"""The admin API as an ASGI application: the rules of C-01 to C-10 in their order, then the route's operation.

One request passes, in this order (C-07): Host, Origin and Sec-Fetch-Site, token, route, content type, size, body,
operation. Each step raises Refused, which becomes the answer; for a change it also becomes an audit event.
"""

import secrets
from collections.abc import Mapping
from typing import Any, cast

import anyio
import msgspec
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import Match
from starlette.routing import Route as PathRoute

from llmgw.admin import guards
from llmgw.admin.audit import Attempt
from llmgw.admin.bodies import Body, HealthView, read_body, read_json
from llmgw.admin.operations import OPERATIONS, Call, Services
from llmgw.admin.routes import API, ROUTES, Query, Route
from llmgw.admin.token import Throttle, TokenCheck
from llmgw.config.refusal import Refused
from llmgw.obs import log
from llmgw.obs.metrics import OPENMETRICS_TYPE, TEXT_TYPE, Metrics
from llmgw.ports import StoreUnavailable

_BODY_GAP_S = 30.0
_BODY_TOTAL_S = 300.0
_JSON = "application/json; charset=utf-8"
_BARE_SAFE = {"Cache-Control": "no-store", "X-Content-Type-Options": "nosniff"}


class Answered(Refused):
    """A refusal that carries headers."""

    def __init__(self, status: int, sentence: str, headers: Mapping[str, str]) -> None:
        super().__init__(status, sentence)
        self.headers = headers


class AdminApp:
    """Everything `admin_listen` answers."""

    def __init__(self, services: Services, token: TokenCheck, metrics: Metrics) -> None:
        self._services = services
        self._token = token
        self._throttle = Throttle()
        self._metrics = metrics
        self._log = log.get("admin")
        self._routes = [(PathRoute(API + r.path, _never, methods=[r.method]), r) for r in ROUTES]

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """Answer one request. A WebSocket is closed: there is none here."""
        if scope["type"] == "websocket":
            await send({"type": "websocket.close", "code": 1000})
        if scope["type"] != "http":
            return
        request = Request(scope, receive)
        try:
            response = await self._answer(request)
        except ClientDisconnect:
            return
        await response(scope, receive, send)

    async def _answer(self, request: Request) -> Response:
        attempt = Attempt(self._services.wall(), request.client.host if request.client else "")
        is_change = request.method not in ("GET", "HEAD") and request.url.path.startswith("/api")
        result, status, sentence, headers = "refused", 0, "", {}
        try:
            return await self._pass(request, attempt)
        except Refused as refusal:
            status, sentence = refusal.status, refusal.sentence
            headers = dict(refusal.headers) if isinstance(refusal, Answered) else {}
        except StoreUnavailable:
            result, status, sentence = "failed", 503, "the store cannot be asked now; try again shortly"
        except ClientDisconnect:
            raise
        except Exception:
            fault = secrets.token_hex(4)
            self._log.exception("a request failed", fault=fault, method=request.method, path=request.url.path)
            result, status, sentence = "failed", 500, f"fault {fault} of the server; its log says more"
        if is_change and status in (401, 429):
            self._services.trail.unauthorized(attempt)
        elif is_change:
            await self._services.trail.not_made(attempt, result, status, sentence)
        return _json(status, {"error": sentence}, headers)

    async def _pass(self, request: Request, attempt: Attempt) -> Response:
        """Take one request through every rule. `attempt` is filled in on the way, for the audit of a refusal."""
        headers = request.headers
        if len(headers.getlist("host")) > 1:
            raise Refused(400, "the request has more than one Host")
        guards.check_host(headers.get("host"))
        guards.check_same_site(headers.get("host"), headers.get("origin"), headers.get("sec-fetch-site"))
        if not request.url.path.startswith("/api"):
            return await self._plain(request)
        self._check_token(request, attempt.address)
        route, params = self._route(request, attempt)
        if route.is_change:
            guards.check_json_content(headers.get("content-type"))
        raw = await _read(request) if route.is_change else b""
        attempt.actor = guards.actor_of(headers.get("x-llmgw-actor"))
        query = _query(request, route)
        attempt.fields = read_json(raw) if route.is_change else {}
        body = _body(route, attempt.fields)
        if route.operation == "add_model":
            attempt.target = f"model:{attempt.fields.get('name', '')}"
        if route.is_change and not self._services.leading():
            raise Refused(503, "this control plane does not lead; ask the leader")
        call = Call(self._services, params, query, attempt.fields, body, attempt.actor, attempt, route.status)
        answer = await OPERATIONS[route.operation](call)
        return _json(route.status, answer, {}) if route.answer is not None else Response(status_code=route.status)

    def _check_token(self, request: Request, address: str) -> None:
        """C-03. A request without any token is no guess and is not counted."""
        now_s = anyio.current_time()
        wait_s = self._throttle.wait_s(address, now_s)
        if wait_s > 0:
            raise Answered(
                429, "ten wrong tokens came from this address within a minute; wait until it is over",
                {"Retry-After": str(int(wait_s) + 1)},
            )
        given = request.headers.get("authorization")
        if self._token.is_right(given):
            return
        if given is not None:
            self._throttle.wrong(address, now_s)
        raise Answered(
            401, "the admin token is missing or wrong; send Authorization: Bearer with the token of admin_token_file",
            {"WWW-Authenticate": "Bearer"},
        )

    def _route(self, request: Request, attempt: Attempt) -> tuple[Route, Mapping[str, str]]:
        allowed: set[str] = set()
        for pattern, route in self._routes:
            match, scope = pattern.matches(request.scope)
            if match is Match.FULL:
                params = cast(Mapping[str, str], scope["path_params"])
                attempt.action = route.action
                attempt.target = f"{route.target}:{next(iter(params.values()), '')}" if route.target else ""
                return route, params
            if match is Match.PARTIAL:
                allowed |= pattern.methods or set()
        path = request.url.path
        if allowed:
            names = ", ".join(sorted(allowed))
            raise Answered(405, f"{request.method} is not a method of {path}; it has {names}", {"Allow": names})
        raise Refused(404, f"there is no {path} in this API; {API}/openapi.json lists what there is")

    async def _plain(self, request: Request) -> Response:
        path = request.url.path
        if path not in ("/health", "/metrics"):
            raise Refused(404, f"there is no {path} on this listener; the API is under {API}")
        if request.method not in ("GET", "HEAD"):
            raise Answered(405, f"{request.method} is not a method of {path}", {"Allow": "GET, HEAD"})
        if path == "/health":
            return _json(200, HealthView(), {})
        return await exposition(request, self._metrics)


async def exposition(request: Request, metrics: Metrics) -> Response:
    """Answer a scrape in the format it asks for (M-101)."""
    as_openmetrics = "application/openmetrics-text" in request.headers.get("accept", "")
    kind = OPENMETRICS_TYPE if as_openmetrics else TEXT_TYPE
    return Response(await metrics.render(as_openmetrics=as_openmetrics), headers={"Content-Type": kind})


async def _never(request: Request) -> Response:
    """Stand in for an endpoint: the patterns here are only matched."""
    raise AssertionError(request.url.path)


def _body(route: Route, fields: Mapping[str, Any]) -> Body | None:
    """Return the struct of a change whose fields are checked here; None where the operation checks them itself."""
    kind = route.body
    return read_body(fields, kind) if isinstance(kind, type) and issubclass(kind, Body) else None


async def _read(request: Request) -> bytes:
    """Return the body, at most 1 MiB of it (413), sent within 5 minutes and never silent for 30 s (408)."""
    announced = request.headers.get("content-length", "0")
    if announced.isdecimal() and int(announced) > guards.MAX_BODY_BYTES:
        raise Refused(413, f"the body is larger than {guards.MAX_BODY_BYTES} bytes")
    raw = bytearray()
    chunks = request.stream()
    try:
        with anyio.fail_after(_BODY_TOTAL_S):
            while True:
                with anyio.fail_after(_BODY_GAP_S):
                    chunk = await anext(chunks, None)
                if chunk is None:
                    return bytes(raw)
                raw += chunk
                if len(raw) > guards.MAX_BODY_BYTES:
                    raise Refused(413, f"the body is larger than {guards.MAX_BODY_BYTES} bytes")
    except TimeoutError:
        raise Refused(408, "the body did not arrive in time") from None


def _query(request: Request, route: Route) -> dict[str, Any]:
    """Return the query's parameters by name, converted. Raises Refused(400) naming what is wrong."""
    known = {query.name: query for query in route.query}
    out: dict[str, Any] = {}
    for name, value in request.query_params.items():
        if name not in known:
            takes = ", ".join(known) or "none"
            raise Refused(400, f"unknown query parameter {name}; {route.method} {API}{route.path} takes {takes}")
        out[name] = _converted(known[name], value)
    return out


def _converted(query: Query, value: str) -> Any:
    if query.kind == "integer":
        if not value.isascii() or not value.isdecimal() or len(value) > 18:
            raise Refused(400, f"{query.name} is {value[:40]!r}; it must be a whole number")
        return int(value)
    if query.kind == "boolean":
        if value not in ("true", "false"):
            raise Refused(400, f"{query.name} is {value[:40]!r}; it must be true or false")
        return value == "true"
    if query.choices and value not in query.choices:
        raise Refused(400, f"{query.name} is {value[:40]!r}; it must be one of {', '.join(query.choices)}")
    return value


def _json(status: int, value: Any, headers: Mapping[str, str]) -> Response:
    raw = msgspec.json.encode(value)
    return Response(raw, status_code=status, headers={"Content-Type": _JSON, **_BARE_SAFE, **headers})
