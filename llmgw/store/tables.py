"""Every table of the store, once, for both databases.

Times are Unix seconds (UTC) as doubles, so that SQLite and PostgreSQL hold the same value; five-minute buckets are
whole seconds. An id that is absent is "" where it is part of a key (a NULL would make two equal rows distinct) and NULL
where it refers. JSON is text: nothing queries inside it. What is here must equal what the migrations build; a test
compares them.
"""

import sqlalchemy as sa
from sqlalchemy import BigInteger, Boolean, Column, Double, ForeignKey, Index, Integer, MetaData, Table, Text

metadata = MetaData()


def _text(name: str, **more: object) -> Column[str]:
    return Column(name, Text, nullable=False, server_default="", **more)  # type: ignore[arg-type]


def _count(name: str) -> Column[int]:
    return Column(name, BigInteger, nullable=False, server_default="0")


def _flag(name: str) -> Column[bool]:
    return Column(name, Boolean, nullable=False, server_default=sa.false())


def _time(name: str) -> Column[float]:
    return Column(name, Double, nullable=False)


# The tree and the people in it (T-01, T-06). One default of each until the commands that grow it exist.
orgs = Table("orgs", metadata, Column("id", Text, primary_key=True), _text("name"), _time("created_at"))
teams = Table(
    "teams",
    metadata,
    Column("id", Text, primary_key=True),
    Column("org_id", Text, ForeignKey("orgs.id"), nullable=False, index=True),
    _text("name"),
    _time("created_at"),
)
projects = Table(
    "projects",
    metadata,
    Column("id", Text, primary_key=True),
    Column("team_id", Text, ForeignKey("teams.id"), nullable=False, index=True),
    _text("name"),
    _time("created_at"),
)
users = Table(
    "users",
    metadata,
    Column("id", Text, primary_key=True),
    Column("email", Text, nullable=False, unique=True),
    _text("name"),
    Column("state", Text, nullable=False, server_default="active"),
    _time("created_at"),
)

# T-11, in full. Only the hash is kept.
api_keys = Table(
    "api_keys",
    metadata,
    Column("id", Text, primary_key=True),
    Column("kind", Text, nullable=False),
    Column("hash", Text, nullable=False, unique=True),
    Column("prefix", Text, nullable=False, index=True),
    _text("name"),
    Column("project_id", Text, ForeignKey("projects.id"), index=True),
    Column("user_id", Text, ForeignKey("users.id"), index=True),
    _time("created_at"),
    _text("created_by"),
    Column("expires_at", Double),
    Column("revoked_at", Double),
    Column("revoked_by", Text),
    Column("last_used_at", Double),
    Column("rotated_from", Text),
    Column("band", Text, nullable=False, server_default="silver"),
    Column("profile", Text, nullable=False, server_default="chat"),
)

# One counter that moves when any key or owner changed (T-18).
tenancy_epoch = Table(
    "tenancy_epoch", metadata, Column("one", Integer, primary_key=True, autoincrement=False), _count("epoch")
)

# T-34, in full. Ids are those in force at the time and refer to nothing, so history never moves (T-04).
usage = Table(
    "usage",
    metadata,
    Column("id", Text, primary_key=True),
    Column("request_id", Text, nullable=False, index=True),
    _time("at"),
    _text("endpoint"),
    _flag("stream"),
    _text("key_id"),
    _text("kind"),
    _text("project_id"),
    _text("team_id"),
    _text("org_id"),
    _text("user_id"),
    _text("model"),
    _text("served_model"),
    _text("replica_id"),
    _text("variant"),
    _text("external"),
    _count("prompt_tokens"),
    _count("completion_tokens"),
    _flag("tokens_estimated"),
    _count("cost_micros"),
    Column("status", Integer, nullable=False, server_default="0"),
    _text("outcome"),
    _count("queue_ms"),
    Column("ttft_ms", BigInteger),
    _count("latency_ms"),
    _text("end_user"),
    _text("tags"),
    _flag("cache_hit"),
    _text("guard_action"),
    _text("guard_policy"),
    _text("guard_category"),
    _text("guard_rule"),
    _count("guard_ms"),
    _text("band"),
    Index("ix_usage_at", "at"),
)

