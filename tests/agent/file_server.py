"""A web server of files for downloads: ranges, redirects, and the faults a test asks for. Real sockets."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


@dataclass
class Site:
    """What is served, and how it misbehaves. `cut` breaks that many answers after `cut_bytes` of them.

    `together` holds each file but a list of files back until as many as it has parties are asked for; `most_at_once`
    is how many were.
    """

    files: dict[str, bytes] = field(default_factory=dict)
    redirects: dict[str, str] = field(default_factory=dict)
    statuses: dict[str, list[int]] = field(default_factory=dict)
    etag: str = '"v1"'
    cut: int = 0
    cut_bytes: int = 0
    ignores_range: bool = False
    gate: threading.Event | None = None
    gate_bytes: int = 0
    together: threading.Barrier | None = None
    lock: threading.Lock = field(default_factory=threading.Lock)
    at_once: int = 0
    most_at_once: int = 0
    asked: list[tuple[str, dict[str, str]]] = field(default_factory=list)
    base: str = ""


@contextlib.contextmanager
def serving(site: Site) -> Iterator[Site]:
    """Serve a site on a free loopback port; `site.base` is its address."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), _handler_of(site))
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    site.base = f"http://127.0.0.1:{server.server_address[1]}"
    try:
        yield site
    finally:
        if site.gate is not None:
            site.gate.set()
        server.shutdown()
        server.server_close()


def _held_back(site: Site) -> None:
    """Wait for as many others as `together` has parties. Over before a byte is sent: who has one may ask for more."""
    if site.together is not None:
        with site.lock:
            site.at_once += 1
            site.most_at_once = max(site.most_at_once, site.at_once)
        site.together.wait(30)
        with site.lock:
            site.at_once -= 1


def _handler_of(site: Site) -> type[BaseHTTPRequestHandler]:
    class Serve(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            site.asked.append((self.path, {name.lower(): value for name, value in self.headers.items()}))
            self.close_connection = True
            pending = site.statuses.get(self.path)
            if pending:
                return self._plain(pending.pop(0))
            if self.path in site.redirects:
                self.send_response(302)
                self.send_header("Location", site.redirects[self.path])
                self.send_header("Content-Length", "0")
                self.end_headers()
                return None
            data = site.files.get(self.path)
            if data is None:
                return self._plain(404)
            if not self.path.endswith(".json"):
                _held_back(site)
            return self._file(data)

        def _plain(self, status: int) -> None:
            self.send_response(status)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def _file(self, data: bytes) -> None:
            start = self._range_start()
            if start is not None and start >= len(data):
                self.send_response(416)
                self.send_header("Content-Range", f"bytes */{len(data)}")
                self.send_header("Content-Length", "0")
                self.end_headers()
                return
            self.send_response(200 if start is None else 206)
            body = data[start or 0 :]
            if start is not None:
                self.send_header("Content-Range", f"bytes {start}-{len(data) - 1}/{len(data)}")
            self.send_header("Content-Length", str(len(body)))
            self.send_header("ETag", site.etag)
            self.end_headers()
            self._send(body)

        def _range_start(self) -> int | None:
            asked = self.headers.get("Range", "")
            if site.ignores_range or not asked.startswith("bytes="):
                return None
            if self.headers.get("If-Range", site.etag) != site.etag:
                return None
            return int(asked.removeprefix("bytes=").rstrip("-"))

        def _send(self, body: bytes) -> None:
            if site.cut > 0:
                site.cut -= 1
                body = body[: site.cut_bytes]
            with contextlib.suppress(OSError):
                if site.gate is not None:
                    self.wfile.write(body[: site.gate_bytes])
                    self.wfile.flush()
                    site.gate.wait(60)
                    body = body[site.gate_bytes :]
                self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            pass

    return Serve
