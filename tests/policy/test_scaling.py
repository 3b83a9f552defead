from __future__ import annotations

import pytest

from llmgw.config.model import Scaling
from llmgw.policy.scaling import Wanted, decide, slots_of
from llmgw.policy.snapshot import Load, ScaleState
from tests.policy.builds import definition, profile


class Story:
    """Calls `decide` once a second and keeps what it remembers."""

    def __init__(self, scaling: Scaling, ready: int = 1) -> None:
        self.scaling, self.ready, self.now = scaling, ready, 1000.0
        self.state = ScaleState()

    def go(self, seconds: int, load: Load) -> list[int]:
        """Return the desired counts of these seconds; replicas follow what is desired at once."""
        out: list[int] = []
        for _ in range(seconds):
            found: Wanted = decide(
                self.scaling, (self.scaling.min, self.scaling.max), load, self.state,
                ready=self.ready, slots=4, now_s=self.now,
            )  # fmt: skip
            self.state, self.ready = found.state, found.desired
            out.append(found.desired)
            self.now += 1
        return out


@pytest.mark.covers("L-21")
def test_waiting_requests_ask_for_one_more_after_15_s_and_again_after_a_pause_of_60_s() -> None:
    story = Story(Scaling(min=1, max=3))
    counts = story.go(90, Load(waiting=40))
    assert counts.index(2) == 15
    assert counts.index(3) == 75
    assert story.go(100, Load(waiting=40))[-1] == 3


@pytest.mark.covers("L-21")
def test_a_short_burst_or_a_queue_at_the_target_asks_for_nothing() -> None:
    story = Story(Scaling(min=1, max=3))
    assert set(story.go(14, Load(waiting=5))) == {1}
    assert set(story.go(100, Load(waiting=4))) == {1}
    assert set(story.go(14, Load(waiting=5))) == {1}


@pytest.mark.covers("L-21")
def test_work_that_fits_one_less_at_half_use_for_5_min_gives_one_up_at_a_time() -> None:
    story = Story(Scaling(min=1, max=3), ready=3)
    story.state = ScaleState(target=3)
    assert set(story.go(400, Load(inflight=5))) == {3}
    counts = story.go(700, Load(inflight=2))
    assert counts.index(2) == 300
    assert counts.index(1) == 601, "the trend is taken up anew after a step"
    assert set(story.go(700, Load())) == {1}


@pytest.mark.covers("L-21")
def test_a_model_on_demand_is_wanted_from_the_first_request_until_unused_for_its_timeout() -> None:
    story = Story(Scaling(min=0, max=2, idle_timeout=30.0), ready=0)
    assert story.go(5, Load()) == [0] * 5
    assert story.go(3, Load(waiting=1)) == [1] * 3
    assert story.go(100, Load(inflight=1)) == [1] * 100
    last = story.now
    counts = story.go(40, Load(last_used_s=last))
    assert counts == [1] * 30 + [0] * 10


def test_bounds_hold_whatever_demand_says_and_max_0_forgets() -> None:
    state = ScaleState(target=9)
    found = decide(Scaling(min=2, max=3), (2, 3), Load(), state, ready=0, slots=4, now_s=0.0)
    assert found.desired == 3
    assert decide(Scaling(max=0), (0, 0), Load(waiting=9), state, ready=1, slots=4, now_s=0.0).desired == 0


def test_slots_are_read_from_the_arguments_or_are_the_engines_default() -> None:
    assert slots_of(definition()) == 4
    assert slots_of(definition(profiles=[profile(args=["--jinja", "--parallel", "8"])])) == 8
    assert slots_of(definition(profiles=[profile(args=["-np", "2"])])) == 2
    many = definition(source="o/m", profiles=[profile(engine="vllm", gpu_class="a", args=["--max-num-seqs=64"])])
    assert slots_of(many) == 64
