"""The forms of a source, and the names of their copies."""

from __future__ import annotations

import hashlib

import pytest

from llmgw.agent.weight_source import BadSource, cache_name, is_hub_id, remote_source

DIGEST = "AB" * 32


@pytest.mark.covers("E-180")
def test_what_is_downloaded_and_what_is_not() -> None:
    assert remote_source("/models/m.gguf") is None and remote_source("org/repo") is None
    single = remote_source(f"https://h/d/m%20x.gguf?v=1#sha256={DIGEST}")
    assert single is not None and not single.is_set
    assert (single.url, single.sha256) == ("https://h/d/m%20x.gguf?v=1", DIGEST.lower())
    assert single.cache_name.endswith("-m_x.gguf")
    folder = remote_source("http://h/d/set/")
    assert folder is not None and folder.is_set and folder.cache_name.endswith("-set")
    hub = remote_source("hf:o/r/sub/f.gguf@v2")
    assert hub is not None and hub.url == "https://huggingface.co/o/r/resolve/v2/sub/f.gguf"
    main = remote_source("hf:o/r/f.gguf")
    assert main is not None and "/resolve/main/" in main.url


@pytest.mark.covers("E-180")
@pytest.mark.parametrize(
    "source",
    [
        "", "file:///etc/passwd", "m.gguf", "./m.gguf", "../m.gguf", "~/m.gguf", "hf:o/r", "hf:o/../f", "ftp://h/f",
        "http://user:pw@h/f", "https://user@h/f", "http:///f", "http://h/f#md5=1", "http://h/f#sha256=12",
        f"http://h/d/#sha256={DIGEST}",
    ],
)  # fmt: skip
def test_every_other_form_is_refused_in_words(source: str) -> None:
    with pytest.raises(BadSource) as refused:
        remote_source(source)
    assert refused.value.sentence and "pw" not in refused.value.sentence


@pytest.mark.covers("E-105")
def test_a_bare_hub_id_is_what_no_other_form_is() -> None:
    assert is_hub_id("org/repo")
    assert not any(is_hub_id(other) for other in ("", "/a/b", "./a", "../a", "~/a", "http://h/a", "https://h/a", "hf:o/r/f"))


def test_a_copys_name_is_the_sources_hash_and_its_last_part() -> None:
    assert cache_name("s", "/a/b.gguf") == hashlib.sha256(b"s").hexdigest()[:16] + "-b.gguf"
    assert "/" not in cache_name("s", "/a/..%2F..%2Fx") and cache_name("s", "/").endswith("-weights")
