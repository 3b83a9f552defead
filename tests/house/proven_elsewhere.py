"""Source files whose proof is not at the mirrored path, and the test that is their proof.

A file belongs here when only the running whole shows that it works: what composes, what starts processes, what is a
table that other tests read. The test named must exist.
"""

from __future__ import annotations

PROVEN_BY: dict[str, str] = {
    "llmgw/admin/app.py": "tests/admin/test_guards.py",
    "llmgw/admin/bodies.py": "tests/admin/test_routes.py",
    "llmgw/admin/client.py": "tests/cli/test_ctl.py",
    "llmgw/admin/operations.py": "tests/admin/test_routes.py",
    "llmgw/cli/connection.py": "tests/cli/test_ctl.py",
    "llmgw/cli/ctl_audit.py": "tests/cli/test_ctl.py",
    "llmgw/cli/ctl_looking.py": "tests/cli/test_ctl.py",
    "llmgw/cli/ctl_models.py": "tests/cli/test_ctl.py",
    "llmgw/cli/ctl_nodes.py": "tests/cli/test_ctl.py",
    "llmgw/cli/failure.py": "tests/cli/test_ctl.py",
    "llmgw/cli/lazy.py": "tests/cli/test_help.py",
    "llmgw/cli/main.py": "tests/cli/test_help.py",
    "llmgw/cli/progress.py": "tests/cli/test_ctl.py",
    "llmgw/cli/roles.py": "tests/cli/test_help.py",
    "llmgw/testing/memory_admin.py": "tests/admin/test_routes.py",
    "llmgw/__main__.py": "tests/house/test_import_sets.py",
    "llmgw/control/port.py": "tests/control/test_port_contract.py",
    "llmgw/net/control_pipe.py": "tests/control/test_port_contract.py",
    "llmgw/testing/memory_fleet.py": "tests/control/test_port_contract.py",
    "llmgw/testing/fake_engine.py": "tests/gateway/test_relay.py",
    "llmgw/gateway/demand.py": "tests/gateway/test_reporting.py",
    "llmgw/gateway/engine_request.py": "tests/gateway/test_pipeline.py",
    "llmgw/gateway/exchange.py": "tests/gateway/test_pipeline.py",
    "llmgw/gateway/figures.py": "tests/gateway/test_pipeline.py",
    "llmgw/gateway/refusals.py": "tests/gateway/test_refusing.py",
    "llmgw/gateway/stages/limit.py": "tests/gateway/test_leases.py",
    "llmgw/gateway/stages/placeholder.py": "tests/gateway/test_pipeline.py",
    "llmgw/gateway/stages/resolve.py": "tests/gateway/test_refusing.py",
}
