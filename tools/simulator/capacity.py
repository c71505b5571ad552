"""What a host can do in a second. Without limits a simulation has no utilisation, no saturation and no
back-pressure; all zero means: as fast as it comes.
"""

from __future__ import annotations

import msgspec


class Capacity(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    frame_s: float = 0.0  # to take one frame
    publication_s: float = 0.0  # for each publication in it
    match_s: float = 0.0  # for each copy that leaves because of it
    uplink_publications_s: float = 0.0  # what the host can send in a second; 0: no limit
    queue_publications: int = 0  # on their way to one neighbour before the link is blocked; 0: no limit
    drain_frames: int = 16  # taken between two flushes

    @property
    def limited(self) -> bool:
        return bool(self.frame_s or self.publication_s or self.match_s or self.uplink_publications_s)

    def service_s(self, frames: int, publications: int, copies: int) -> float:
        return frames * self.frame_s + publications * self.publication_s + copies * self.match_s


UNLIMITED = Capacity()
