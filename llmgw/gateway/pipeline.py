"""The gateway: a request goes through the steps of S-13, each a function over the exchange, in that order.

A step returns None to go on or a refusal to stop; adding one is one file and one line in `_steps`. Whatever way a
request ends, `_finish` runs once: the row, the figures and the log line come from what the exchange then holds.
"""

import random
import time
from collections.abc import Callable, Mapping
from typing import Any

import anyio
from anyio.abc import TaskStatus

from llmgw.gateway.accounting import CLIENT_GONE, outcome_of, usage_row
from llmgw.gateway.client_address import client_address
from llmgw.gateway.demand import Demand
from llmgw.gateway.exchange import Exchange
from llmgw.gateway.feed import Feed
from llmgw.gateway.figures import Figures
from llmgw.gateway.leases import Leases
from llmgw.gateway.listing import answer_model, answer_models
from llmgw.gateway.principals import Principals
from llmgw.gateway.probes import probe
from llmgw.gateway.refusals import Refusal, internal, of_status
from llmgw.gateway.relay import Relay
from llmgw.gateway.replicas import ReplicaTable
from llmgw.gateway.reporting import Reporter
from llmgw.gateway.routes import Endpoint, Kind, model_id, route
from llmgw.gateway.scrape import Scraper
from llmgw.gateway.stages.admit import admit
from llmgw.gateway.stages.authenticate import authenticate, check_shape
from llmgw.gateway.stages.dispatch import Dispatch
from llmgw.gateway.stages.identify import check_names, request_id
from llmgw.gateway.stages.limit import limit
from llmgw.gateway.stages.parse import parse
from llmgw.gateway.stages.placeholder import answer_placeholder, is_placeholder
from llmgw.gateway.stages.read_body import read_body
from llmgw.gateway.stages.resolve import resolve
from llmgw.net.engine_pool import EnginePool
from llmgw.net.http_message import ClientFault, ClientLeft, Pairs, Request, Responder
from llmgw.obs.metrics import Metrics
from llmgw.policy.routing.pick import RandomBelow
from llmgw.ports import ControlPort

BANDS = ("gold", "silver", "bronze")
SHUTTING_DOWN = 503


def new_id() -> str:
    """Return a fresh id for a request or a row: 104 random bits as 26 hex digits. Unique, and no secret."""
    return f"{random.getrandbits(104):026x}"


Access = Callable[[str, Mapping[str, str | int]], None]
"""Writes one line about one request (obs.access)."""


