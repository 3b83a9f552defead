from __future__ import annotations

from tests.admin.admin_server import RunningAdmin


def test_the_metrics_port_serves_metrics_and_nothing_else(admin_shared: RunningAdmin):
    port = admin_shared.metrics_port
    answer = admin_shared.ask("GET", "/metrics", headers={"Authorization": None, "Host": "any.example"}, port=port)
    assert (answer.status, answer.headers["content-type"]) == (200, "text/plain; version=0.0.4; charset=utf-8")
    assert b"llmgw_build_info" in answer.raw
    for path in ("/", "/health", "/api/v1/summary", "/metrics/x", "/debug"):
        assert admin_shared.ask("GET", path, port=port).status == 404
    assert admin_shared.ask("POST", "/metrics", port=port).status == 405


def test_openmetrics_is_served_when_asked_for(admin_shared: RunningAdmin):
    headers = {"Accept": "application/openmetrics-text; version=1.0.0"}
    answer = admin_shared.ask("GET", "/metrics", headers=headers, port=admin_shared.metrics_port)
    assert answer.headers["content-type"].startswith("application/openmetrics-text")
    assert answer.raw.endswith(b"# EOF\n")


def test_health_and_metrics_are_on_the_admin_listener_without_a_token(admin_shared: RunningAdmin):
    for path in ("/health", "/metrics"):
        assert admin_shared.ask("GET", path, headers={"Authorization": None}).status == 200
        head = admin_shared.ask("HEAD", path, headers={"Authorization": None})
        assert (head.status, head.raw) == (200, b"")
        assert admin_shared.ask("POST", path).status == 405
    assert admin_shared.ask("GET", "/debug/pprof").status == 404
