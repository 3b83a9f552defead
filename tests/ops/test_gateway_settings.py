"""Every router and auth figure of the file reaches the gateway."""

from pathlib import Path

import pytest

from llmgw.config.load import load_server_config
from llmgw.ops.gateway_settings import gateway_settings
from llmgw.ports import GatewaySettings


@pytest.mark.covers("S-11")
def test_each_figure_reaches_the_gateway(tmp_path: Path) -> None:
    file = tmp_path / "server.yaml"
    file.write_text(
        "router: {scrape_interval: 1s, inject_usage: false, max_body_bytes: 2048, trusted_proxies: [10.0.0.0/8],"
        " timeouts: {dial: 1s, first_byte: 2s, idle: 3s, total: 4s}, admission: {load_wait: 5s}}\n"
        "auth: {enabled: false, pricing: {m: {prompt_per_1k: 6, completion_per_1k: 7}},"
        " default_price: {prompt_per_1k: 8, completion_per_1k: 9}}\n"
    )
    assert gateway_settings(load_server_config(file)) == GatewaySettings(
        keys_required=False, inject_usage=False, max_body_bytes=2048, scrape_interval_s=1.0, dial_s=1.0,
        first_byte_s=2.0, idle_s=3.0, total_s=4.0, load_wait_s=5.0, prompt_price_micros={"m": 6},
        completion_price_micros={"m": 7}, default_prompt_price_micros=8, default_completion_price_micros=9,
        trusted_proxies=("10.0.0.0/8",),
    )  # fmt: skip


def test_the_defaults_of_file_and_gateway_agree(tmp_path: Path) -> None:
    file = tmp_path / "server.yaml"
    file.write_text("")
    assert gateway_settings(load_server_config(file)) == GatewaySettings()
