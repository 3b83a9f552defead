"""The agents' transport, both halves: a dialled HTTP/2 request whose two bodies are message streams (20 sections 1, 2).

The dialling half is one `async with`: connection, handshake, request and answer, each bounded, then the stream. The
listening half runs one task per connection and one per request; what a connection does wrong ends that connection.
HTTP/1.1 is answered 505 in its own language, whether it came in clear or under a TLS handshake without ALPN `h2`.
"""

import json
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import trio

from llmgw.net.h2_connection import H2Connection, Keepalive, StreamLimits
from llmgw.net.h2_stream import H2Stream, Headers, StreamBroken
from llmgw.net.tls_contexts import ALPN, common_name

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
_MAX_REFUSAL_BYTES = 65_536
_HTTP1_ANSWER = (
    b"HTTP/1.1 505 HTTP Version Not Supported\r\ncontent-type: text/plain\r\nconnection: close\r\n"
    b"content-length: 30\r\n\r\nThis port speaks HTTP/2 only.\r\n"
)[:-1]


class DialFailed(Exception):
    """No link came about: not reached, not trusted, or nothing sensible answered. The text is fit for a log."""


class DialRefused(DialFailed):
    """The control plane answered with a status other than 200. `words` are its own; `leader` its hint, or ""."""

    def __init__(self, status: int, words: str, leader: str) -> None:
        super().__init__(
            f"refused with status {status}: {words}" if words else f"refused with status {status}"
        )
        self.status = status
        self.words = words
        self.leader = leader


@dataclass(frozen=True, slots=True)
class LinkFigures:
    """Bounds of the transport, seconds and counts (P-11 to P-14).

    `answer_s`: from the request to its status, and from Register to the first message. `register_s`: from the status
    to Register. `linger_s`: how long a stream that this side ended may stay half open.
    """

    dial_s: float = 5.0
    answer_s: float = 15.0
    register_s: float = 10.0
    handshake_s: float = 10.0
    keepalive: Keepalive = field(default_factory=Keepalive)
    limits: StreamLimits = field(default_factory=StreamLimits)
    max_connections: int = 4096
    linger_s: float = 5.0


@asynccontextmanager
async def dial(
    host: str, port: int, tls: ssl.SSLContext | None, path: str, headers: Headers, figures: LinkFigures
) -> AsyncIterator[H2Stream]:
    """Open a link and give its stream; leaving closes the connection. Raises DialFailed, DialRefused.

    StreamBroken that the body lets out passes through as such.
    """
    transport = await _connect(host, port, tls, figures.dial_s)
    limits = StreamLimits(figures.limits.max_streams, figures.limits.max_header_bytes, idle_s=None)
    connection = H2Connection(transport, is_client=True, keepalive=figures.keepalive, limits=limits)
    failure: StreamBroken | DialFailed | None = None
    async with trio.open_nursery() as nursery:
        nursery.start_soon(connection.run)
        try:
            authority = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
            pseudo = [(":method", "POST"), (":scheme", "https" if tls else "http"), (":authority", authority)]
            stream = connection.open_stream([*pseudo, (":path", path), *headers])
            await _expect_200(stream, figures.answer_s)
            yield stream
        except (StreamBroken, DialFailed) as error:
            failure = error
        finally:
            with trio.CancelScope(shield=True):
                await connection.close()
    if failure is not None:
        raise failure


async def _connect(host: str, port: int, tls: ssl.SSLContext | None, dial_s: float) -> trio.abc.Stream:
    """Connect and shake hands within `dial_s` together (P-13)."""
    try:
        with trio.fail_after(dial_s):
            tcp = await trio.open_tcp_stream(host, port)
            return tcp if tls is None else await _shake_hands(tcp, tls, host)
    except trio.TooSlowError:
        raise DialFailed(f"no connection within {dial_s:g} s") from None
    except OSError as error:
        raise DialFailed(f"cannot connect: {_os_reason(error)}") from None


