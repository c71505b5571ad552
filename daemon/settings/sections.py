"""One class per section of the configuration; a field is a key.

A key says what it means, whether a running broker takes a new value (*reload*) or not (*restart*), and
whether the whole overlay must agree on it (*cluster*: compared when two brokers meet). Defaults of what
the core is told stand in `overlay.settings` alone.
"""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec

from daemon.settings.balancing import Balancing
from daemon.settings.ring import Chord, Placement, Reconfiguration, Topics
from daemon.settings.section import Section, key
from overlay.settings import (
    ChannelSettings,
    ClientSettings,
    CoreSettings,
    DeliveryLogSettings,
    FeedingSettings,
    HealingSettings,
    JournalSettings,
    LinkSettings,
    OneHopSettings,
    OverlaySettings,
    RelocationSettings,
    SoftLinkSettings,
    StreamSettings,
    TreeSettings,
)

_OVERLAY, _TREE, _LINKS, _CLIENTS = OverlaySettings(), TreeSettings(), LinkSettings(), ClientSettings()
_SOFT, _LOG, _MOVE = SoftLinkSettings(), DeliveryLogSettings(), RelocationSettings()
_FEED, _ONEHOP, _CHANNELS = FeedingSettings(), OneHopSettings(), ChannelSettings()
_JOURNAL = JournalSettings()
_STREAMS, _HEALING = StreamSettings(), HealingSettings()


class Broker(Section, frozen=True):
    """Who this broker is and where it is found."""

    name: Annotated[
        str, key("name of this broker, unique in the overlay; empty: the host's name", max_length=255)
    ] = ""
    roles: Annotated[
        tuple[Literal["broker", "coordinator", "dispatcher", "matcher", "backend"], ...],
        key("what this daemon does in the overlay", min_length=1),
    ] = ("broker",)
    listen: Annotated[
        tuple[str, ...], key("addresses for clients and other brokers: tcp://host:port, ipc://path")
    ] = ("tcp://127.0.0.1:7470",)
    addresses: Annotated[
        tuple[str, ...],
        key("addresses that others are told; none: those of listen, with the host's name for a wildcard"),
    ] = ()
    state_dir: Annotated[
        str,
        key("directory of what must survive a restart; empty: $STATE_DIRECTORY, else one per name under "
            "$XDG_STATE_HOME/grapevine"),
    ] = ""  # fmt: skip
    control: Annotated[
        str, key("control socket for pubctl, ipc:// only, mode 0600; empty: `control` in state_dir")
    ] = ""
    coordinator: Annotated[
        str, key("address of the coordinator, asked there first; empty: the overlay is asked for it")
    ] = ""
    backend: Annotated[
        str, key("address of the back end, for subscribers of channels; empty: none is known")
    ] = ""

    location: Annotated[
        tuple[float, ...],
        key(
            "latitude and longitude, for subscribers who want the nearest broker; empty: not known",
            max_length=2,
        ),
    ] = ()


class Overlay(Section, frozen=True):
    """What kind of overlay the brokers form."""

    kind: Annotated[Literal["tree", "chord", "onehop"], key("how brokers are connected", cluster=True)] = (
        "tree"
    )
    ordered: Annotated[
        bool, key("each publisher's publications arrive in order also over soft links", cluster=True)
    ] = _OVERLAY.ordered
    delta: Annotated[
        int,
        key("brokers of its path that a subscription carries; soft links want 4", cluster=True, ge=1, le=64),
    ] = _OVERLAY.delta


class Tree(Section, frozen=True):
    """Joining and routing when overlay.kind is "tree"."""

    neighbours: Annotated[
        tuple[str, ...],
        key("addresses tried in order until one becomes the parent; none: this is the root", reload=True),
    ] = _TREE.neighbours
    routing: Annotated[
        Literal["advertisements", "flooding"],
        key("subscriptions follow advertisements, or go to every broker", cluster=True),
    ] = "advertisements"
    covering: Annotated[bool, key("do not forward a subscription that another one covers", cluster=True)] = (
        _TREE.covering
    )


