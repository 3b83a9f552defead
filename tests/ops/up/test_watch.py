"""What is said while a model comes, and when waiting ends."""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from llmgw.config.refusal import Refused
from llmgw.ops.up.children import Children
from llmgw.ops.up.layout import Layout
from llmgw.ops.up.watch import fetch_sentence, wait_for_model


@pytest.fixture
def stop_fd() -> Iterator[int]:
    read_fd, write_fd = os.pipe()
    yield read_fd
    os.close(read_fd)
    os.close(write_fd)


def answering(models: list[dict[str, Any]], replicas: list[list[dict[str, Any]]]) -> Any:
    """An admin API that answers the next of each list at every question."""

    def ask(operation: str, **_: Any) -> Any:
        if operation == "placement":
            return {"profiles": [{"rejections": [{"node": "local", "reason": "0.2 of 2 GiB free, needs 4"}]}]}
        if operation == "list_models":
            return [models.pop(0) if len(models) > 1 else models[0]]
        return replicas.pop(0) if len(replicas) > 1 else replicas[0]

    return ask


def test_each_step_is_said_once_until_a_replica_is_ready(tmp_path: Path, stop_fd: int) -> None:
    fetching = [{"state": "fetching", "fetch": {"done": 25, "total": 100}}]
    ask = answering(
        [{"name": "m"}] * 4 + [{"name": "m", "ready": 1}], [[], fetching, fetching, [{"state": "starting"}]]
    )
    said: list[str] = []
    wait_for_model(ask, Children(Layout(tmp_path)), "m", said.append, stop_fd)
    assert said == ["downloading the model: 20 % of 0 MB", "loading the model"]


def test_a_parked_model_ends_the_wait_with_its_reason(tmp_path: Path, stop_fd: int) -> None:
    ask = answering([{"name": "m", "parked": True, "reason": "the file is cut short"}], [[]])
    with pytest.raises(Refused, match="m does not start: the file is cut short"):
        wait_for_model(ask, Children(Layout(tmp_path)), "m", lambda _: None, stop_fd)


def test_a_model_that_fits_nowhere_is_explained(tmp_path: Path, stop_fd: int) -> None:
    ask = answering([{"name": "m", "unplaceable": True}, {"name": "m", "ready": 1}], [[]])
    said: list[str] = []
    wait_for_model(ask, Children(Layout(tmp_path)), "m", said.append, stop_fd)
    assert said == ["waiting for room: 0.2 of 2 GiB free, needs 4"]


def test_a_signal_ends_the_wait(tmp_path: Path) -> None:
    read_fd, write_fd = os.pipe()
    os.write(write_fd, b"x")
    with pytest.raises(KeyboardInterrupt):
        wait_for_model(answering([{"name": "m"}], [[]]), Children(Layout(tmp_path)), "m", lambda _: None, read_fd)
    os.close(read_fd)
    os.close(write_fd)


@pytest.mark.parametrize(
    ("done", "total", "text"),
    [(0, 400_000_000, "0 % of 400 MB"), (399_999_999, 400_000_000, "90 %"), (60_000_000, 0, "50 MB"), (5, 4, "100 %")],
)
def test_progress_is_told_in_tenths(done: int, total: int, text: str) -> None:
    assert text in fetch_sentence(done, total)
