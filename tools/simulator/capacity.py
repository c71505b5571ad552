"""What a host can do in a second. Without limits a simulation has no utilisation, no saturation and no
back-pressure; all zero means: as fast as it comes.
"""

from __future__ import annotations

import msgspec

from overlay.core import Core
from overlay.onehop.effort import Effort


class Capacity(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    frame_s: float = 0.0  # to take one frame
    publication_s: float = 0.0  # for each publication in it
    match_s: float = 0.0  # for each copy that leaves because of it
    uplink_publications_s: float = 0.0  # what the host can send in a second; 0: no limit
    queue_publications: int = 0  # on their way to one neighbour before the link is blocked; 0: no limit
    drain_frames: int = 16  # taken between two flushes
    effort: float = 0.0  # times what the core reckons that its work has cost; what it says leaves after that

    def effort_s(self, core: Core, before_s: float) -> float:
        return self.effort * (core.effort_s - before_s)

    @property
    def limited(self) -> bool:
        return bool(self.frame_s or self.publication_s or self.match_s or self.uplink_publications_s)

    def service_s(self, frames: int, publications: int, copies: int) -> float:
        return frames * self.frame_s + publications * self.publication_s + copies * self.match_s


class Reckoned(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What a matcher's work costs: of a publication, for every subscription of the set, for every match, of a
    copy that is placed. By default what this broker's index takes; a scan of the set takes much more for a
    subscription and nothing for a match."""

    fixed_s: float = Effort().fixed_s
    subscription_s: float = Effort().subscription_s
    match_s: float = Effort().match_s
    placed_s: float = Effort().placed_s

    def effort(self) -> Effort:
        return Effort(self.fixed_s, self.subscription_s, self.match_s, self.placed_s)


UNLIMITED = Capacity()