class Onehop(Section, frozen=True):
    """The cluster when overlay.kind is "onehop": dispatchers take clients, matchers hold subscriptions."""

    dimensions: Annotated[
        tuple[str, ...],
        key("attributes by which subscriptions are spread over the matchers, in order", cluster=True),
    ] = _ONEHOP.dimensions
    seeds: Annotated[
        tuple[str, ...], key("addresses of some members; none: this is the first matcher of the cluster")
    ] = _ONEHOP.seeds
    policy: Annotated[
        Literal["price", "adaptive", "response", "amount", "random"], key("which matcher is asked")
    ] = "price"
    join: Annotated[
        Literal["each", "one"], key("a new matcher takes from the busiest of each dimension, or from one")
    ] = "each"
    placement: Annotated[
        Literal["partition", "replicate", "first"],
        key("matchers hold parts; or everything; or parts of the first dimension only", cluster=True),
    ] = "partition"
    spares: Annotated[
        bool,
        key(
            "where all copies of a subscription lie on one matcher, its neighbours get one too", cluster=True
        ),
    ] = _ONEHOP.spares
    delivery: Annotated[
        Literal["ask", "matcher"],
        key(
            "a matcher answers and the publisher's dispatcher forwards; or the matcher forwards itself, in no"
            " order",
            cluster=True,
        ),
    ] = "ask"
    window: Annotated[int, key("publications that one matcher is asked about at a time", ge=1)] = (
        _ONEHOP.window
    )
    report_s: Annotated[float, key("seconds between two reports of a matcher's load", gt=0)] = (
        _ONEHOP.report_s
    )
    gossip_s: Annotated[float, key("seconds between two rounds of gossip", gt=0)] = _ONEHOP.gossip_s
    gossip_fanout: Annotated[
        Literal["one", "log"], key("members that one gossips with in a round: one, or log2 of their number")
    ] = "one"
    probe_s: Annotated[float, key("seconds between two looks at who is there", gt=0)] = _ONEHOP.probe_s
    dead_after_s: Annotated[
        float,
        key(
            "seconds of silence after which the others are asked after a member; without a link at once", gt=0
        ),
    ] = _ONEHOP.dead_after_s
    hedge_s: Annotated[
        float, key("seconds after which an unanswered question is asked elsewhere too", gt=0)
    ] = _ONEHOP.hedge_s


class Softlinks(Section, frozen=True):
    """Links past brokers that would only forward."""

    strategy: Annotated[
        Literal["S0", "SD", "SH", "S1", "S2"],
        key("S0 uses none; SD and SH keep the order, S1 and S2 need overlay.ordered = false", reload=True),
    ] = "S0"
    fanout: Annotated[int, key("primary and soft links of one broker at most", ge=0, reload=True)] = (
        _SOFT.fanout
    )
    maxlinks: Annotated[int, key("links of one broker at most, candidates included", ge=1, reload=True)] = (
        _SOFT.maxlinks
    )
    interval_s: Annotated[float, key("seconds between two choices of links", gt=0, reload=True)] = (
        _SOFT.interval_s
    )
    uplink_msgs_s: Annotated[
        float,
        key(
            "publications a second that this broker's uplink carries; 0: its use is measured",
            ge=0,
            reload=True,
        ),
    ] = _SOFT.uplink_msgs_s
    load_factor: Annotated[
        Literal["boost", "paper"], key("how load enters the choice of links", reload=True)
    ] = "boost"


class Relocation(Section, frozen=True):
    """Moving publishers towards their audience."""

    algorithm: Annotated[
        Literal["off", "pop", "grape"], key("who decides where a publisher goes", reload=True)
    ] = "off"
    priority: Annotated[Literal["load", "delay"], key("what GRAPE minimises first", reload=True)] = "load"
    weight: Annotated[
        float, key("how far GRAPE follows its priority, in per cent", ge=0, le=100, reload=True)
    ] = _MOVE.weight
    threshold: Annotated[
        int, key("traced publications before a decision about their publisher", ge=1, le=65535, reload=True)
    ] = _MOVE.threshold
    window_s: Annotated[
        float, key("seconds in which POP traces traces_max, and GRAPE one session", gt=0, reload=True)
    ] = _MOVE.window_s
    traces_max: Annotated[
        int, key("publications of one publisher that POP traces in window_s", ge=1, reload=True)
    ] = _MOVE.traces_max
    delay_model: Annotated[
        Literal["latency", "paper"], key("whether GRAPE's delays count the links' round trips", reload=True)
    ] = "latency"
    gain: Annotated[
        float, key("share of the present cost that a move must save", ge=0, lt=1, reload=True)
    ] = _MOVE.gain
    moves_per_minute: Annotated[
        float, key("moves of one publisher in a minute at most", gt=0, reload=True)
    ] = _MOVE.moves_per_minute


class Links(Section, frozen=True):
    """Sessions with other brokers."""

    window: Annotated[int, key("publications that a peer may have unsettled with us", ge=1)] = _LINKS.window
    window_bytes: Annotated[
        int, key("bytes that may be under way to a peer and not settled", ge=16 * 1024 * 1024)
    ] = _LINKS.window_bytes
    lost_after_s: Annotated[
        float, key("seconds after which a link that is down is given up", gt=0, reload=True)
    ] = _LINKS.lost_after_s
    ping_s: Annotated[
        float, key("seconds of silence before a ping; three without a word end the link", gt=0, reload=True)
    ] = _LINKS.ping_s
    greet_s: Annotated[float, key("seconds that a greeting waits for its answer", gt=0, reload=True)] = (
        _LINKS.greet_s
    )
    redial_s: Annotated[
        float, key("seconds between two attempts to reach a neighbour", gt=0, reload=True)
    ] = _LINKS.redial_s
    batch_publications: Annotated[
        int, key("publications in one frame at most", ge=1, le=65_536, reload=True)
    ] = _LINKS.batch_publications
    batch_bytes: Annotated[
        int, key("bytes in one frame at most; longer batches are split", ge=4096, reload=True)
    ] = _LINKS.batch_bytes