class Gateway:
    """Serves the client API. `handle` is the listener's handler, `on_fault` renders what the listener refuses itself.

    `clock` is monotonic seconds, `wall` Unix seconds. `access` writes the access line; the general log without it.
    """

    def __init__(
        self,
        port: ControlPort,
        pool: EnginePool,
        metrics: Metrics,
        log: Any,
        *,
        name: str = "gateway",
        clock: Callable[[], float] = time.monotonic,
        wall: Callable[[], float] = time.time,
        random_below: RandomBelow = random.randrange,
        access: Access | None = None,
    ) -> None:
        self._log = log
        self._access = access or (lambda message, fields: log.info(message, **fields))
        self._clock = clock
        self._wall = wall
        self.replicas = ReplicaTable(wall)
        self.principals = Principals(port, clock, wall)
        self.feed = Feed(port, self.replicas, self.principals)
        self._demand = Demand()
        self._leases = Leases(port, name, clock)
        self._figures = Figures(metrics)
        self._reporter = Reporter(port, name, self.replicas, self._demand)
        self._scraper = Scraper(self.feed, self.replicas, pool)
        self._dispatch = Dispatch(self.replicas, Relay(pool), self._figures, random_below)

    async def run(self, *, task_status: TaskStatus[None] = anyio.TASK_STATUS_IGNORED) -> None:
        """Follow the control port, scrape and report, until cancelled. Started once the first snapshot is in.

        Stop the listener first: rows of requests that end later would not be reported.
        """
        async with anyio.create_task_group() as group:
            await group.start(self.feed.run)
            await group.start(self._scraper.run)
            await group.start(self._reporter.run)
            task_status.started()

    async def handle(self, request: Request, responder: Responder) -> None:
        """Answer one request."""
        endpoint = route(request.method, request.path)
        if isinstance(endpoint, Refusal):
            await self._refuse(responder, request_id(request.headers, new_id), endpoint)
        elif endpoint.kind is Kind.GENERATE:
            await self._generate(self._exchange(request, responder, endpoint))
        elif endpoint.kind in (Kind.MODELS, Kind.MODEL):
            await self._list(self._exchange(request, responder, endpoint))
        else:
            await probe(
                endpoint.kind, responder, request_id(request.headers, new_id), self.feed, self.replicas
            )

    def on_fault(self, request: Request | None, fault: ClientFault) -> tuple[int, Pairs, bytes]:
        """Render a fault of the transport in OpenAI's shape; one of ours is logged under the id the client is told."""
        own_id = request_id(request.headers, new_id) if request is not None else new_id()
        if fault.status >= 500 and fault.__cause__ is not None:
            self._log.error("fault", fault=own_id, exc_info=fault.__cause__)
            refusal = internal(own_id)
        else:
            refusal = of_status(fault.status, fault.reason[:1].upper() + fault.reason[1:] + ".")
        return refusal.status, [("x-request-id", own_id), *refusal.headers()], refusal.body()

    def _exchange(self, request: Request, responder: Responder, endpoint: Endpoint) -> Exchange:
        forwarded = request.headers.get_all("x-forwarded-for")
        settings = self.feed.settings
        offered_band = request.headers.get("x-llmgw-band") or ""
        return Exchange(
            request=request,
            responder=responder,
            endpoint=endpoint,
            settings=settings,
            request_id=request_id(request.headers, new_id),
            address=client_address(request.client, forwarded, self.feed.trusted),
            clock=self._clock,
            started=self._clock(),
            started_unix=self._wall(),
            band=offered_band if not settings.keys_required and offered_band in BANDS else "silver",
        )

    async def _generate(self, exchange: Exchange) -> None:
        try:
            refusal = await self._steps(exchange)
            if refusal is not None:
                exchange.status, exchange.error_code = refusal.status, refusal.kind.code or ""
                await self._refuse(
                    exchange.responder, exchange.request_id, refusal, exchange.answer_headers()
                )
        except ClientFault as fault:
            exchange.status = fault.status
            await self._who_was_it(exchange)
            raise
        except anyio.get_cancelled_exc_class():
            if not exchange.is_answered and exchange.status < 400:
                exchange.status = CLIENT_GONE if exchange.request.client_gone else SHUTTING_DOWN
            raise
        except ClientLeft:
            exchange.status = CLIENT_GONE
            raise
        except Exception:
            exchange.status = 500
            raise
        finally:
            self._finish(exchange)

    async def _steps(self, exchange: Exchange) -> Refusal | None:
        """Run the steps of S-13 that exist, in its order. Its numbers are in the modules' first lines."""
        early = (
            check_names(exchange.request.headers)
            or check_shape(exchange)
            or await read_body(exchange)
            or await authenticate(exchange, self.principals)
            or await parse(exchange)
        )
        if early is not None:
            return early
        if is_placeholder(exchange):
            return await answer_placeholder(exchange, self.feed.names)
        return (
            resolve(exchange, self.feed.names)
            or await limit(exchange, self._leases)
            or await admit(exchange, self.feed, self.replicas, self._demand)
            or await self._dispatch(exchange)
        )

    async def _who_was_it(self, exchange: Exchange) -> None:
        """Find the principal of a request whose body failed before step 2, so that its row can be written (S-17)."""
        if exchange.key_hash and exchange.principal is None:
            await authenticate(exchange, self.principals)

    async def _list(self, exchange: Exchange) -> None:
        refusal = check_shape(exchange) or await authenticate(exchange, self.principals)
        if refusal is None and exchange.endpoint.kind is Kind.MODELS:
            await answer_models(exchange, self.feed.names, self.replicas)
        elif refusal is None:
            refusal = await answer_model(
                exchange, model_id(exchange.request.path), self.feed.names, self.replicas
            )
        if refusal is not None:
            await self._refuse(exchange.responder, exchange.request_id, refusal)

    async def _refuse(
        self, responder: Responder, own_id: str, refusal: Refusal, known: Pairs | None = None
    ) -> None:
        headers = [*(known or [("x-request-id", own_id)]), *refusal.headers()]
        await responder.respond(refusal.status, headers, refusal.body())

    def _finish(self, exchange: Exchange) -> None:
        """Account for a request that has ended. Never waits, so it also runs while its task is being cancelled."""
        ended = self._clock()
        exchange.outcome = outcome_of(exchange.status)
        if exchange.principal is not None:
            self._reporter.put(usage_row(exchange, exchange.principal, new_id, ended))
        self._figures.finished(exchange, ended)
        self._access(
            "request",
            {
                "id": exchange.request_id,
                "key_id": exchange.principal.key_id if exchange.principal is not None else "",
                "endpoint": exchange.endpoint.name,
                "model": exchange.target.name if exchange.target is not None else "",
                "replica": exchange.replica_id,
                "status": exchange.status,
                "code": exchange.error_code,
                "ms": round((ended - exchange.started) * 1000),
                "queue_ms": round(exchange.queue_s * 1000),
            },
        )
