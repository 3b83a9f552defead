"""Usage rows for tests."""

import random

from llmgw.ports import UsageRow


def usage_row(number: int, seed: random.Random | None = None, **fields: object) -> UsageRow:
    """Return a row with id `use-<number>`; with a seed its other columns vary."""
    pick = seed or random.Random(0)
    values: dict = {
        "id": f"use-{number:06d}",
        "request_id": f"req-{number}",
        "at_unix": 1_800_000_000.0 + pick.randrange(2000),
        "endpoint": "chat.completions",
        "stream": pick.random() < 0.5,
        "key_id": f"key-{pick.randrange(3)}",
        "kind": "service",
        "project_id": f"prj-{pick.randrange(2)}",
        "team_id": "team-0",
        "org_id": "org-0",
        "user_id": "",
        "model": f"m{pick.randrange(3)}",
        "prompt_tokens": pick.randrange(1000),
        "completion_tokens": pick.randrange(1000),
        "cost_micros": pick.randrange(10**9),
        "status": 200,
        "outcome": pick.choice(["ok", "error", "limited", "blocked", "cancelled"]),
        "cache_hit": pick.random() < 0.1,
        "ttft_ms": pick.choice([None, 5]),
    }
    return UsageRow(**(values | fields))
