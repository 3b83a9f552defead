from __future__ import annotations

import anyio
import msgspec
import pytest

from llmgw.admin.audit import Attempt, AuditTrail, struck
from llmgw.admin.routes import API, ROUTES
from llmgw.testing.memory_admin import MemoryAudit
from tests.admin.admin_server import TOKEN, RunningAdmin, running_admin

KEY = "llmgw_" + "aB3" * 15 + "z"
CANARIES = {
    "by name": "canary-by-name-1", "url": "https://canary-user:canary-pass@host/x", "key": KEY,
    "pem": "-----BEGIN PRIVATE KEY-----\ncanarypemcanarypem\n-----END PRIVATE KEY-----",
}  # fmt: skip
SECRETS = ["canary-by-name-1", "canary-user", "canary-pass", KEY, "canarypem", TOKEN]


def laden() -> dict[str, object]:
    """A body with a secret in every place one could stand."""
    flat = {"password": CANARIES["by name"], "api_key": CANARIES["by name"], "dsn": CANARIES["by name"],
            "source": CANARIES["url"], "description": f"uses {KEY}", "note": CANARIES["pem"], KEY: 1}  # fmt: skip
    args = ["--api-key", CANARIES["by name"], f"--token={CANARIES['by name']}", KEY]
    return {**flat, "profiles": [{"env": {"HF_TOKEN": CANARIES["by name"], "X": KEY}, "args": args, **flat}]}


@pytest.mark.covers("C-57")
def test_no_secret_sent_to_any_change_is_in_the_audit_log():
    with running_admin() as admin:
        for route in ROUTES:
            if not route.is_change:
                continue
            for value in ("n1", "chat", KEY, "nobody"):
                path = API + route.path.replace("{id}", value).replace("{name}", value)
                for body in (laden(), {"name": f"new-{value}", "source": CANARIES["url"],
                                       "profiles": laden()["profiles"]}, {"min": 0, "password": "x"},
                             b'{"password": "canary-by-name-1"', {"idle_timeout": KEY}):  # fmt: skip
                    headers = {"X-Llmgw-Actor": KEY if value == KEY else "tester"}
                    admin.ask(route.method, path, body, headers=headers)
            admin.ask(route.method, path, laden(), headers={"Authorization": f"Bearer {CANARIES['by name']}"})
        stored = msgspec.json.encode(admin.audit.events).decode()
        assert "model.add" in stored
        assert len(admin.audit.events) > 50
    everything = msgspec.json.encode(admin.audit.events).decode()
    assert "api.unauthorized" in everything
    assert [secret for secret in SECRETS if secret in everything] == []


def test_every_change_made_or_refused_is_exactly_one_event(admin: RunningAdmin):
    asked = 0
    for route in ROUTES:
        if route.is_change:
            for value in ("nobody", "n1", "chat"):
                path = API + route.path.replace("{id}", value).replace("{name}", value)
                admin.ask(route.method, path, {"min": 1} if route.operation == "scale_model" else None)
                admin.ask(route.method, path, headers={"Content-Type": "text/plain"})
                admin.ask(route.method, path, b"[")
                asked += 3
    admin.ask("PUT", API + "/models/chat", {})
    admin.ask("POST", API + "/nothing", {})
    admin.ask("POST", API + "/nodes/n1/cordon", headers={"Host": "name.example"})
    assert len(admin.audit.events) == asked + 3
    assert {event.result for event in admin.audit.events} == {"ok", "refused"}


def test_reading_is_not_recorded(admin: RunningAdmin):
    for route in ROUTES:
        if not route.is_change:
            admin.ask("GET", API + route.path)
    assert admin.audit.events == []


def test_changes_without_a_token_are_one_event_per_address():
    with running_admin() as admin:
        for _ in range(5):
            admin.ask("POST", API + "/nodes/n1/cordon", headers={"Authorization": None})
        admin.ask("GET", API + "/nodes", headers={"Authorization": None})
        assert admin.audit.events == []
    (event,) = admin.audit.events
    assert (event.action, event.status, event.address) == ("api.unauthorized", 401, "127.0.0.1")
    assert event.error == "5 changes asked for without a valid token"


def test_addresses_beyond_the_bound_are_counted_together():
    sink = MemoryAudit()
    trail = AuditTrail(sink, "cp1")
    for number in range(2000):
        trail.unauthorized(Attempt(1.0, f"10.0.{number // 256}.{number % 256}"))
    anyio.run(trail.write_unauthorized, backend="trio")
    assert len(sink.events) == 1001
    assert sink.events[-1].address == "other"
    assert sink.events[-1].error.startswith("1000 changes")


@pytest.mark.covers("C-57")
def test_values_are_cut_at_2_kib_and_fields_at_64():
    found = struck({"description": "x" * 5000, "profiles": [{"args": ["y" * 3000]}], "min": 1})
    assert len(found["description"].encode()) <= 2048
    assert len(found["profiles"].encode()) <= 2048
    assert found["min"] == 1
    assert len(struck({f"f{number}": 1 for number in range(1000)})) == 64


def test_before_and_after_of_a_change_are_kept(admin: RunningAdmin):
    admin.ask("POST", API + "/models/chat/scale", {"min": 0, "max": 3})
    (event,) = admin.audit.events
    assert (event.fields, event.before, event.after) == (
        ("min", "max"), {"min": 1, "max": 1}, {"min": 0, "max": 3}
    )  # fmt: skip


def test_a_refusal_is_answered_though_its_event_cannot_be_written(admin: RunningAdmin):
    admin.audit.is_away = True
    assert admin.ask("POST", API + "/nodes/nobody/cordon").status == 404
