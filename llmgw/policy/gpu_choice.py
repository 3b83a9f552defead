"""Which GPUs of a node a shard gets (L-44): close ones, from the smallest group that fits, lowest numbers first.

Not here yet: nearness to a fabric's adapters, which comes with multi-node placement.
"""

from collections.abc import Iterable, Iterator, Sequence

from llmgw.policy.snapshot import GPUSeen


def choose_gpus(gpus: Sequence[GPUSeen], free: Iterable[int], count: int) -> tuple[int, ...]:
    """Return `count` of the `free` indices, or () when there are fewer.

    `gpus` is every GPU of the class on the node, busy ones too: a group's size is the hardware's, so that a lone card
    is taken before one of a pair, and pairs stay whole for those that need them.
    """
    usable = set(free)
    if count < 1 or len(usable) < count:
        return ()
    by_index = {g.index: g for g in gpus}
    components = nvlink_components(gpus)
    size_of = {index: len(group) for group in components for index in group}
    group_of = {index: place for place, group in enumerate(components) for index in group}

    def rank(chosen: tuple[int, ...]) -> tuple[object, ...]:
        groups = {group_of[i] for i in chosen}
        numas = {by_index[i].numa_node for i in chosen}
        return (len(groups) > 1, len(numas) > 1, len(groups), max(size_of[i] for i in chosen), chosen)

    return min(_candidates(gpus, components, usable, count), key=rank)


def nvlink_components(gpus: Sequence[GPUSeen]) -> list[frozenset[int]]:
    """Return the groups of GPUs that NVLink joins, directly or through others; a card without links is its own."""
    peers = {g.index: set(g.nvlink_peers) for g in gpus}
    for index, linked in list(peers.items()):
        for other in linked & peers.keys():
            peers[other].add(index)
    groups: list[frozenset[int]] = []
    left = set(peers)
    while left:
        group: set[int] = set()
        edge = {min(left)}
        while edge:
            group |= edge
            edge = {p for i in edge for p in peers[i] if p in peers} - group
        groups.append(frozenset(group))
        left -= group
    return groups


def _candidates(
    gpus: Sequence[GPUSeen], components: Iterable[frozenset[int]], usable: set[int], count: int
) -> Iterator[tuple[int, ...]]:
    numas: dict[int, set[int]] = {}
    for gpu in gpus:
        numas.setdefault(gpu.numa_node, set()).add(gpu.index)
    pools: list[set[int]] = [usable]
    for component in components:
        pools.append(usable & component)
        pools.extend(usable & component & near for near in numas.values())
    pools.extend(usable & near for near in numas.values())
    for pool in pools:
        if len(pool) >= count:
            yield tuple(sorted(pool)[:count])
