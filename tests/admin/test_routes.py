"""The proof of C-48's table: every route without a token, as a form, with an unknown field, an unknown id, and valid."""

from __future__ import annotations

import pytest

from llmgw.admin.operations import OPERATIONS
from llmgw.admin.routes import API, ROUTES, Route
from llmgw.config.refusal import Refused
from llmgw.ports import UsageRow
from tests.admin.admin_server import RunningAdmin, running_admin

VALID_BODIES = {
    "add_model": {"name": "new", "source": "/models/new.gguf", "profiles": [{"name": "cpu", "engine": "llamacpp"}]},
    "scale_model": {"min": 0, "max": 2, "idle_timeout": "30m"},
}
KNOWN = {"/nodes/{id}": "n1", "/models/{name}": "chat", "/requests/{id}": "req-1"}
WITH_ID = [route for route in ROUTES if route.parameters]
CHANGES = [route for route in ROUTES if route.is_change]


def path_of(route: Route, value: str | None = None) -> str:
    path = route.path
    for prefix, known in KNOWN.items():
        if path.startswith(prefix):
            name = prefix[prefix.index("{") :]
            path = path.replace(name, value if value is not None else known)
    return API + path


def name_of(route: Route) -> str:
    return route.operation


@pytest.fixture(scope="module")
def shared():
    with running_admin() as running:
        yield running


def row(request_id: str) -> UsageRow:
    return UsageRow(
        id="u1", request_id=request_id, at_unix=1.0, endpoint="/v1/chat/completions", stream=True, key_id="k",
        kind="project", project_id="p", team_id="t", org_id="o", user_id="", model="chat", status=200, ttft_ms=7,
    )


def test_every_route_has_an_operation_and_the_reverse():
    assert {route.operation for route in ROUTES} == set(OPERATIONS)
    assert len({(route.method, route.path) for route in ROUTES}) == len(ROUTES)


def test_every_change_names_its_audit_action_and_its_kind_of_target():
    assert all(route.action and route.target for route in CHANGES)
    assert not any(route.action for route in ROUTES if not route.is_change)


@pytest.mark.parametrize("route", ROUTES, ids=name_of)
def test_without_a_token_every_route_answers_401(shared: RunningAdmin, route: Route):
    answer = shared.ask(route.method, path_of(route), headers={"Authorization": None})
    assert answer.status == 401
    assert answer.headers["www-authenticate"] == "Bearer"
    assert "token" in answer.error


@pytest.mark.covers("C-06")
@pytest.mark.parametrize("route", CHANGES, ids=name_of)
@pytest.mark.parametrize("kind", ["application/x-www-form-urlencoded", "multipart/form-data", "text/plain", None])
def test_a_change_that_is_not_json_is_refused_with_or_without_a_body(shared: RunningAdmin, route: Route, kind):
    assert shared.ask(route.method, path_of(route), headers={"Content-Type": kind}).status == 415
    body = b"a=b" if route.operation != "remove_model" else None
    assert shared.ask(route.method, path_of(route), body, headers={"Content-Type": kind}).status == 415


@pytest.mark.parametrize("route", CHANGES, ids=name_of)
def test_an_unknown_field_is_refused_by_name(shared: RunningAdmin, route: Route):
    answer = shared.ask(route.method, path_of(route), {**VALID_BODIES.get(route.operation, {}), "zzz": 1, "yyy": 2})
    assert answer.status == 400
    assert "yyy, zzz" in answer.error


@pytest.mark.parametrize("route", ROUTES, ids=name_of)
def test_an_unknown_query_parameter_is_refused_by_name(shared: RunningAdmin, route: Route):
    answer = shared.ask(route.method, path_of(route) + "?zzz=1", VALID_BODIES.get(route.operation))
    assert answer.status == 400
    assert "zzz" in answer.error


@pytest.mark.parametrize("route", WITH_ID, ids=name_of)
def test_an_unknown_id_is_404_and_named(shared: RunningAdmin, route: Route):
    answer = shared.ask(route.method, path_of(route, "nobody"), VALID_BODIES.get(route.operation))
    assert answer.status == 404
    assert "nobody" in answer.error


