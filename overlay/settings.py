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


class ChordSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    members: tuple[str, ...] = ()  # addresses of the brokers that the ring begins with
    successors: int = 4  # length of the list of successors
    base: int = 2  # fingers at j * base**i: 2 as in Chord, 4 or 16 for shorter ways
    direct: bool = False  # brokers send straight to the roots they publish to
    copies: int = 2  # successors that know a root's members beside it
    stabilise_s: float = 1.0
    lost_after_s: float = 5.0  # a silent broker of the ring is given up after this: there are other ways
    refresh_s: float = 30.0  # members repeat what they want
    retry_s: float = 1.0  # and sooner what was not answered
    probe_s: float = 30.0  # between two looks for another ring
    idle_s: float = 30.0  # a link that nobody needs is closed after this


class TopicSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    by: tuple[str, ...] = ("topic",)  # (c) attributes, or attribute/width for cells of a number
    most: int = 256  # topics of one filter


class ReconfigurationSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    rule: str = "paper"  # or "off": the broker with the role coordinator reconfigures only when it is told to
    report_s: float = 30.0  # between two questions to all brokers
    every_s: float = 3600.0  # between two reconfigurability tests, T_free
    alpha: float = 0.3  # weight of the last period in the estimated rates
    beta: float = 0.1  # share of the dearest reconfiguration's cost that notification must exceed
    delay_weight: float = 1.0  # w_d
    patience: int = 10  # costliest brokers tried before the search ends; the paper's is 1
    cost: str = "text"  # or "printed": (7)
    calm_s: float = 60.0  # nobody came or went for so long
    step_s: float = 30.0  # a step that takes longer ends the attempt, before the decision


class PlacementSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    rule: str = "off"  # or "paper": clients of a ring are moved to brokers with like interests
    cluster: str = ""  # brokers of one name exchange clients; "": groups by the order of ids
    cluster_size: int = 10  # of such a group at most
    load_weight: float = 1.0  # w_l: a broker's share of the cluster's load against the share of topics it has
    margin: float = 0.0  # how much better than its own another broker must be
    rest_s: float = 60.0  # between two moves of a client
    t_update_s: float = 30.0  # between two words about topics and load, if they have changed


class HealingSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    after_s: float = 0.0  # without its parent a broker looks for another after this; 0: when it is lost
    heal_s: float = 10.0  # a broker that others have gone round is given up after this, if it is not back


class LinkSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    window: int = 65_536  # publications a peer may have unsettled with us
    window_bytes: int = 256 * 1024 * 1024  # under way to a peer and not settled
    lost_after_s: float = 30.0  # suspended links are given up after this
    ping_s: float = 2.0  # silence before a ping; three of them without a word end the link
    greet_s: float = 2.0  # an unanswered HELLO is given up after this
    redial_s: float = 0.5  # between two attempts to dial
    batch_publications: int = 4_096  # in one frame at most
    batch_bytes: int = 4 * 1024 * 1024


class ClientSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    window: int = 65_536  # unsettled publications a client may have with us
    queue: int = 100_000  # deliveries that wait for a slow subscriber's credit
    queue_bytes: int = 256 * 1024 * 1024  # that wait for it or are under way, the transport's copies too
    when_split: str = "serve"  # or "refuse": while brokers are missing nobody is attached
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


class OneHopSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    dimensions: tuple[str, ...] = ()  # (c) searchable attributes, in order
    seeds: tuple[str, ...] = ()  # addresses of members; none: this is the first
    policy: str = "price"  # or "adaptive", "response", "amount", "random"
    join: str = "each"  # or "one": a newcomer takes from the heaviest of each dimension, or from one for all
    placement: str = "partition"  # (c) or "replicate": every set is everything; "first": one dimension only
    spares: bool = False  # (c) where all copies lie on one matcher, its neighbours get one too
    delivery: str = "ask"  # (c) or "matcher": it forwards to the homes itself, in no order
    window: int = 4_096  # publications that one matcher is asked about at a time
    report_s: float = 1.0  # between two reports of a matcher's load
    gossip_s: float = 1.0  # between two rounds
    gossip_fanout: str = "one"  # or "log": with how many members
    probe_s: float = 0.5  # between two looks at who is there
    dead_after_s: float = 3.0  # of silence: others are asked after it, and it is dead if nobody reaches it
    hedge_s: float = 0.25  # a question that is not answered by then is asked elsewhere too


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


class JournalSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    segment_bytes: int = 64 * 1024**2  # of the log in one file
    custody_s: float = 7 * 86_400.0  # durable publications that are not settled by then are given up
    custody_bytes: int = 8 * 1024**3  # or when there are more than this
    copies: int = 1  # of what is in custody; 2: one more at a neighbour, before it counts as persisted
    copies_strict: bool = True  # without a neighbour that keeps one nothing counts as persisted


class StreamSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    age_s: float = 7 * 86_400.0  # what is older goes, acknowledged or not
    bytes: int = 1024**3  # of one stream; the oldest go


class ChannelSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    cache_bytes: int = 64 * 1024 * 1024  # of results, for subscribers that come later than others


class BalancingSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What a coordinator goes by; loads in bytes a second."""

    mode: str = "off"  # plan: shows, moves nobody
    assign: str = "round_robin"
    scheme: str = "LDM"
    alpha: float = 0.15  # cov above which subscribers move, if the mean load is above beta
    beta: float = 1e6
    gamma: float = 0.5  # cov above which everybody is placed anew, if the mean load is above theta
    theta: float = 1e6
    keep: float = 0.02  # who is somewhere stays while the load is so much above the mean; below 0: as printed
    moves: int = 0  # in a round; 0: 20 for ten brokers
    in_flight: int = 50  # subscribers that move at a time
    cooldown_s: float = 60.0  # between two moves of one subscriber
    check_s: float = 10.0  # between two rounds
    report_s: float = 5.0  # between two reports of the brokers
    window_s: float = 60.0  # of the moving averages


class CoreSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    overlay: OverlaySettings = OverlaySettings()
    tree: TreeSettings = TreeSettings()
    chord: ChordSettings = ChordSettings()
    topics: TopicSettings = TopicSettings()
    reconfiguration: ReconfigurationSettings = ReconfigurationSettings()
    placement: PlacementSettings = PlacementSettings()
    links: LinkSettings = LinkSettings()
    healing: HealingSettings = HealingSettings()
    clients: ClientSettings = ClientSettings()
    softlinks: SoftLinkSettings = SoftLinkSettings()
    relocation: RelocationSettings = RelocationSettings()
    onehop: OneHopSettings = OneHopSettings()
    delivery_log: DeliveryLogSettings = DeliveryLogSettings()
    feeding: FeedingSettings = FeedingSettings()
    journal: JournalSettings = JournalSettings()
    streams: StreamSettings = StreamSettings()
    channels: ChannelSettings = ChannelSettings()
    balancing: BalancingSettings = BalancingSettings()

    def may_follow(self, before: CoreSettings) -> bool:
        """Whether a running broker may change to this: what others were told of it must stay."""
        return self.cluster_wide() == before.cluster_wide() and self.links.window == before.links.window

    def cluster_wide(self) -> dict[str, str]:
        """The values that two brokers compare when they meet."""
        if self.overlay.kind == "chord":
            return {
                "overlay.kind": "chord",
                "overlay.ordered": str(self.overlay.ordered).lower(),
                "topics.by": ", ".join(self.topics.by),
            }
        if self.overlay.kind == "onehop":
            return {
                "overlay.kind": self.overlay.kind,
                "overlay.ordered": str(self.overlay.ordered).lower(),
                "onehop.dimensions": ",".join(self.onehop.dimensions)[:255],
                "onehop.placement": self.onehop.placement,
                "onehop.spares": str(self.onehop.spares).lower(),
                "onehop.delivery": self.onehop.delivery,
            }
        return {
            "overlay.kind": self.overlay.kind,
            "overlay.ordered": str(self.overlay.ordered).lower(),
            "overlay.delta": str(self.overlay.delta),
            "tree.routing": self.tree.routing,
            "tree.covering": str(self.tree.covering).lower(),
        }
