"""A shard's spec: the addresses it means, and that it never shows its key."""

from __future__ import annotations

import pytest

from llmgw.agent.shard_spec import ShardSpec
from llmgw.wire.agent import EngineProfile


@pytest.mark.covers("E-6")
def test_addresses_and_rank_follow_from_its_fields_and_its_text_hides_the_key() -> None:
    spec = ShardSpec(replica_id="r", shard_id="r-0", model="m", profile=EngineProfile(engine="sim"), api_key="hidden")
    assert (spec.listen_host, spec.health_host, spec.is_leader) == ("0.0.0.0", "127.0.0.1", True)
    assert "hidden" not in f"{spec} {spec!r}"
    named = (
        "replica_id shard_id model rank nnodes gpu_indices gpu_uuids hcas fabric mgmt_interface gid_index leader_addr "
        "leader_port http_port bind_addr profile api_key kv_events_port threads pool profile_fp compute"
    )
    assert set(spec.__struct_fields__) == set(named.split())
