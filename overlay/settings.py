"""What a broker is told at start: one frozen class per behaviour, each field with its unit.

Fields marked (c) must agree in the whole overlay: HELLO carries them and refuses a difference.
"""

from __future__ import annotations

import msgspec


class OverlaySettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    kind: str = "tree"  # (c)
    ordered: bool = True  # (c) the path to an anchor never depends on the publication
    delta: int = 1  # (c) brokers of its path that a subscription carries


class TreeSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    neighbours: tuple[str, ...] = ()  # addresses tried in order; one becomes the parent
    routing: str = "advertisements"  # (c) or "flooding": subscriptions go everywhere
    covering: bool = True  # (c)


class LinkSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    window: int = 65_536  # publications a peer may have unsettled with us
    lost_after_s: float = 30.0  # suspended links are given up after this
    ping_s: float = 2.0  # silence before a ping; three of them without a word end the link
    greet_s: float = 2.0  # an unanswered HELLO is given up after this
    redial_s: float = 0.5  # between two attempts to dial
    batch_publications: int = 4_096  # in one frame at most
    batch_bytes: int = 4 * 1024 * 1024


class ClientSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    window: int = 65_536  # unsettled publications a client may have with us
    queue: int = 100_000  # deliveries that wait for a slow subscriber's credit
    stall_s: float = 1.0  # a silent subscriber holds settling no longer than this
    subscriptions: int = 200_000  # of one client
    advertisements: int = 10_000


class SoftLinkSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    strategy: str = "S0"  # ordered: S0, SD, SH; otherwise S0, S1, S2, SH
    fanout: int = 5  # primary and soft links at most
    maxlinks: int = 20  # with the candidates
    interval_s: float = 20.0  # between two choices of links
    uplink_msgs_s: float = 0.0  # publications a second that the uplink carries; 0: its use is measured
    load_factor: str = "boost"  # or "paper"


class RelocationSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    algorithm: str = "off"  # or "pop", "grape"
    priority: str = "load"  # what GRAPE minimises first: or "delay"
    weight: float = 100.0  # how much of it, in per cent
    threshold: int = 100  # traced publications before a decision
    window_s: float = 60.0  # POP traces `traces_max` in it, GRAPE begins one session
    traces_max: int = 50
    delay_model: str = "latency"  # or "paper": without the links' round trips
    gain: float = 0.05  # share of the present cost that a move must save
    moves_per_minute: float = 2.0  # of one publisher


class DeliveryLogSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    mode: str = "off"  # or "sampled", "all"
    sample: int = 100  # one in so many of each publisher's publications


class FeedingSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    staged_bytes: int = 8 * 1024**3  # on disk, of all queries
    staged_s: float = 86_400.0  # rows that nobody commits go after this
    stages: int = 100_000
    queries: int = 1_000  # whose last batch is remembered
    publishers: int = 10_000  # whose numbers are kept
    keep_s: float = 30 * 86_400.0  # and for how long after their last use


class CoreSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    overlay: OverlaySettings = OverlaySettings()
    tree: TreeSettings = TreeSettings()
    links: LinkSettings = LinkSettings()
    clients: ClientSettings = ClientSettings()
    softlinks: SoftLinkSettings = SoftLinkSettings()
    relocation: RelocationSettings = RelocationSettings()
    delivery_log: DeliveryLogSettings = DeliveryLogSettings()
    feeding: FeedingSettings = FeedingSettings()

    def may_follow(self, before: CoreSettings) -> bool:
        """Whether a running broker may change to this: what others were told of it must stay."""
        return self.cluster_wide() == before.cluster_wide() and self.links.window == before.links.window

    def cluster_wide(self) -> dict[str, str]:
        """The values that two brokers compare when they meet."""
        return {
            "overlay.kind": self.overlay.kind,
            "overlay.ordered": str(self.overlay.ordered).lower(),
            "overlay.delta": str(self.overlay.delta),
            "tree.routing": self.tree.routing,
            "tree.covering": str(self.tree.covering).lower(),
        }