@pytest.mark.parametrize("route", ROUTES, ids=name_of)
def test_a_valid_request_is_answered_as_the_table_says(admin: RunningAdmin, route: Route):
    admin.records.rows.append(row("req-1"))
    answer = admin.ask(route.method, path_of(route), VALID_BODIES.get(route.operation))
    assert answer.status == route.status, answer.raw
    if route.answer is None:
        assert answer.raw == b""
    else:
        assert answer.headers["content-type"] == "application/json; charset=utf-8"
        assert isinstance(answer.json, dict if route.answer is dict or isinstance(route.answer, type) else list)
    if route.is_change:
        (event,) = admin.audit.events
        assert (event.action, event.result, event.status, event.actor) == (route.action, "ok", route.status, "tester")


@pytest.mark.covers("C-47")
@pytest.mark.parametrize("route", [r for r in ROUTES if r.method == "GET"], ids=name_of)
def test_with_the_store_away_what_is_in_memory_is_still_answered(admin: RunningAdmin, route: Route):
    admin.audit.is_away = admin.records.is_away = True
    answer = admin.ask("GET", path_of(route))
    assert answer.status == (503 if route.needs_store else 200)


@pytest.mark.parametrize("route", CHANGES, ids=name_of)
def test_with_the_store_away_a_change_is_refused_and_not_made(admin: RunningAdmin, route: Route):
    admin.audit.is_away = True
    before = {name: dict(one["scaling"]) for name, one in admin.fleet.definitions.items() if name == "chat"}
    answer = admin.ask(route.method, path_of(route), VALID_BODIES.get(route.operation))
    assert answer.status == 503
    assert {name: one["scaling"] for name, one in admin.fleet.definitions.items() if name == "chat"} == before
    assert not admin.fleet.cordoned


def test_what_is_absent_here_is_501_naming_what_to_set():
    with running_admin(records=None, audit_reader=None) as admin:
        for path in ("/requests/x", "/audit"):
            answer = admin.ask("GET", API + path)
            assert answer.status == 501
            assert "auth.store" in answer.error


def test_a_control_plane_that_does_not_lead_refuses_changes_and_answers_reads():
    with running_admin(leading=lambda: False) as admin:
        assert admin.ask("GET", API + "/nodes").status == 200
        answer = admin.ask("POST", API + "/nodes/n1/cordon")
        assert answer.status == 503
        assert "lead" in answer.error


@pytest.mark.parametrize(
    ("path", "status", "said"),
    [
        ("/nodes?state=lost", 400, "must be one of"),
        ("/nodes/n1/logs?lines=0", 400, "1 to 5000"),
        ("/nodes/n1/logs?lines=5001", 400, "1 to 5000"),
        ("/nodes/n1/logs?lines=-1", 400, "whole number"),
        ("/nodes/n1/logs?shard=none", 404, "none"),
        ("/audit?since=yesterday", 400, "since"),
        ("/audit?since=-5m", 400, "since"),
        ("/audit?until=2026-01-31T12:00:00", 400, "until"),
        ("/audit?source=nowhere", 400, "source"),
        ("/audit?result=fine", 400, "result"),
        ("/audit?limit=1001", 400, "limit"),
        ("/audit?limit=0", 400, "limit"),
        ("/nothing", 404, "openapi.json"),
        ("/models/a%2Fb", 404, "there is no"),
    ],
)
def test_a_wrong_question_gets_a_sentence(shared: RunningAdmin, path: str, status: int, said: str):
    answer = shared.ask("GET", API + path)
    assert (answer.status, said in answer.error) == (status, True), answer.raw


def test_a_method_that_a_path_does_not_have_is_405_with_those_it_has(shared: RunningAdmin):
    answer = shared.ask("PUT", API + "/models/chat")
    assert (answer.status, answer.headers["allow"]) == (405, "DELETE, GET, HEAD")


def test_the_text_of_a_request_that_was_not_kept_is_404_saying_so(admin: RunningAdmin):
    admin.records.rows.append(row("req-1"))
    answer = admin.ask("GET", API + "/requests/req-1?body=true")
    assert (answer.status, "not kept" in answer.error) == (404, True)


