import pytest

from llmgw.net.deadlines import Deadlines
from llmgw.net.upstream_errors import (
    ConnectFailed,
    FirstByteTimeout,
    IdleTimeout,
    UpstreamBroken,
    UpstreamError,
)
from llmgw.ports import GatewaySettings


@pytest.mark.parametrize(
    ("error", "may_retry"),
    [
        (ConnectFailed("no"), True),
        (FirstByteTimeout("no"), True),
        (IdleTimeout("no"), False),
        (UpstreamBroken("no", before_first_byte=True), True),
        (UpstreamBroken("no", before_first_byte=False), False),
    ],
)
def test_each_error_says_whether_a_byte_of_the_answer_came(error: UpstreamError, may_retry: bool) -> None:
    assert error.before_first_byte is may_retry
    assert str(error) == error.reason == "no"


@pytest.mark.covers("S-11")
def test_the_deadlines_are_those_of_the_specification() -> None:
    assert Deadlines() == Deadlines(connect_s=5, first_byte_s=600, idle_s=120)
    router = GatewaySettings()
    assert (router.dial_s, router.first_byte_s, router.idle_s, router.total_s) == (5, 600, 120, 3600)
