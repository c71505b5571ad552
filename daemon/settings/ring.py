"""The sections of a ring: overlay.kind = "chord"."""

from __future__ import annotations

from typing import Annotated, Literal

from daemon.settings.section import Section, key
from overlay.settings import ChordSettings, PlacementSettings, ReconfigurationSettings, TopicSettings

_CHORD, _TOPICS = ChordSettings(), TopicSettings()
_RECONFIGURATION, _PLACEMENT = ReconfigurationSettings(), PlacementSettings()


class Chord(Section, frozen=True):
    """Brokers on a ring when overlay.kind is "chord"."""

    members: Annotated[
        tuple[str, ...],
        key("addresses of the brokers that the ring begins with, the same everywhere; none: alone"),
    ] = _CHORD.members
    successors: Annotated[int, key("brokers after it that each one knows", ge=1, le=64)] = _CHORD.successors
    base: Annotated[Literal[2, 4, 16], key("wider bases make more links and shorter ways")] = 2
    direct: Annotated[bool, key("keep a link to each root that is published to: one hop up")] = _CHORD.direct
    copies: Annotated[int, key("successors that know a topic's members beside its root", ge=1, le=16)] = (
        _CHORD.copies
    )
    stabilise_s: Annotated[float, key("seconds between two looks at the next broker", gt=0)] = (
        _CHORD.stabilise_s
    )
    lost_after_s: Annotated[float, key("seconds after which a silent broker is given up", gt=0)] = (
        _CHORD.lost_after_s
    )
    refresh_s: Annotated[float, key("seconds after which brokers repeat what they want", gt=0)] = (
        _CHORD.refresh_s
    )
    retry_s: Annotated[float, key("seconds after which what was not answered is repeated", gt=0)] = (
        _CHORD.retry_s
    )
    probe_s: Annotated[float, key("seconds between two looks for another ring", gt=0)] = _CHORD.probe_s
    idle_s: Annotated[float, key("seconds after which a link that nobody needs is closed", gt=0)] = (
        _CHORD.idle_s
    )


class Topics(Section, frozen=True):
    """What is a topic when overlay.kind is "chord"."""

    by: Annotated[
        tuple[str, ...],
        key("attributes, or attribute/width for cells of a number", cluster=True, min_length=1),
    ] = _TOPICS.by
    most: Annotated[int, key("topics that one filter may name", ge=1, le=65_536)] = _TOPICS.most


class Reconfiguration(Section, frozen=True):
    """What the manager of a ring, the broker with the role coordinator, does with the others' positions."""

    rule: Annotated[
        Literal["paper", "off"], key('"paper": when it saves more than it costs; "off": only when told to')
    ] = "paper"
    report_s: Annotated[float, key("seconds between two questions to all brokers", gt=0)] = (
        _RECONFIGURATION.report_s
    )
    every_s: Annotated[float, key("seconds between two looks whether it would pay (T_free)", gt=0)] = (
        _RECONFIGURATION.every_s
    )
    alpha: Annotated[float, key("weight of the last period in the estimated rates", gt=0, le=1)] = (
        _RECONFIGURATION.alpha
    )
    beta: Annotated[float, key("share of the dearest reconfiguration that notification must cost", ge=0)] = (
        _RECONFIGURATION.beta
    )
    delay_weight: Annotated[float, key("what a hop of delay counts against a relayed message", ge=0)] = (
        _RECONFIGURATION.delay_weight
    )
    patience: Annotated[
        int, key("costliest brokers tried before the search ends; the paper's is 1", ge=1)
    ] = _RECONFIGURATION.patience
    cost: Annotated[Literal["text", "printed"], key("what moving costs: the paper's text, or its (7)")] = (
        "text"
    )
    calm_s: Annotated[float, key("seconds without a broker that came or went", ge=0)] = (
        _RECONFIGURATION.calm_s
    )
    step_s: Annotated[float, key("seconds after which an unanswered step ends the attempt", gt=0)] = (
        _RECONFIGURATION.step_s
    )


class Placement(Section, frozen=True):
    """Whether clients of a ring are moved to brokers whose other clients want the same topics."""

    rule: Annotated[
        Literal["off", "paper"],
        key('"paper": when its subscriptions change a client goes where it fits best'),
    ] = "off"
    cluster: Annotated[
        str, key("brokers of one name exchange clients; none: groups by the order of ids", max_length=64)
    ] = _PLACEMENT.cluster
    cluster_size: Annotated[int, key("brokers in such a group", ge=2, le=256)] = _PLACEMENT.cluster_size
    load_weight: Annotated[
        float, key("what a broker's share of the load counts against the share of topics it has", ge=0)
    ] = _PLACEMENT.load_weight
    margin: Annotated[float, key("how much better another broker must be", ge=0)] = _PLACEMENT.margin
    rest_s: Annotated[float, key("seconds between two moves of one client", ge=0)] = _PLACEMENT.rest_s
    t_update_s: Annotated[
        float, key("seconds between two words to the cluster, if something has changed", gt=0)
    ] = _PLACEMENT.t_update_s