@pytest.mark.covers("C-10")
@pytest.mark.parametrize(
    ("body", "said"),
    [
        (b"{", "not JSON"),
        (b"[1]", "must be a JSON object"),
        (b"[" * 5000, "not JSON"),
        (b'{"min": "one"}', "min"),
        (b'{"min": -1}', "min"),
        (b'{"min": 3, "max": 2}', "below min"),
        (b'{"idle_timeout": "30"}', "idle_timeout"),
        (b'{"idle_timeout": -1}', "negative"),
        (b'{"idle_timeout": 1800000000000}', "seconds"),
        (b"{}", "nothing to change"),
        (b'{"min": 1e400}', ""),
        ('{"min": "\ud800"}'.encode("utf-8", "surrogatepass"), ""),
    ],
)
def test_a_body_that_is_wrong_is_400_and_nothing_changes(shared: RunningAdmin, body: bytes, said: str):
    before = dict(shared.fleet.definitions["chat"]["scaling"])
    answer = shared.ask("POST", API + "/models/chat/scale", body)
    assert (answer.status, said in answer.error) == (400, True), answer.raw
    assert shared.fleet.definitions["chat"]["scaling"] == before


@pytest.mark.covers("C-10")
def test_seconds_and_a_duration_give_the_same_stored_value_and_answer(admin: RunningAdmin):
    seen = []
    for value in (1800, "30m"):
        answer = admin.ask("POST", API + "/models/chat/scale", {"idle_timeout": value})
        seen.append((answer.json["idle_timeout"], admin.fleet.definitions["chat"]["scaling"]["idle_timeout"]))
    assert seen == [("30m", 1800.0), ("30m", 1800.0)]


def test_a_body_beyond_1_mib_is_413_announced_or_not(shared: RunningAdmin):
    big = b'{"name": "' + b"x" * 1024 * 1024 + b'"}'
    assert shared.ask("POST", API + "/models", big).status == 413
    chunked = b"%x\r\n%s\r\n0\r\n\r\n" % (len(big), big)
    headers = {"Transfer-Encoding": "chunked", "Content-Length": None}
    assert shared.ask("POST", API + "/models", chunked, headers=headers).status == 413


def test_a_fault_of_ours_is_500_with_an_id_and_no_detail(admin: RunningAdmin):
    def broken() -> None:
        raise RuntimeError("inner detail")

    admin.fleet.summary = broken  # type: ignore[method-assign,assignment]
    answer = admin.ask("GET", API + "/summary")
    assert answer.status == 500
    assert "fault" in answer.error
    assert "inner detail" not in answer.error


def test_the_audit_log_is_read_newest_first_by_filter_and_by_page(admin: RunningAdmin):
    for _ in range(3):
        admin.ask("POST", API + "/nodes/n1/cordon")
    admin.ask("POST", API + "/models/chat/scale", {"min": 9, "max": 1})
    newest = admin.ask("GET", API + "/audit?limit=2").json
    assert [event["id"] for event in newest] == [4, 3]
    assert [e["id"] for e in admin.ask("GET", API + "/audit?limit=2&before=3").json] == [2, 1]
    assert [e["id"] for e in admin.ask("GET", API + "/audit?action=model.*&result=refused&since=1h").json] == [4]
    assert admin.ask("GET", API + "/audit?until=2020-01-01T00:00:00Z").json == []


def test_a_refusal_of_the_leader_is_passed_on_and_recorded(admin: RunningAdmin):
    async def refuse(*_: object) -> None:
        raise Refused(409, "chat is named as the fallback of other")

    admin.fleet.remove_model = refuse  # type: ignore[method-assign]
    answer = admin.ask("DELETE", API + "/models/chat")
    assert (answer.status, answer.error) == (409, "chat is named as the fallback of other")
    (event,) = admin.audit.events
    assert (event.action, event.target, event.result, event.status) == ("model.remove", "model:chat", "refused", 409)
    assert event.error == "chat is named as the fallback of other"