class Healing(Section, frozen=True):
    """A tree goes round a broker that is gone."""

    after_s: Annotated[
        float,
        key(
            "seconds without its parent before a broker looks for another; 0: links.lost_after_s",
            ge=0,
            reload=True,
        ),
    ] = _HEALING.after_s
    heal_s: Annotated[
        float,
        key("seconds that a broker that others have gone round is waited for", gt=0, reload=True),
    ] = _HEALING.heal_s


class Clients(Section, frozen=True):
    """Sessions with clients; every limit is per client."""

    window: Annotated[int, key("publications that a client may have unsettled", ge=1, reload=True)] = (
        _CLIENTS.window
    )
    queue: Annotated[
        int, key("deliveries that wait for a slow subscriber before its policy applies", ge=1, reload=True)
    ] = _CLIENTS.queue
    queue_bytes: Annotated[
        int,
        key(
            "bytes that wait for a slow subscriber or are under way to it before its policy applies",
            ge=16 * 1024 * 1024,
            reload=True,
        ),
    ] = _CLIENTS.queue_bytes
    stall_s: Annotated[
        float, key("seconds that a silent subscriber may hold back `settled`", gt=0, reload=True)
    ] = _CLIENTS.stall_s
    when_split: Annotated[
        Literal["serve", "refuse"],
        key(
            "while brokers of the overlay cannot be reached: clients are served and told, or sent away",
            reload=True,
        ),
    ] = "serve"
    subscriptions: Annotated[int, key("subscriptions of one client", ge=1, reload=True)] = (
        _CLIENTS.subscriptions
    )
    advertisements: Annotated[int, key("advertisements of one client", ge=1, reload=True)] = (
        _CLIENTS.advertisements
    )


class Security(Section, frozen=True):
    """Who may connect."""

    curve: Annotated[
        bool, key("encrypt and authenticate every tcp socket; false only on wires that you trust")
    ] = True
    keys: Annotated[
        str,
        key("directory of keys; every key in it is authorised, and this broker's is written to it at first "
            "start; empty: the user's own"),
    ] = ""  # fmt: skip
    authorised: Annotated[
        str,
        key("file of further public keys, one a line, read again on reload; empty: `authorised` in state_dir",
            reload=True),
    ] = ""  # fmt: skip


class Transport(Section, frozen=True):
    """ZeroMQ sockets and the loop around them."""

    frame_bytes: Annotated[
        int, key("a longer frame closes its connection", ge=65_536, le=16 * 1024 * 1024)
    ] = 16 * 1024 * 1024
    queue_frames: Annotated[
        int, key("frames that wait in a socket for one connection, each way", ge=4, le=100_000)
    ] = 64
    handshake_s: Annotated[float, key("seconds that a connection has to greet", gt=0)] = 5.0
    heartbeat_s: Annotated[float, key("seconds between ZeroMQ's own heartbeats; 0: none", ge=0)] = 2.0
    connections: Annotated[
        int, key("links of brokers, clients and pubctl together, at most", ge=2, reload=True)
    ] = 10_000
    drain_frames: Annotated[
        int, key("frames read from one socket before anything is sent", ge=1, reload=True)
    ] = 64
    drain_s: Annotated[
        float, key("seconds that SIGTERM waits for what was accepted to settle", ge=0, reload=True)
    ] = 10.0
    linger_s: Annotated[
        float, key("seconds that closing waits for frames still to be sent", ge=0, reload=True)
    ] = 2.0
    ready_s: Annotated[
        float,
        key("seconds after which the daemon reports READY also without its neighbours", ge=0, reload=True),
    ] = 5.0


class DeliveryLog(Section, frozen=True):
    """What happened to which publication, for pubctl and Spark."""

    mode: Annotated[Literal["off", "sampled", "all"], key("which publications are logged", reload=True)] = (
        "off"
    )
    sample: Annotated[
        int,
        key(
            "when sampled, one in so many of each publisher's publications, the same at every broker",
            ge=1,
            reload=True,
        ),
    ] = _LOG.sample
    content: Annotated[bool, key("log attributes and payload too")] = False
    dir: Annotated[str, key("directory of the segments; empty: `deliveries` in state_dir")] = ""
    segment_bytes: Annotated[int, key("a segment is closed and the next begun at this size", ge=4096)] = (
        64 * 1024 * 1024
    )


