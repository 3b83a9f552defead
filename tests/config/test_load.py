"""Configuration files become structs, or one sentence naming the key."""

from pathlib import Path

import pytest

from llmgw.config.load import load_agent_config, load_server_config
from llmgw.config.refusal import Refused


def written(tmp_path: Path, text: str | bytes) -> Path:
    path = tmp_path / "file.yaml"
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    return path


def test_an_empty_file_is_every_default(tmp_path: Path) -> None:
    config = load_server_config(written(tmp_path, ""))
    assert (config.listen, config.agent_listen, config.admin_listen) == (":8080", ":7443", "127.0.0.1:9090")
    assert config.router.timeouts.first_byte == 600.0
    assert config.auth.flush_interval == 0.2


def test_durations_are_read_at_every_depth(tmp_path: Path) -> None:
    text = "router: {scrape_interval: 200ms, timeouts: {dial: 7}}\ncontrol: {drain_timeout: 1h30m}\n"
    config = load_server_config(written(tmp_path, text))
    assert config.router.scrape_interval == pytest.approx(0.2)
    assert config.router.timeouts.dial == 7.0
    assert config.control.drain_timeout == 5400.0


def test_an_optional_section_is_read(tmp_path: Path) -> None:
    config = load_agent_config(written(tmp_path, "servers: [a]\ntls: {ca: x, cert: y, key: z}\n"))
    assert config.tls is not None
    assert config.tls.key == "z"


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("router: {scrap: 1}", "router: Object contains unknown field `scrap`"),
        ("lisen: ':80'", "unknown field `lisen`"),
        ("router: {timeouts: {dial: soon}}", "router.timeouts.dial 'soon' is not a duration"),
        ("auth: {batch_size: 0}", "auth.batch_size"),
        ("auth: {pricing: {m: {prompt_per_1k: -1}}}", "prompt_per_1k"),
        ("router: 3", "router: Expected `object`"),
        ("- 1", "must be a table of keys, not list"),
        ("a: [", "is not YAML"),
        ("log: {format: xml}", "log.format"),
        (b"\xff\xfe", "is not UTF-8 at byte 0"),
        ("listen: !!python/object/apply:os.system ['true']", "is not YAML"),
    ],
)
def test_a_wrong_key_or_value_is_refused_naming_file_and_key(tmp_path: Path, text: str | bytes, names: str) -> None:
    path = written(tmp_path, text)
    with pytest.raises(Refused) as caught:
        load_server_config(path)
    assert names in caught.value.sentence
    assert str(path) in caught.value.sentence
    assert "\n" not in caught.value.sentence


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(Refused, match="cannot be read: No such file"):
        load_server_config(tmp_path / "absent.yaml")


def test_a_file_of_many_megabytes_is_refused_unread(tmp_path: Path) -> None:
    with pytest.raises(Refused, match="larger than"):
        load_server_config(written(tmp_path, b"#" * (5 * 1024 * 1024)))
