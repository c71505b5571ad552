"""Whose name it is: a publisher's name belongs to the key that first advertised under it.

Kept over restarts, up to a bound and an age, by the broker where it was used. A key that may not connect any
more owns nothing: who replaces a key keeps its names. Without keys nobody owns anything.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import msgspec

MOST = 10_000
KEEP_S = 30 * 86_400.0
FRESH_S = 3_600.0  # a use is noted once in this time


class Owner(msgspec.Struct, array_like=True, gc=False):
    name: int  # its id
    key: str
    used_at: float  # seconds since 1970


class Owners:
    def __init__(self) -> None:
        self._by_name: dict[int, Owner] = {}  # the longest unused first

    def __len__(self) -> int:
        return len(self._by_name)

    def restore(self, known: Iterable[Owner]) -> None:
        self._by_name = {owner.name: owner for owner in sorted(known, key=lambda owner: owner.used_at)}

    def of(self, name: int) -> str:
        """The key that has this name; "": nobody."""
        owner = self._by_name.get(name)
        return "" if owner is None else owner.key

    def claim(self, name: int, key: str, now: float) -> Iterator[tuple[int, Owner | None]]:
        """What has changed by that, None for one who owns nothing any more."""
        owner = self._by_name.get(name)
        if owner is not None and owner.key == key and now - owner.used_at < FRESH_S:
            return
        self._by_name.pop(name, None)
        self._by_name[name] = Owner(name, key, now)
        yield name, self._by_name[name]
        for oldest in list(self._by_name.values()):
            if oldest.used_at > now - KEEP_S and len(self._by_name) <= MOST:
                break
            del self._by_name[oldest.name]
            yield oldest.name, None
