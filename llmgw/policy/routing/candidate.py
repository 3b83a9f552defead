"""What routing knows of one replica at the moment of choice: a value, so that every choice can be replayed in a test.

Figures an engine did not report are None and mean *unknown*, never 0 (engine chapter, section 11).
"""

import msgspec


class Candidate(msgspec.Struct, frozen=True):
    """One replica as a gateway sees it now.

    `running`, `waiting` and `kv_use` (0 to 1) are the last scrape's. `inflight` counts this gateway's own requests at
    the replica now, `inflight_at_scrape` those it had when the scrape was taken, so that what was sent since is added
    and what the engine already counts is not counted twice.
    """

    id: str
    model: str
    engine: str = ""
    is_draining: bool = False
    is_stale: bool = False
    running: float | None = None
    waiting: float | None = None
    kv_use: float | None = None
    inflight: int = 0
    inflight_at_scrape: int = 0
