"""The columns that the specification names are there."""

from llmgw.store import tables


def test_the_columns_of_the_specification_are_there() -> None:
    wanted = {
        tables.usage: "id request_id at endpoint stream key_id kind project_id team_id org_id user_id model served_model "
        "replica_id variant external prompt_tokens completion_tokens cost_micros status outcome queue_ms ttft_ms "
        "latency_ms end_user tags cache_hit guard_action guard_policy guard_category guard_rule guard_ms band",
        tables.usage_5m: "start org_id team_id project_id user_id key_id model requests errors limited blocked "
        "cache_hits prompt_tokens completion_tokens cost_micros",
        tables.audit_events: "id at actor source action target fields before after result status error address "
        "control_plane",
        tables.cluster_settings: "version at actor note document sha256",
        tables.catalog_models: "name definition version by at",
        tables.model_overrides: "name scaling class owner resources adapters gate",
        tables.nodes: "id address joined_at",
        tables.node_labels: "node key value",
        tables.node_engines: "node engine build",
        tables.node_cordons: "node by at",
        tables.facility_holds: "domain reason by at drain",
        tables.quotas: "scope scope_id guaranteed limit",
        tables.revoked_certs: "cn serial not_before at by reason",
    }
    for table, names in wanted.items():
        assert set(names.split()) <= set(table.columns.keys()), table.name


def test_every_large_table_is_indexed_by_what_it_is_read_and_pruned_by() -> None:
    indexed = {
        (index.table.name, column.name)
        for table in tables.metadata.tables.values()
        for index in table.indexes
        for column in index.columns
    }
    assert {
        ("usage", "request_id"),
        ("usage", "at"),
        ("audit_events", "at"),
        ("api_keys", "prefix"),
    } <= indexed