class Feeding(Section, frozen=True):
    """Writers whose work may be done again: Spark's tasks."""

    staged_bytes: Annotated[
        int,
        key("bytes of rows that wait in state_dir for their driver's commit", ge=1024 * 1024, reload=True),
    ] = _FEED.staged_bytes
    staged_s: Annotated[
        float, key("seconds after which staged rows that nobody commits go", gt=0, reload=True)
    ] = _FEED.staged_s
    stages: Annotated[int, key("task attempts that may have rows staged", ge=1, reload=True)] = _FEED.stages
    queries: Annotated[int, key("queries whose last batch is remembered", ge=1, reload=True)] = _FEED.queries
    publishers: Annotated[int, key("publishers whose sequence numbers are kept", ge=1, reload=True)] = (
        _FEED.publishers
    )
    keep_s: Annotated[
        float, key("seconds that queries and numbers are remembered after their last use", gt=0, reload=True)
    ] = _FEED.keep_s


class Journal(Section, frozen=True):
    """What is durable: the log on this broker's disk."""

    enabled: Annotated[
        bool, key("keep one; without it publications cannot become persisted, nor subscriptions durable")
    ] = True
    dir: Annotated[str, key("its directory; empty: `journal` in state_dir")] = ""
    segment_bytes: Annotated[
        int, key("a segment is sealed and the next begun at this size", ge=64 * 1024, le=1024**3)
    ] = _JOURNAL.segment_bytes
    custody_s: Annotated[
        float,
        key(
            "seconds that a durable publication may be undelivered; then it ends as expired",
            gt=0,
            reload=True,
        ),
    ] = _JOURNAL.custody_s
    custody_bytes: Annotated[
        int, key("bytes of the log that these may take; the oldest expire", ge=1024 * 1024, reload=True)
    ] = _JOURNAL.custody_bytes
    copies: Annotated[Literal[1, 2], key("of what is in custody; 2: one more at a neighbour on a tree")] = 1
    copies_strict: Annotated[
        bool, key("with 2 copies: without one nothing becomes persisted; false: it does", reload=True)
    ] = _JOURNAL.copies_strict
    on_rot: Annotated[
        Literal["report", "stop"],
        key("damage that a restart finds is reported and passed over, or the broker does not start"),
    ] = "report"
    stuck_s: Annotated[
        float,
        key("seconds after which a disk that does not answer counts as failed", gt=0, reload=True),
    ] = 30.0


class Streams(Section, frozen=True):
    """What durable subscriptions and streams keep, unless they say otherwise."""

    age_s: Annotated[float, key("seconds after which a publication goes, read or not", gt=0, reload=True)] = (
        _STREAMS.age_s
    )
    bytes: Annotated[int, key("bytes of one stream, about; the oldest go", ge=1024 * 1024, reload=True)] = (
        _STREAMS.bytes
    )


class Channels(Section, frozen=True):
    """Results of channels."""

    cache_bytes: Annotated[
        int, key("bytes of results held for subscribers that come later than others", ge=0)
    ] = _CHANNELS.cache_bytes


class Http(Section, frozen=True):
    """Metrics and health for other programs."""

    listen: Annotated[str, key("host:port of /metrics, /healthz, /readyz; empty: not served")] = ""
    hosts: Annotated[
        tuple[str, ...], key("names by which it may be asked, beside addresses and this host's own name")
    ] = ()


class Log(Section, frozen=True):
    """The broker's own log, on standard error."""

    level: Annotated[
        Literal["debug", "info", "warning", "error"], key("the least important line shown", reload=True)
    ] = "info"


class Settings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    broker: Broker = Broker()
    overlay: Overlay = Overlay()
    tree: Tree = Tree()
    onehop: Onehop = Onehop()
    chord: Chord = Chord()
    topics: Topics = Topics()
    reconfiguration: Reconfiguration = Reconfiguration()
    placement: Placement = Placement()
    softlinks: Softlinks = Softlinks()
    relocation: Relocation = Relocation()
    links: Links = Links()
    healing: Healing = Healing()
    clients: Clients = Clients()
    security: Security = Security()
    transport: Transport = Transport()
    delivery_log: DeliveryLog = DeliveryLog()
    feeding: Feeding = Feeding()
    journal: Journal = Journal()
    streams: Streams = Streams()
    channels: Channels = Channels()
    balancing: Balancing = Balancing()
    http: Http = Http()
    log: Log = Log()

    def core(self) -> CoreSettings:
        """The part that the core is told."""
        told = {}
        for section, default in msgspec.structs.asdict(CoreSettings()).items():
            ours = getattr(self, section)
            told[section] = {field: getattr(ours, field) for field in default.__struct_fields__}
        return msgspec.convert(told, CoreSettings)
