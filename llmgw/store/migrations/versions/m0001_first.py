"""The first schema: what is dear to add later is here from the start (architecture.md, section 4)."""

import time

import sqlalchemy as sa
from alembic import op

from llmgw.store.ids import new_id

revision = "0001"
down_revision = None


def upgrade() -> None:
    """Build every table and its first rows."""
    op.create_table(
        "audit_events",
        sa.Column(
            "id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), autoincrement=True, nullable=False
        ),
        sa.Column("at", sa.Double(), nullable=False),
        sa.Column("actor", sa.Text(), server_default="", nullable=False),
        sa.Column("source", sa.Text(), server_default="", nullable=False),
        sa.Column("action", sa.Text(), server_default="", nullable=False),
        sa.Column("target", sa.Text(), server_default="", nullable=False),
        sa.Column("fields", sa.Text(), server_default="", nullable=False),
        sa.Column("before", sa.Text(), server_default="", nullable=False),
        sa.Column("after", sa.Text(), server_default="", nullable=False),
        sa.Column("result", sa.Text(), server_default="", nullable=False),
        sa.Column("status", sa.Integer(), server_default="0", nullable=False),
        sa.Column("error", sa.Text(), server_default="", nullable=False),
        sa.Column("address", sa.Text(), server_default="", nullable=False),
        sa.Column("control_plane", sa.Text(), server_default="", nullable=False),
        sa.PrimaryKeyConstraint("id"),
    )
    op.create_index("ix_audit_events_at", "audit_events", ["at"], unique=False)
    op.create_table(
        "catalog_models",
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("definition", sa.Text(), nullable=False),
        sa.Column("version", sa.BigInteger(), nullable=False),
        sa.Column("by", sa.Text(), server_default="", nullable=False),
        sa.Column("at", sa.Double(), nullable=False),
        sa.PrimaryKeyConstraint("name"),
    )
    op.create_table(
        "cluster_settings",
        sa.Column("version", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("at", sa.Double(), nullable=False),
        sa.Column("actor", sa.Text(), server_default="", nullable=False),
        sa.Column("note", sa.Text(), server_default="", nullable=False),
        sa.Column("document", sa.Text(), server_default="", nullable=False),
        sa.Column("sha256", sa.Text(), server_default="", nullable=False),
        sa.PrimaryKeyConstraint("version"),
    )
    op.create_table(
        "facility_holds",
        sa.Column("domain", sa.Text(), nullable=False),
        sa.Column("reason", sa.Text(), server_default="", nullable=False),
        sa.Column("by", sa.Text(), server_default="", nullable=False),
        sa.Column("at", sa.Double(), nullable=False),
        sa.Column("drain", sa.Boolean(), server_default=sa.false(), nullable=False),
        sa.PrimaryKeyConstraint("domain"),
    )
    op.create_table(
        "jobs",
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("kind", sa.Text(), server_default="", nullable=False),
        sa.Column("state", sa.Text(), server_default="", nullable=False),
        sa.Column("by", sa.Text(), server_default="", nullable=False),
        sa.Column("created_at", sa.Double(), nullable=False),
        sa.Column("finished_at", sa.Double(), nullable=True),
        sa.Column("detail", sa.Text(), server_default="", nullable=False),
        sa.Column("error", sa.Text(), server_default="", nullable=False),
        sa.PrimaryKeyConstraint("id"),
    )
    op.create_table(
        "lease",
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("holder", sa.Text(), server_default="", nullable=False),
        sa.Column("address", sa.Text(), server_default="", nullable=False),
        sa.Column("term", sa.BigInteger(), server_default="0", nullable=False),
        sa.Column("expires_at", sa.Double(), server_default="0", nullable=False),
        sa.PrimaryKeyConstraint("name"),
    )
    op.create_table(
        "model_overrides",
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("scaling", sa.Text(), nullable=True),
        sa.Column("class", sa.Text(), nullable=True),
        sa.Column("owner", sa.Text(), nullable=True),
        sa.Column("resources", sa.Text(), nullable=True),
        sa.Column("adapters", sa.Text(), nullable=True),
        sa.Column("gate", sa.Text(), nullable=True),
        sa.PrimaryKeyConstraint("name"),
    )
    op.create_table(
        "node_cordons",
        sa.Column("node", sa.Text(), nullable=False),
        sa.Column("by", sa.Text(), server_default="", nullable=False),
        sa.Column("at", sa.Double(), nullable=False),
        sa.Column("drain", sa.Boolean(), server_default=sa.false(), nullable=False),
        sa.PrimaryKeyConstraint("node"),
    )
    op.create_table(
        "node_engines",
        sa.Column("node", sa.Text(), nullable=False),
        sa.Column("engine", sa.Text(), nullable=False),
        sa.Column("build", sa.Text(), server_default="", nullable=False),
        sa.PrimaryKeyConstraint("node", "engine"),
    )
    op.create_table(
        "node_labels",
        sa.Column("node", sa.Text(), nullable=False),
        sa.Column("key", sa.Text(), nullable=False),
        sa.Column("value", sa.Text(), server_default="", nullable=False),
        sa.PrimaryKeyConstraint("node", "key"),
    )
    op.create_table(
        "nodes",
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("address", sa.Text(), server_default="", nullable=False),
        sa.Column("joined_at", sa.Double(), nullable=False),
        sa.PrimaryKeyConstraint("id"),
    )
    op.create_table(
        "orgs",
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("name", sa.Text(), server_default="", nullable=False),
        sa.Column("created_at", sa.Double(), nullable=False),
        sa.PrimaryKeyConstraint("id"),
    )
    op.create_table(
        "parked",
        sa.Column("model", sa.Text(), nullable=False),
        sa.Column("failures", sa.Integer(), server_default="0", nullable=False),
        sa.Column("reason", sa.Text(), server_default="", nullable=False),
        sa.Column("at", sa.Double(), nullable=False),
        sa.PrimaryKeyConstraint("model"),
    )
    op.create_table(
        "quotas",
        sa.Column("scope", sa.Text(), nullable=False),
        sa.Column("scope_id", sa.Text(), nullable=False),
        sa.Column("guaranteed", sa.Double(), nullable=True),
        sa.Column("limit", sa.Double(), nullable=True),
        sa.PrimaryKeyConstraint("scope", "scope_id"),
    )
    op.create_table(
        "revoked_certs",
        sa.Column("cn", sa.Text(), nullable=False),
        sa.Column("serial", sa.Text(), nullable=False),
        sa.Column("not_before", sa.Double(), nullable=True),
        sa.Column("at", sa.Double(), nullable=False),
        sa.Column("by", sa.Text(), server_default="", nullable=False),
        sa.Column("reason", sa.Text(), server_default="", nullable=False),
        sa.PrimaryKeyConstraint("cn", "serial"),
    )
    op.create_table(
        "schema_releases",
        sa.Column("revision", sa.Text(), nullable=False),
        sa.Column("release", sa.Text(), server_default="", nullable=False),
        sa.Column("at", sa.Double(), nullable=False),
        sa.PrimaryKeyConstraint("revision"),
    )
    op.create_table(
        "secrets",
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("value", sa.LargeBinary(), nullable=False),
        sa.Column("at", sa.Double(), nullable=False),
        sa.PrimaryKeyConstraint("name"),
    )
    op.create_table(
        "tenancy_epoch",
        sa.Column("one", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("epoch", sa.BigInteger(), server_default="0", nullable=False),
        sa.PrimaryKeyConstraint("one"),
    )
    op.create_table(
        "usage",
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("request_id", sa.Text(), nullable=False),
        sa.Column("at", sa.Double(), nullable=False),
        sa.Column("endpoint", sa.Text(), server_default="", nullable=False),
        sa.Column("stream", sa.Boolean(), server_default=sa.false(), nullable=False),
        sa.Column("key_id", sa.Text(), server_default="", nullable=False),
        sa.Column("kind", sa.Text(), server_default="", nullable=False),
        sa.Column("project_id", sa.Text(), server_default="", nullable=False),
        sa.Column("team_id", sa.Text(), server_default="", nullable=False),
        sa.Column("org_id", sa.Text(), server_default="", nullable=False),
        sa.Column("user_id", sa.Text(), server_default="", nullable=False),
        sa.Column("model", sa.Text(), server_default="", nullable=False),
        sa.Column("served_model", sa.Text(), server_default="", nullable=False),
        sa.Column("replica_id", sa.Text(), server_default="", nullable=False),
        sa.Column("variant", sa.Text(), server_default="", nullable=False),
        sa.Column("external", sa.Text(), server_default="", nullable=False),
        sa.Column("prompt_tokens", sa.BigInteger(), server_default="0", nullable=False),
        sa.Column("completion_tokens", sa.BigInteger(), server_default="0", nullable=False),
        sa.Column("tokens_estimated", sa.Boolean(), server_default=sa.false(), nullable=False),
        sa.Column("cost_micros", sa.BigInteger(), server_default="0", nullable=False),
        sa.Column("status", sa.Integer(), server_default="0", nullable=False),
        sa.Column("outcome", sa.Text(), server_default="", nullable=False),
        sa.Column("queue_ms", sa.BigInteger(), server_default="0", nullable=False),
        sa.Column("ttft_ms", sa.BigInteger(), nullable=True),
        sa.Column("latency_ms", sa.BigInteger(), server_default="0", nullable=False),
        sa.Column("end_user", sa.Text(), server_default="", nullable=False),
        sa.Column("tags", sa.Text(), server_default="", nullable=False),
        sa.Column("cache_hit", sa.Boolean(), server_default=sa.false(), nullable=False),
        sa.Column("guard_action", sa.Text(), server_default="", nullable=False),
        sa.Column("guard_policy", sa.Text(), server_default="", nullable=False),
        sa.Column("guard_category", sa.Text(), server_default="", nullable=False),
        sa.Column("guard_rule", sa.Text(), server_default="", nullable=False),
        sa.Column("guard_ms", sa.BigInteger(), server_default="0", nullable=False),
        sa.Column("band", sa.Text(), server_default="", nullable=False),
        sa.PrimaryKeyConstraint("id"),
    )
    op.create_index("ix_usage_at", "usage", ["at"], unique=False)
    op.create_index(op.f("ix_usage_request_id"), "usage", ["request_id"], unique=False)
    op.create_table(
        "usage_5m",
        sa.Column("start", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("org_id", sa.Text(), nullable=False),
        sa.Column("team_id", sa.Text(), nullable=False),
        sa.Column("project_id", sa.Text(), nullable=False),
        sa.Column("user_id", sa.Text(), nullable=False),
        sa.Column("key_id", sa.Text(), nullable=False),
        sa.Column("model", sa.Text(), nullable=False),
        sa.Column("requests", sa.BigInteger(), server_default="0", nullable=False),
        sa.Column("errors", sa.BigInteger(), server_default="0", nullable=False),
        sa.Column("limited", sa.BigInteger(), server_default="0", nullable=False),
        sa.Column("blocked", sa.BigInteger(), server_default="0", nullable=False),
        sa.Column("cache_hits", sa.BigInteger(), server_default="0", nullable=False),
        sa.Column("prompt_tokens", sa.BigInteger(), server_default="0", nullable=False),
        sa.Column("completion_tokens", sa.BigInteger(), server_default="0", nullable=False),
        sa.Column("cost_micros", sa.BigInteger(), server_default="0", nullable=False),
        sa.PrimaryKeyConstraint("start", "org_id", "team_id", "project_id", "user_id", "key_id", "model"),
    )
    op.create_table(
        "users",
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("email", sa.Text(), nullable=False),
        sa.Column("name", sa.Text(), server_default="", nullable=False),
        sa.Column("state", sa.Text(), server_default="active", nullable=False),
        sa.Column("created_at", sa.Double(), nullable=False),
        sa.PrimaryKeyConstraint("id"),
        sa.UniqueConstraint("email"),
    )
    op.create_table(
        "teams",
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("org_id", sa.Text(), nullable=False),
        sa.Column("name", sa.Text(), server_default="", nullable=False),
        sa.Column("created_at", sa.Double(), nullable=False),
        sa.ForeignKeyConstraint(
            ["org_id"],
            ["orgs.id"],
        ),
        sa.PrimaryKeyConstraint("id"),
    )
    op.create_index(op.f("ix_teams_org_id"), "teams", ["org_id"], unique=False)
    op.create_table(
        "projects",
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("team_id", sa.Text(), nullable=False),
        sa.Column("name", sa.Text(), server_default="", nullable=False),
        sa.Column("created_at", sa.Double(), nullable=False),
        sa.ForeignKeyConstraint(
            ["team_id"],
            ["teams.id"],
        ),
        sa.PrimaryKeyConstraint("id"),
    )
    op.create_index(op.f("ix_projects_team_id"), "projects", ["team_id"], unique=False)
    op.create_table(
        "api_keys",
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("hash", sa.Text(), nullable=False),
        sa.Column("prefix", sa.Text(), nullable=False),
        sa.Column("name", sa.Text(), server_default="", nullable=False),
        sa.Column("project_id", sa.Text(), nullable=True),
        sa.Column("user_id", sa.Text(), nullable=True),
        sa.Column("created_at", sa.Double(), nullable=False),
        sa.Column("created_by", sa.Text(), server_default="", nullable=False),
        sa.Column("expires_at", sa.Double(), nullable=True),
        sa.Column("revoked_at", sa.Double(), nullable=True),
        sa.Column("revoked_by", sa.Text(), nullable=True),
        sa.Column("last_used_at", sa.Double(), nullable=True),
        sa.Column("rotated_from", sa.Text(), nullable=True),
        sa.Column("band", sa.Text(), server_default="silver", nullable=False),
        sa.Column("profile", sa.Text(), server_default="chat", nullable=False),
        sa.ForeignKeyConstraint(
            ["project_id"],
            ["projects.id"],
        ),
        sa.ForeignKeyConstraint(
            ["user_id"],
            ["users.id"],
        ),
        sa.PrimaryKeyConstraint("id"),
        sa.UniqueConstraint("hash"),
    )
    op.create_index(op.f("ix_api_keys_prefix"), "api_keys", ["prefix"], unique=False)
    op.create_index(op.f("ix_api_keys_project_id"), "api_keys", ["project_id"], unique=False)
    op.create_index(op.f("ix_api_keys_user_id"), "api_keys", ["user_id"], unique=False)
    _first_rows()


def _first_rows() -> None:
    """Make the default tree, the epoch's row and the leader's lease, so that everything else finds one."""
    now, org, team = time.time(), new_id("org"), new_id("team")
    rows = {
        "orgs": {"id": org, "name": "default", "created_at": now},
        "teams": {"id": team, "org_id": org, "name": "default", "created_at": now},
        "projects": {"id": new_id("prj"), "team_id": team, "name": "default", "created_at": now},
        "tenancy_epoch": {"one": 1, "epoch": 1},
        "lease": {"name": "leader", "holder": "", "term": 0, "expires_at": 0.0},
    }
    for name, row in rows.items():
        op.bulk_insert(sa.table(name, *map(sa.column, row)), [row])
