"""What is taken for JSON (S-10)."""

import pytest

from llmgw.gateway.stages.read_body import is_json
from llmgw.net.http_message import Headers


@pytest.mark.parametrize(
    ("content_type", "expected"),
    [
        (None, True),
        ("application/json", True),
        ("Application/JSON; charset=utf-8", True),
        ("application/vnd.api+json", True),
        ("text/plain", False),
        ("application/x-www-form-urlencoded", False),
        ("multipart/form-data; boundary=x", False),
        ("text/x+json", False),
    ],
)
def test_a_body_is_json_where_it_says_so_or_says_nothing(content_type, expected):
    fields = [] if content_type is None else [("content-type", content_type)]
    assert is_json(Headers(fields)) is expected
