"""How an index looks inside, in numbers for people."""

from __future__ import annotations

import msgspec

from matching.keys import Keys


class Statistics(msgspec.Struct, frozen=True):
    subscriptions: int
    rows: int  # conjunctions as filed
    keys: int  # groups with rows
    lists: int  # of them kept as a list
    stores: int  # of them kept as columns or bit vectors
    store_bytes: int  # arrays of the stores
    rows_max: int  # rows under the fullest key


def statistics(directories: tuple[Keys, ...], subscriptions: int) -> Statistics:
    sizes, stores, store_bytes = [], 0, 0
    for group in (group for keys in directories for group in keys.groups()):
        sizes.append(len(group))
        if group.store is not None:
            stores += 1
            store_bytes += group.store.bytes()
    return Statistics(
        subscriptions=subscriptions,
        rows=sum(sizes),
        keys=len(sizes),
        lists=len(sizes) - stores,
        stores=stores,
        store_bytes=store_bytes,
        rows_max=max(sizes, default=0),
    )
