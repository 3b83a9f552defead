import gzip
import zlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from llmgw.net.http_message import ClientFault, Headers, inflate, split_target


@pytest.mark.parametrize(
    ("target", "expected"),
    [
        ("/v1/models/org%2Fname?a=b?c", ("/v1/models/org%2Fname", "a=b?c")),
        ("http://host:80/a?b", ("/a", "b")),
        ("HTTPS://host", ("/", "")),
        ("/http://host/x", ("/http://host/x", "")),
        ("*", ("*", "")),
        ("?x", ("/", "x")),
    ],
)
def test_a_target_has_a_path_and_a_query(target: str, expected: tuple[str, str]) -> None:
    assert split_target(target) == expected


def test_headers_keep_order_and_repeats() -> None:
    headers = Headers([("a", "1"), ("b", "2"), ("a", "3")])
    assert (headers.get("a"), headers.get("c"), headers.get("c", "x")) == ("1", None, "x")
    assert headers.get_all("a") == ["1", "3"]
    assert list(headers) == [("a", "1"), ("b", "2"), ("a", "3")]
    assert "3" not in repr(headers)


@given(st.lists(st.binary(max_size=200), max_size=4))
def test_every_member_of_gzip_data_is_inflated(members: list[bytes]) -> None:
    assert inflate(b"".join(map(gzip.compress, members)), 1000) == b"".join(members)


def test_inflating_stops_at_the_bound() -> None:
    bomb = gzip.compress(b"\0" * 100_000_000)
    with pytest.raises(ClientFault) as refused:
        inflate(bomb, 1_000_000)
    assert refused.value.status == 413
    with pytest.raises(ClientFault):
        inflate(gzip.compress(b"x" * 600) * 2, 1000)


@pytest.mark.parametrize("body", [b"plain", zlib.compress(b"x"), gzip.compress(b"x" * 100)[:-1], gzip.compress(b"x") + b"y"])
def test_what_is_not_gzip_is_a_400(body: bytes) -> None:
    with pytest.raises(ClientFault) as refused:
        inflate(body, 1000)
    assert refused.value.status == 400