async def _shake_hands(tcp: trio.SocketStream, tls: ssl.SSLContext, host: str) -> trio.abc.Stream:
    stream = trio.SSLStream(tcp, tls, server_hostname=host, https_compatible=True)
    try:
        await stream.do_handshake()
        if stream.selected_alpn_protocol() != ALPN:
            raise DialFailed("the peer does not speak HTTP/2 over TLS (no ALPN h2); is a proxy in between?")
    except trio.BrokenResourceError as error:
        await trio.aclose_forcefully(tcp)
        raise DialFailed(f"TLS handshake failed: {error.__cause__ or 'the peer hung up'}") from None
    except BaseException:
        await trio.aclose_forcefully(tcp)
        raise
    return stream


async def _expect_200(stream: H2Stream, answer_s: float) -> None:
    try:
        with trio.fail_after(answer_s):
            headers = dict(await stream.response())
            if headers.get(":status") != "200":
                raise DialRefused(
                    int(headers.get(":status", "0")),
                    await _refusal_words(stream),
                    headers.get("llmgw-leader", ""),
                )
    except trio.TooSlowError:
        raise DialFailed(f"connected, but no answer within {answer_s:g} s") from None
    except StreamBroken as error:
        raise DialFailed(error.reason) from None


async def _refusal_words(stream: H2Stream) -> str:
    """Return the `error` of a refusal's JSON body, or its text, cut short."""
    body = bytearray()
    while len(body) < _MAX_REFUSAL_BYTES and (data := await stream.receive_some()) is not None:
        body += data
    text = bytes(body).decode("utf-8", "replace")
    try:
        return str(json.loads(text)["error"])[:500]
    except (ValueError, KeyError, TypeError):
        return text.strip()[:500]


def _os_reason(error: OSError) -> str:
    """Return the kernel's words; trio wraps the errors of several addresses in one."""
    cause: BaseException | None = error.__cause__
    while isinstance(cause, BaseExceptionGroup):
        cause = cause.exceptions[0]
    found = cause if isinstance(cause, OSError) else error
    return found.strerror or str(found)


class IncomingLink:
    """A request on the agents' port, before and after it is accepted."""

    def __init__(self, stream: H2Stream, peer_address: str, certificate: "dict[str, object] | None") -> None:
        self.stream = stream
        self.headers = dict(stream.headers)
        self.method = self.headers.get(":method", "")
        self.path = self.headers.get(":path", "").partition("?")[0]
        self.peer_address = peer_address
        self.common_name = common_name(certificate)
        self.serial = str((certificate or {}).get("serialNumber", "")).lower()
        issued = str((certificate or {}).get("notBefore", ""))
        self.issued_unix = float(ssl.cert_time_to_seconds(issued)) if issued else 0.0

    def accept(self) -> None:
        """Answer 200 at once; both bodies are message streams from here on (P-2). Raises StreamBroken."""
        self.stream.start([(":status", "200"), ("content-type", "application/x-llmgw-agent")])

    async def refuse(self, status: int, words: str, headers: Sequence[tuple[str, str]] = ()) -> None:
        """Answer with `status` and `{"error": words}`. Raises StreamBroken."""
        body = json.dumps({"error": words}, ensure_ascii=False).encode()
        fields = [("content-type", "application/json"), ("content-length", str(len(body)))]
        self.stream.start([(":status", str(status)), *fields, *headers])
        await self.stream.send(body)
        self.stream.end()


OnLink = Callable[[IncomingLink], Awaitable[None]]
OnProblem = Callable[[str, str], None]


async def serve_links(
    listeners: Sequence[trio.SocketListener],
    on_link: OnLink,
    *,
    tls: ssl.SSLContext | None,
    figures: LinkFigures,
    on_problem: OnProblem,
    task_status: trio.TaskStatus[list[trio.SocketListener]] = trio.TASK_STATUS_IGNORED,
) -> None:
    """Serve until cancelled; each request runs `on_link`, which may let StreamBroken out.

    `on_problem` is told the peer's address and a sentence for connections that never became a link.
    """
    port = _Port(on_link, tls, figures, on_problem)
    await trio.serve_listeners(port.serve, list(listeners), task_status=task_status)


