"""The account engines run as: never root, by name or number, and said how to make when it is missing."""

from __future__ import annotations

import os
import pwd

import pytest

from llmgw.agent.engine_user import engine_user
from llmgw.config.refusal import Refused

as_root = pytest.mark.skipif(os.geteuid() != 0, reason="an agent that is not root runs engines as itself")


@as_root
def test_a_name_and_a_number_are_the_same_account() -> None:
    number = str(pwd.getpwnam("nobody").pw_uid)
    named = engine_user("nobody")
    assert named is not None and named == engine_user(number) and named.uid == int(number)


@as_root
def test_a_missing_account_is_refused_with_the_command_that_makes_it_and_root_is_refused() -> None:
    with pytest.raises(Refused) as missing:
        engine_user("llmgw-no-such-user")
    assert "useradd" in missing.value.sentence and "supervisor.user" in missing.value.sentence
    for root in ("root", "0"):
        with pytest.raises(Refused, match="never run as root"):
            engine_user(root)


@pytest.mark.skipif(os.geteuid() == 0, reason="for agents that are not root")
def test_an_agent_that_is_not_root_needs_no_account() -> None:
    assert engine_user("llmgw-no-such-user") is None
