from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from llmgw.admin import guards
from llmgw.config.refusal import Refused
from tests.admin.admin_server import RunningAdmin

HOSTS = [
    ("127.0.0.1:9090", True), ("127.0.0.1", True), ("10.1.2.3:80", True), ("[::1]:9090", True), ("[::1]", True),
    ("[2001:db8::1]:9090", True), ("localhost", True), ("localhost:9090", True), ("LOCALHOST", True),
    ("cp.example.com", False), ("cp.example.com:9090", False), ("localhost.evil.example", False),
    ("127.0.0.1.evil.example", False), ("127.1", False), ("2130706433", False), ("0x7f.0.0.1", False),
    ("", False), ("::1", False), ("[::1", False), ("127.0.0.1:", False), ("127.0.0.1:99999", False),
    ("user@127.0.0.1", False), ("127.0.0.1/x", False), ("[localhost]", False), ("[fe80::1%25eth0]", False),
]  # fmt: skip


@pytest.mark.covers("C-04")
@pytest.mark.parametrize(("host", "passes"), HOSTS)
def test_the_host_is_an_address_or_localhost(admin_shared: RunningAdmin, host: str, passes: bool):
    for path in ("/api/v1/version", "/health", "/metrics"):
        answer = admin_shared.ask("GET", path, headers={"Host": host})
        # What is no Host at all is refused by the HTTP parser already.
        assert answer.status == 200 if passes else answer.status in (400, 403)


ORIGINS = [
    ({"Origin": "http://127.0.0.1:{port}"}, 200), ({"Origin": "https://evil.example"}, 403),
    ({"Origin": "http://127.0.0.1:1"}, 403), ({"Origin": "null"}, 403), ({"Origin": ""}, 403),
    ({"Origin": "http://127.0.0.1:{port}.evil.example"}, 403),
    ({"Sec-Fetch-Site": "same-origin"}, 200), ({"Sec-Fetch-Site": "none"}, 200),
    ({"Sec-Fetch-Site": "cross-site"}, 403), ({"Sec-Fetch-Site": "same-site"}, 403), ({"Sec-Fetch-Site": "x"}, 403),
    ({"Sec-Fetch-Site": "same-origin", "Origin": "https://evil.example"}, 403),
]  # fmt: skip


@pytest.mark.covers("C-05")
@pytest.mark.parametrize(("headers", "status"), ORIGINS)
def test_another_sites_page_is_refused(admin_shared: RunningAdmin, headers: dict[str, str], status: int):
    sent = {name: value.format(port=admin_shared.port) for name, value in headers.items()}
    assert admin_shared.ask("GET", "/api/v1/version", headers=sent).status == status


@pytest.mark.covers("C-07")
def test_the_rules_are_applied_in_their_order(admin_shared: RunningAdmin):
    """C-07: each request breaks one rule less than the one before."""
    big = b"x" * (guards.MAX_BODY_BYTES + 1)
    headers: dict[str, str | None] = {
        "Host": "name.example", "Origin": "https://evil.example", "Authorization": "Bearer no", "Content-Type": None,
    }
    path, seen = "/api/v1/nothing", []

    def ask(body: bytes) -> None:
        answer = admin_shared.ask("POST", path, body, headers=headers)
        seen.append((answer.status, answer.error.split()[1]))

    ask(big)
    del headers["Host"]
    ask(big)
    del headers["Origin"]
    ask(big)
    del headers["Authorization"]
    ask(big)
    path = "/api/v1/version"
    ask(big)
    path = "/api/v1/models/chat/scale"
    ask(big)
    del headers["Content-Type"]
    ask(big)
    ask(b"{")
    ask(b'{"zzz": 1}')
    assert [status for status, _ in seen] == [403, 403, 401, 404, 405, 415, 413, 400, 400]
    assert [word for _, word in seen[:2]] == ["Host", "Origin"]


@pytest.mark.covers("C-08")
@pytest.mark.parametrize("header", ["a b", "a/b", "x" * 65, "é", "", "a\tb", "<x>"])
def test_an_actor_that_does_not_fit_is_400(admin_shared: RunningAdmin, header: str):
    headers = {"X-Llmgw-Actor": header.encode("latin-1").decode("latin-1")}
    assert admin_shared.ask("GET", "/api/v1/whoami", headers=headers).status == 400


@pytest.mark.covers("C-08")
@pytest.mark.parametrize(("header", "actor"), [("ci@deploy", "ci@deploy"), ("x" * 64, "x" * 64), (None, "unknown")])
def test_an_actor_is_read_as_claimed(admin_shared: RunningAdmin, header: str | None, actor: str):
    answer = admin_shared.ask("GET", "/api/v1/whoami", headers={"X-Llmgw-Actor": header})
    assert answer.json == {"actor": actor}


@pytest.mark.parametrize("kind", ["application/json", "application/json; charset=utf-8", "Application/JSON ;x=1"])
def test_json_may_have_parameters(kind: str):
    guards.check_json_content(kind)


@pytest.mark.parametrize(
    ("address", "remote", "starts"),
    [("127.0.0.1:9090", False, True), ("[::1]:9090", False, True), ("localhost:0", False, True),
     ("0.0.0.0:9090", False, False), (":9090", False, False), ("[::]:9090", False, False),
     ("10.0.0.1:9090", False, False), ("host.example:9090", False, False), ("0.0.0.0:9090", True, True)],
)  # fmt: skip
def test_an_address_that_is_not_loopback_needs_admin_remote(address: str, remote: bool, starts: bool):
    if starts:
        guards.check_listen_address(address, remote_allowed=remote)
    else:
        with pytest.raises(Refused, match="admin_remote: true"):
            guards.check_listen_address(address, remote_allowed=remote)


@given(st.text(max_size=40))
def test_any_text_as_a_header_passes_or_is_refused(text: str):
    for check in (guards.check_host, guards.check_json_content, guards.actor_of,
                  lambda value: guards.check_same_site("127.0.0.1", value, None)):  # fmt: skip
        try:
            check(text)
        except Refused as refusal:
            assert 400 <= refusal.status < 500