class _Port:
    """What the connections of one listening port share."""

    def __init__(
        self, on_link: OnLink, tls: ssl.SSLContext | None, figures: LinkFigures, on_problem: OnProblem
    ) -> None:
        self._on_link = on_link
        self._tls = tls
        self._figures = figures
        self._on_problem = on_problem
        self._open = 0

    async def serve(self, tcp: trio.SocketStream) -> None:
        """Carry one connection, whatever it does."""
        peer = _peer_address(tcp)
        if self._open >= self._figures.max_connections:
            self._on_problem(
                peer, f"closed: {self._figures.max_connections} agent connections are open already"
            )
            await trio.aclose_forcefully(tcp)
            return
        self._open += 1
        try:
            await self._greet(tcp, peer)
        except (trio.BrokenResourceError, trio.ClosedResourceError) as error:
            self._on_problem(peer, f"TLS handshake failed: {error.__cause__ or 'the peer hung up'}")
        except trio.TooSlowError:
            self._on_problem(peer, f"closed: it did not begin HTTP/2 within {self._figures.handshake_s:g} s")
        except Exception as error:
            self._on_problem(peer, f"closed after a fault of ours: {error!r}")
        finally:
            self._open -= 1
            await trio.aclose_forcefully(tcp)

    async def _greet(self, tcp: trio.SocketStream, peer: str) -> None:
        stream: trio.abc.Stream = tcp
        certificate = None
        with trio.fail_after(self._figures.handshake_s):
            if self._tls is not None:
                secured = trio.SSLStream(tcp, self._tls, server_side=True, https_compatible=True)
                await _shake_hands_saying_why_not(secured, tcp)
                stream, certificate = secured, secured.getpeercert()
            first_bytes = await _first_bytes(stream)
            has_alpn = self._tls is None or stream.selected_alpn_protocol() == ALPN  # type: ignore[attr-defined]
            if first_bytes[: len(PREFACE)] != PREFACE or not has_alpn:
                if first_bytes:
                    self._on_problem(peer, "refused: it does not speak HTTP/2")
                    await _answer_http1(stream)
                return
        await self._carry(stream, first_bytes, peer, certificate)

    async def _carry(
        self, stream: trio.abc.Stream, first_bytes: bytes, peer: str, certificate: "dict[str, object] | None"
    ) -> None:
        figures = self._figures
        async with trio.open_nursery() as requests:

            async def request(accepted: H2Stream) -> None:
                try:
                    await self._on_link(IncomingLink(accepted, peer, certificate))
                    accepted.end()
                    with trio.move_on_after(figures.linger_s):
                        await accepted.closed_by_peer()
                except StreamBroken:
                    pass
                finally:
                    accepted.reset(0)

            connection = H2Connection(
                stream,
                is_client=False,
                keepalive=figures.keepalive,
                limits=figures.limits,
                on_request=lambda accepted: requests.start_soon(request, accepted),
            )
            await connection.run(first_bytes)
            # Every stream has failed by now; what their tasks still do is theirs to end.
            requests.cancel_scope.deadline = trio.current_time() + figures.linger_s


async def _shake_hands_saying_why_not(
    secured: "trio.SSLStream[trio.SocketStream]", tcp: trio.SocketStream
) -> None:
    """Shake hands; when a certificate is refused, send the alert that names the cause, so that the agent can log it.

    Trio 0.35 raises without sending what OpenSSL put into its outgoing buffer; there is no public way to it.
    """
    try:
        await secured.do_handshake()
    except trio.BrokenResourceError:
        alert: bytes = secured._outgoing.read() if hasattr(secured, "_outgoing") else b""
        if alert:
            await tcp.send_all(alert)
            await tcp.send_eof()
        raise


async def _first_bytes(stream: trio.abc.Stream) -> bytes:
    """Read until HTTP/2's preface is whole or cannot be; b"" when the peer left."""
    read = b""
    while len(read) < len(PREFACE) and PREFACE.startswith(read):
        data = await stream.receive_some(65_536)
        if not data:
            return b""
        read += data
    return read


async def _answer_http1(stream: trio.abc.Stream) -> None:
    """Say 505 in HTTP/1.1, then read on for a moment so that closing does not reset the answer away."""
    await stream.send_all(_HTTP1_ANSWER)
    if isinstance(stream, trio.SocketStream):
        await stream.send_eof()
    with trio.move_on_after(1):
        while await stream.receive_some(65_536):
            pass


def _peer_address(tcp: trio.SocketStream) -> str:
    try:
        return str(tcp.socket.getpeername()[0]).removeprefix("::ffff:")
    except OSError:
        return ""
