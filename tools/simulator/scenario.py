"""Scenario files: TOML, one section an idea; a pair [low, high] is drawn anew by every seed.

Unknown keys are refused. `find("quick")` reads a file that ships with the simulator; a path reads any other.
"""

from __future__ import annotations

from importlib.resources import files
from pathlib import Path
from random import Random
from typing import Literal, TypeAlias

import msgspec

from overlay.settings import (
    ChordSettings,
    ClientSettings,
    CoreSettings,
    HealingSettings,
    JournalSettings,
    LinkSettings,
    OneHopSettings,
    OverlaySettings,
    PlacementSettings,
    ReconfigurationSettings,
    RelocationSettings,
    SoftLinkSettings,
    TopicSettings,
    TreeSettings,
)
from tools.simulator.capacity import Capacity, Reckoned

Span: TypeAlias = float | tuple[float, float]
Whole: TypeAlias = int | tuple[int, int]


class ScenarioError(ValueError):
    """A scenario that cannot be read."""


class Brokers(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    overlay: str = "tree"  # or "onehop"
    count: Whole = (5, 12)
    fanout: int = 3  # children a broker has before the next one gets some
    candidates: int = 2  # addresses of other brokers in a broker's configuration
    delta: Whole = (1, 4)
    ordered: bool | Literal["drawn"] = True
    covering: bool | None = None  # none: drawn
    routing: str = ""  # empty: drawn
    matcher: str = "scan"
    dispatchers: int = 0  # of a one-hop cluster: the last so many are, the others matchers; 0: by turns
    seeds: int = 0  # on a ring: so many are configured as its first members; 0: all
    older: float = 0.0  # share that speaks the last protocol only
    newer: tuple[str, ...] = ()  # messages that count as new, so that there are some


class Clients(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    publishers: Whole = (2, 6)
    subscribers: Whole = (3, 10)
    subscriptions: Whole = (1, 4)  # of one subscriber
    mixed: float = 0.2  # share of the publishers that subscribe as well
    brokers: int = 3  # in a client's list, for fail-over
    window: Whole = (64, 512)


class Load(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    kind: str = "random"
    every_s: Span = (0.2, 1.0)  # between a publisher's bursts
    burst: Whole = (1, 6)
    churn_s: float = 4.0  # between two changes of one client's subscriptions; 0: none


class Wires(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    latency: str = "plane"
    scale_s: float = 0.03
    jitter_s: float = 0.002
    file: str = ""
    codec: bool = False
    skew_s: float = 5.0  # clocks of two hosts differ by up to this


class Faults(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """How many of each in a run, at random times."""

    crashes: Whole = 0
    aimed: Whole = 0  # crashes at a protocol step
    breaks: Whole = 0
    clogs: Whole = 0
    late_updates: Whole = 0  # of a publisher's that has moved on
    walls: Whole = 0
    pauses: Whole = 0
    slow_disks: Whole = 0
    disk_faults: Whole = 0  # of a journal's: rot, misdirected and lost writes, failed syncs, no room
    leaves: Whole = 0
    switches: Whole = 0  # of a broker's strategy
    algorithms: Whole = 0  # switches of a broker's POP, GRAPE or neither
    client_breaks: Whole = 0
    client_pauses: Whole = 0
    client_lazy: Whole = 0
    client_crashes: Whole = 0
    together: Whole = 0  # crashes of a durable publisher and, right after, of its first broker
    relocations: Whole = 0  # publishers asked to move somewhere
    handovers: Whole = 0  # times that some of a broker's clients are handed over to another
    moves: Whole = 0  # brokers told to take another parent
    slow_moves: Whole = 0  # and whose old link is slow just then
    one_way: Whole = 0  # links that lose what one side says, and nobody is told
    clock_jumps: Whole = 0  # of a host's clock: seen by a broker when it starts again
    disk_errors: Whole = 0  # a sync fails: the broker says so and stops
    reconfigurations: Whole = 0  # of a ring, to random positions
    lost_disks: Whole = 0  # brokers whose disk is gone; some are forgotten, some come back all the same
    deaths: Whole = 0  # of up to three brokers beside each other at once; some never come back
    lasting: Whole = 0  # brokers that die, or are cut off from everybody, and are never healed


class Durable(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What is kept on disk."""

    publications: float = 1.0  # share of the publishers that ask for it
    segment_bytes: int = 20_000
    copies: int = 1
    readers: float = 0.0  # share of the subscribers that have a durable subscription too
    members: float = 0.0  # share of the subscribers that are members of a group and nothing else
    groups: int = 1
    asks: float = 0.0  # share of the publishers whose publications are requests
    last: float = 0.0  # share of the subscribers that read last values and nothing else
    key: str = "symbol"  # by this attribute


class Requests(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Publishers ask, subscribers answer (requesting.py)."""

    services: int = 4  # that subscribers offer, one each
    unoffered: int = 1  # that nobody does
    timeout_s: Span = 3.0


class Scenario(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    name: str
    about: str = ""
    kind: str = "content"  # or "channels" (channels.py), "requests" (requesting.py)
    seconds: float = 20.0  # of load and faults
    heal_s: float = 120.0  # to come to rest afterwards
    validate_every: int = 1  # bursts of any broker; 0: never
    judge_every: int = 1  # publications
    brokers: Brokers = Brokers()
    clients: Clients = Clients()
    load: Load = Load()
    network: Wires = Wires()
    capacity: Capacity = Capacity()
    effort: Reckoned = Reckoned()
    faults: Faults = Faults()
    links: LinkSettings = LinkSettings()  # the brokers' own sections
    healing: HealingSettings = HealingSettings()
    attachments: ClientSettings = ClientSettings()
    chord: ChordSettings = ChordSettings()
    topics: TopicSettings = TopicSettings()
    reconfiguration: ReconfigurationSettings = ReconfigurationSettings()
    placement: PlacementSettings = PlacementSettings()
    softlinks: SoftLinkSettings = SoftLinkSettings()
    relocation: RelocationSettings = RelocationSettings()
    durable: Durable | None = None  # none: the brokers have no journal
    onehop: OneHopSettings = OneHopSettings()
    requests: Requests | None = None


def draw(span: Whole, random: Random) -> int:
    return span if isinstance(span, int) else random.randint(*span)


def draw_float(span: Span, random: Random) -> float:
    return random.uniform(*span) if isinstance(span, tuple) else span


def core_settings(scenario: Scenario, random: Random, neighbours: tuple[str, ...]) -> CoreSettings:
    """What all brokers of a run are told; `random` must give every one of them the same."""
    brokers = scenario.brokers
    covering = random.random() < 0.8 if brokers.covering is None else brokers.covering
    routing = brokers.routing or ("advertisements" if random.random() < 0.75 else "flooding")
    ordered = random.random() < 0.5 if brokers.ordered == "drawn" else brokers.ordered
    return CoreSettings(
        overlay=OverlaySettings(brokers.overlay, ordered, draw(brokers.delta, random)),
        tree=TreeSettings(neighbours, routing, covering),
        links=scenario.links,
        healing=scenario.healing,
        clients=scenario.attachments,
        softlinks=scenario.softlinks,
        relocation=scenario.relocation,
        journal=_journal(scenario.durable),
        onehop=scenario.onehop,
    )


def _journal(durable: Durable | None) -> JournalSettings:
    if durable is None:
        return JournalSettings()
    return JournalSettings(durable.segment_bytes, copies=durable.copies)


def find(name: str) -> Scenario:
    """By the name of one that ships, or by the path of a file."""
    path = Path(name)
    if path.suffix == ".toml" or path.exists():
        text = path.read_text() if path.exists() else None
    else:
        resource = files("tools.simulator") / "scenarios" / f"{name}.toml"
        text = resource.read_text() if resource.is_file() else None
    if text is None:
        raise ScenarioError(f"no scenario {name!r}; there are: {', '.join(shipped())}")
    try:
        return msgspec.toml.decode(text, type=Scenario)
    except msgspec.MsgspecError as error:
        raise ScenarioError(f"{name}: {error}") from None


def shipped() -> list[str]:
    folder = files("tools.simulator") / "scenarios"
    return sorted(entry.name[:-5] for entry in folder.iterdir() if entry.name.endswith(".toml"))
