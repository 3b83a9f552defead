"""Who a key speaks for, without asking the store each time (T-18).

Three bounds stand before the store: resolved keys are kept 60 s, keys nobody has 10 s, and what is in neither takes a
token from its address's bucket first. A found key gives its token back, so that a hundred honest keys behind one
proxy are not mistaken for a flood; junk never does. Calls for one key at the same moment share one lookup.

When the tenancy epoch moves everything is dropped: a revoked key must be dead within a second. An answer that was
looked up before the move is used once and not kept. While the store is away a principal already known outlives its
60 s, but not its own expiry (F-15).
"""

from collections import OrderedDict
from collections.abc import Callable
from typing import Generic, TypeVar

import anyio
import msgspec

from llmgw.ports import ControlPort, Found, Principal, StoreUnavailable

KEPT = 10_000
KEPT_S = 60.0
UNKNOWN_KEPT_S = 10.0
ADDRESSES = 50_000
BURST = 20.0
PER_S = 5.0
ASK_AGAIN_S = 2.0

V = TypeVar("V")


class Bounded(Generic[V]):
    """A dict that forgets what was used longest ago."""

    def __init__(self, size: int) -> None:
        self._size = size
        self._kept: OrderedDict[str, V] = OrderedDict()

    def get(self, key: str) -> V | None:
        """Return a value and count it as used."""
        value = self._kept.get(key)
        if value is not None:
            self._kept.move_to_end(key)
        return value

    def put(self, key: str, value: V) -> None:
        """Keep a value."""
        self._kept[key] = value
        self._kept.move_to_end(key)
        if len(self._kept) > self._size:
            self._kept.popitem(last=False)

    def drop(self, key: str) -> None:
        """Forget one value, if it is there."""
        self._kept.pop(key, None)

    def clear(self) -> None:
        """Forget everything."""
        self._kept.clear()

    def __len__(self) -> int:
        return len(self._kept)


class _Bucket(msgspec.Struct):
    tokens: float
    at: float


class AddressBuckets:
    """A token bucket per client address, 20 at once and 5 a second, for 50,000 addresses."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._buckets: Bounded[_Bucket] = Bounded(ADDRESSES)

    def take(self, address: str) -> bool:
        """Take one token; False when the address has none left."""
        bucket = self._filled(address)
        if bucket.tokens < 1.0:
            return False
        bucket.tokens -= 1.0
        return True

    def give_back(self, address: str) -> None:
        """Return a token taken for a key that turned out to be somebody's."""
        bucket = self._filled(address)
        bucket.tokens = min(BURST, bucket.tokens + 1.0)

    def _filled(self, address: str) -> _Bucket:
        now = self._clock()
        bucket = self._buckets.get(address)
        if bucket is None:
            bucket = _Bucket(BURST, now)
            self._buckets.put(address, bucket)
        bucket.tokens = min(BURST, bucket.tokens + (now - bucket.at) * PER_S)
        bucket.at = now
        return bucket

    def __len__(self) -> int:
        return len(self._buckets)


class Flood(Exception):
    """The address asked for too many unknown keys; answered 429 with `Retry-After: 1`."""


class _Known(msgspec.Struct, frozen=True):
    principal: Principal
    fresh_until: float


class _Asking:
    """One lookup under way and what came of it; `found` and `away` both None when its caller was cancelled."""

    def __init__(self) -> None:
        self.ended = anyio.Event()
        self.found: Found | None = None
        self.away: StoreUnavailable | None = None


class Principals:
    """Resolves key hashes through the control port, within the bounds above.

    `clock` is monotonic seconds, `wall` Unix seconds (only expiry dates need it).
    """

    def __init__(self, port: ControlPort, clock: Callable[[], float], wall: Callable[[], float]) -> None:
        self._port = port
        self._clock = clock
        self._wall = wall
        self._known: Bounded[_Known] = Bounded(KEPT)
        self._unknown: Bounded[float] = Bounded(KEPT)
        self._asking: dict[str, _Asking] = {}
        self._epoch = 0
        self._is_store_away = False
        self._ask_again_at = 0.0
        self.buckets = AddressBuckets(clock)

    def take_notice(self, epoch: int, is_store_away: bool) -> None:
        """Take what the newest snapshot says; a moved epoch drops everything resolved before it."""
        self._is_store_away = is_store_away
        if epoch != self._epoch:
            self._epoch = epoch
            self._known.clear()
            self._unknown.clear()

    async def resolve(self, key_hash: str, address: str) -> Principal | None:
        """Return the principal of a usable key, None for any other. Raises Flood, StoreUnavailable."""
        while True:
            now = self._clock()
            known = self._known.get(key_hash)
            if known is not None and (now < known.fresh_until or self._is_not_worth_asking(now)):
                return self._unexpired(known.principal)
            if (self._unknown.get(key_hash) or 0.0) > now:
                return None
            asking = self._asking.get(key_hash)
            if asking is None:
                asking = await self._ask(key_hash, address, is_known=known is not None)
            else:
                await asking.ended.wait()
            if asking.found is not None:
                return asking.found.principal and self._unexpired(asking.found.principal)
            if asking.away is not None:
                return self._remembered(key_hash, asking.away)

    def _is_not_worth_asking(self, now: float) -> bool:
        """Return whether the store is away and was asked anyway less than 2 s ago, to see whether it is back."""
        if not self._is_store_away:
            return False
        if now < self._ask_again_at:
            return True
        self._ask_again_at = now + ASK_AGAIN_S
        return False

    async def _ask(self, key_hash: str, address: str, is_known: bool) -> _Asking:
        if not is_known and not self.buckets.take(address):
            raise Flood
        asking = self._asking[key_hash] = _Asking()
        try:
            asking.found = await self._port.lookup(key_hash)
        except StoreUnavailable as away:
            asking.away = away
            return asking
        finally:
            del self._asking[key_hash]
            asking.ended.set()
        if not is_known and asking.found.principal is not None:
            self.buckets.give_back(address)
        self._keep(key_hash, asking.found)
        return asking

    def _keep(self, key_hash: str, found: Found) -> None:
        self._known.drop(key_hash)
        if found.tenancy_epoch < self._epoch:
            return
        if found.principal is None:
            self._unknown.put(key_hash, self._clock() + UNKNOWN_KEPT_S)
        else:
            self._known.put(key_hash, _Known(found.principal, self._clock() + KEPT_S))

    def _remembered(self, key_hash: str, away: StoreUnavailable) -> Principal | None:
        known = self._known.get(key_hash)
        if known is None:
            raise away
        return self._unexpired(known.principal)

    def _unexpired(self, principal: Principal) -> Principal | None:
        if principal.expires_unix is not None and principal.expires_unix <= self._wall():
            return None
        return principal

    def __len__(self) -> int:
        return len(self._known) + len(self._unknown)
