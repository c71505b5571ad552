"""The section of the coordinator."""

from __future__ import annotations

from typing import Annotated, Literal

from daemon.settings.section import Section, key
from overlay.settings import BalancingSettings

_BALANCE = BalancingSettings()


class Balancing(Section, frozen=True):
    """Which broker serves which subscriber of channels; read by the coordinator."""

    mode: Annotated[
        Literal["off", "plan", "on"],
        key("move subscribers when load is uneven; plan: only say who", reload=True),
    ] = "off"
    assign: Annotated[
        Literal["nearest", "round_robin", "random"],
        key("the broker of a subscriber that comes with place=True", reload=True),
    ] = "round_robin"
    scheme: Annotated[
        Literal["LDM", "SDM"],
        key(
            "who takes a subscriber: the least loaded broker, or the one that shares most with it",
            reload=True,
        ),
    ] = "LDM"
    alpha: Annotated[
        float, key("deviation of the loads, by their mean, above which subscribers move", gt=0, reload=True)
    ] = _BALANCE.alpha
    beta: Annotated[float, key("bytes a second: mean load below which nobody moves", ge=0, reload=True)] = (
        _BALANCE.beta
    )
    gamma: Annotated[
        float, key("the same deviation above which everybody is placed anew", gt=0, reload=True)
    ] = _BALANCE.gamma
    theta: Annotated[
        float, key("bytes a second: mean load below which nobody is placed anew", ge=0, reload=True)
    ] = _BALANCE.theta
    keep: Annotated[
        float,
        key("placed anew, who is somewhere stays while the load there is so far above the mean; -1: nobody",
            ge=-1, reload=True),
    ] = _BALANCE.keep  # fmt: skip
    moves: Annotated[
        int, key("subscribers that one round moves, at most; 0: 20 for ten brokers", ge=0, reload=True)
    ] = _BALANCE.moves
    in_flight: Annotated[int, key("subscribers that move at a time", ge=1, reload=True)] = _BALANCE.in_flight
    cooldown_s: Annotated[
        float, key("seconds before a subscriber that has moved moves again", ge=0, reload=True)
    ] = _BALANCE.cooldown_s
    check_s: Annotated[float, key("seconds between two rounds", gt=0, reload=True)] = _BALANCE.check_s
    report_s: Annotated[float, key("seconds between two reports of the brokers", gt=0, reload=True)] = (
        _BALANCE.report_s
    )
    window_s: Annotated[float, key("seconds over which rates are averaged", gt=0, reload=True)] = (
        _BALANCE.window_s
    )
