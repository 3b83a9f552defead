"""How many requests each model has that no replica can take yet: what the leader scales from.

Waiting is counted by a `with` block, so a client that gives up stops being demand at once.
"""

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager


class Demand:
    """Requests waiting now and arrived since the last report, by model."""

    def __init__(self) -> None:
        self._waiting: Counter[str] = Counter()
        self._arrived: Counter[str] = Counter()

    def arrived(self, model: str) -> None:
        """Count one request for a model that exists."""
        self._arrived[model] += 1

    @contextmanager
    def waits(self, model: str) -> Iterator[None]:
        """Count one request held for a replica of `model` while the block lasts."""
        self._waiting[model] += 1
        try:
            yield
        finally:
            self._waiting[model] -= 1

    def waiting(self) -> dict[str, int]:
        """Return model to requests held now, zeros left out."""
        return {model: count for model, count in self._waiting.items() if count}

    def take_arrived(self) -> dict[str, int]:
        """Return arrivals since the last call."""
        arrived, self._arrived = dict(self._arrived), Counter()
        return arrived
