"""What `up` writes is what the two roles read."""

import json
from pathlib import Path

from llmgw.config.load import load_agent_config, load_server_config
from llmgw.config.model import decode_model
from llmgw.ops.up.files import kept_engine_ports, write_configuration
from llmgw.ops.up.layout import Layout
from llmgw.ops.up.model import ModelChoice
from llmgw.ops.up.ports import Ports


def test_both_roles_read_what_is_written(tmp_path: Path) -> None:
    layout = Layout(tmp_path / "data")
    layout.make()
    choice = ModelChoice("tiny", "/models/tiny.gguf", 0.5, "a tiny model", "none")
    write_configuration(layout, Ports(1, 2, 3, 4, "20020-20039"), Path("/engine/llama-server"), choice, "nobody")
    server, agent = load_server_config(layout.server_yaml), load_agent_config(layout.agent_yaml)
    assert (server.listen, server.agent_listen) == ("127.0.0.1:1", "127.0.0.1:2")
    assert server.auth.store == str(layout.store)
    assert agent.servers == server.endpoints
    assert server.control.port_range == kept_engine_ports(layout) == "20020-20039"
    assert agent.supervisor.user == "nobody"
    assert agent.engines.llamacpp.bin == "/engine/llama-server"
    model = decode_model(server.models[0])
    assert (model.name, model.source) == ("tiny", "/models/tiny.gguf")
    assert server.agent_tls is not None and agent.tls is not None
    assert server.agent_tls.ca == agent.tls.ca


def test_up_json_leads_to_the_server_and_holds_no_secret(tmp_path: Path) -> None:
    layout = Layout(tmp_path / "data")
    layout.make()
    choice = ModelChoice("tiny", "/models/tiny.gguf", 0.5, "a tiny model", "none")
    write_configuration(layout, Ports(1, 2, 3, 4), Path("/engine/llama-server"), choice, None)
    found = json.loads(layout.address_file.read_text())
    assert found["admin"] == "http://127.0.0.1:3"
    assert set(found) == {"pid", "url", "admin", "token_file", "store"}