# T-37: written in the transaction of the rows they sum.
usage_5m = Table(
    "usage_5m",
    metadata,
    Column("start", BigInteger, primary_key=True, autoincrement=False),
    Column("org_id", Text, primary_key=True),
    Column("team_id", Text, primary_key=True),
    Column("project_id", Text, primary_key=True),
    Column("user_id", Text, primary_key=True),
    Column("key_id", Text, primary_key=True),
    Column("model", Text, primary_key=True),
    *(
        _count(name)
        for name in (
            "requests",
            "errors",
            "limited",
            "blocked",
            "cache_hits",
            "prompt_tokens",
            "completion_tokens",
            "cost_micros",
        )
    ),
)

# C-55. The id only grows, which is the order of reading; `at` is the writer's clock.
audit_events = Table(
    "audit_events",
    metadata,
    Column("id", BigInteger().with_variant(Integer, "sqlite"), primary_key=True, autoincrement=True),
    _time("at"),
    _text("actor"),
    _text("source"),
    _text("action"),
    _text("target"),
    _text("fields"),
    _text("before"),
    _text("after"),
    _text("result"),
    Column("status", Integer, nullable=False, server_default="0"),
    _text("error"),
    _text("address"),
    _text("control_plane"),
    Index("ix_audit_events_at", "at"),
)

# C-59: never updated in place; current is the highest version.
cluster_settings = Table(
    "cluster_settings",
    metadata,
    Column("version", BigInteger, primary_key=True, autoincrement=False),
    _time("at"),
    _text("actor"),
    _text("note"),
    _text("document"),
    _text("sha256"),
)

# The leader's lease. Its term only grows, and every write of the leader carries it (architecture.md section 9).
lease = Table(
    "lease",
    metadata,
    Column("name", Text, primary_key=True),
    _text("holder"),
    _text("address"),
    _count("term"),
    Column("expires_at", Double, nullable=False, server_default="0"),
)

secrets = Table(
    "secrets",
    metadata,
    Column("name", Text, primary_key=True),
    Column("value", sa.LargeBinary, nullable=False),
    _time("at"),
)

# L-33 and what must outlive a restart of the leader.
catalog_models = Table(
    "catalog_models",
    metadata,
    Column("name", Text, primary_key=True),
    Column("definition", Text, nullable=False),
    Column("version", BigInteger, nullable=False),
    _text("by"),
    _time("at"),
)
model_overrides = Table(
    "model_overrides",
    metadata,
    Column("name", Text, primary_key=True),
    *(Column(name, Text) for name in ("scaling", "class", "owner", "resources", "adapters", "gate")),
)
nodes = Table("nodes", metadata, Column("id", Text, primary_key=True), _text("address"), _time("joined_at"))
node_labels = Table(
    "node_labels",
    metadata,
    Column("node", Text, primary_key=True),
    Column("key", Text, primary_key=True),
    _text("value"),
)
node_engines = Table(
    "node_engines",
    metadata,
    Column("node", Text, primary_key=True),
    Column("engine", Text, primary_key=True),
    _text("build"),
)
node_cordons = Table(
    "node_cordons",
    metadata,
    Column("node", Text, primary_key=True),
    _text("by"),
    _time("at"),
    _flag("drain"),
)
facility_holds = Table(
    "facility_holds",
    metadata,
    Column("domain", Text, primary_key=True),
    _text("reason"),
    _text("by"),
    _time("at"),
    _flag("drain"),
)
quotas = Table(
    "quotas",
    metadata,
    Column("scope", Text, primary_key=True),
    Column("scope_id", Text, primary_key=True),
    Column("guaranteed", Double),
    Column("limit", Double),
)
parked = Table(
    "parked",
    metadata,
    Column("model", Text, primary_key=True),
    Column("failures", Integer, nullable=False, server_default="0"),
    _text("reason"),
    _time("at"),
)
# `serial` "" revokes the common name for certificates issued before `not_before`.
revoked_certs = Table(
    "revoked_certs",
    metadata,
    Column("cn", Text, primary_key=True),
    Column("serial", Text, primary_key=True),
    Column("not_before", Double),
    _time("at"),
    _text("by"),
    _text("reason"),
)
jobs = Table(
    "jobs",
    metadata,
    Column("id", Text, primary_key=True),
    _text("kind"),
    _text("state"),
    _text("by"),
    _time("created_at"),
    Column("finished_at", Double),
    _text("detail"),
    _text("error"),
)

# Which release brought the schema to which revision: what a refusal of an older release can name.
schema_releases = Table(
    "schema_releases",
    metadata,
    Column("revision", Text, primary_key=True),
    _text("release"),
    _time("at"),
)
