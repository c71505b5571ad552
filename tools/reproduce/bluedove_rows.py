"""Rows of BlueDove's reproduction, each with the paper's value where it has one."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from tools.reproduce.row import Row

Done = dict[tuple[Any, ...], Any]
PLACEMENTS = ("one", "overlap")
GAINS = {5: (3.5, 14.0), 20: (4.2, 67.0)}
OVER = {"response": 1.1, "amount": 1.2, "random": 3.5}
DEVIATIONS = {"bluedove": 0.14, "p2p": 0.82}
COST_NOTE = "0.295 us a subscription is what 67x leaves full replication"


def rows_of(done: Done) -> Iterator[Row]:
    rates = {case: found for (kind, *rest), found in done.items() if kind == "rate" for case in rest}
    for placement in PLACEMENTS:
        here = {case: found for case, found in rates.items() if case.placement == placement}
        yield from scaling(here, placement)
        yield from subscriptions(done, placement)
        yield from policies(here, placement)
        yield from characteristics(here, placement)
        yield from around(done, placement)
        yield from crashes(done, placement)
        yield from order(done, placement)
    yield from elastic(done)
    yield from limits(done)
    yield from texts(done)


def _find(here: Any, **wanted: Any) -> Any:
    usual = {"matchers": 20, "system": "bluedove", "policy": "adaptive", "reading": "matching-time"}
    usual |= {"dimensions": 4, "sd": 250.0, "skewed": 0} | wanted
    if usual["system"] != "bluedove":
        usual["policy"] = "amount" if usual["system"] == "p2p" else "random"
    (found,) = (f for case, f in here.items() if all(getattr(case, n) == v for n, v in usual.items()))
    return found


def scaling(here: Any, placement: str) -> Iterator[Row]:
    yield Row("5", f"{placement} N=20", "saturation, messages/s", 114_000, _find(here).rate, COST_NOTE)
    for matchers in sorted({case.matchers for case in here}):
        setting = f"{placement} N={matchers}"
        found = {s: _find(here, matchers=matchers, system=s) for s in ("bluedove", "p2p", "full")}
        for system, limit in found.items():
            yield Row("6a", f"{setting} {system}", "saturation, messages/s", None, limit.rate)
        to_p2p, to_full = GAINS.get(matchers, (None, None))
        ours = found["bluedove"].rate
        yield Row("6a", setting, "BlueDove over P2P", to_p2p, ours / found["p2p"].rate)
        yield Row("6a", setting, "BlueDove over full replication", to_full, ours / found["full"].rate)
        for system in DEVIATIONS if matchers == 20 else ():
            metric = "sd / mean of the matchers' load"
            yield Row("8", f"{setting} {system}", metric, DEVIATIONS[system], found[system].deviation)


def subscriptions(done: Done, placement: str) -> Iterator[Row]:
    found = {k[1].system: v for k, v in done.items() if k[0] == "carry" and k[1].placement == placement}
    for system, count in found.items():
        yield Row("6b", f"{placement} {system}", "most subscriptions at 100,000 messages/s", None, count)
    for system, paper in (("p2p", 4.0), ("full", 30.0)):
        ratio = found["bluedove"] / max(1.0, found[system])
        yield Row("6b", f"{placement} N=20", f"subscriptions, BlueDove over {system}", paper, ratio)


def policies(here: Any, placement: str) -> Iterator[Row]:
    amount = _find(here, policy="amount").rate
    for reading in ("matching-time", "while-waiting", "of-window"):
        adaptive = _find(here, reading=reading).rate
        response = _find(here, policy="response", reading=reading).rate
        setting = f"{placement} mu={reading}"
        yield Row("7", setting, "saturation, adaptive, messages/s", None, adaptive)
        yield Row("7", setting, "adaptive over response", OVER["response"], adaptive / response)
        yield Row("7", setting, "adaptive over amount", OVER["amount"], adaptive / amount)
        random = _find(here, policy="random").rate
        yield Row("7", setting, "adaptive over random", OVER["random"], adaptive / random)
    price = _find(here, policy="price")
    yield Row("7", placement, "amount over random", 3.0, amount / _find(here, policy="random").rate)
    yield Row("7", placement, "price over adaptive", None, price.rate / _find(here).rate, "our policy")
    yield Row("7", placement, "price over amount", None, price.rate / amount, "our policy")
    yield Row("8", f"{placement} price", "sd / mean of the matchers' load", None, price.deviation)


def characteristics(here: Any, placement: str) -> Iterator[Row]:
    base, p2p = _find(here).rate, _find(here, system="p2p").rate
    one = _find(here, dimensions=1).rate
    for count in (1, 2, 3, 4):
        paper = {1: 1.0, 4: 5.5}.get(count)
        ratio = _find(here, dimensions=count).rate / one
        yield Row("11a", f"{placement} k={count}", "saturation over one dimension's", paper, ratio)
    for sd in sorted({case.sd for case in here}):
        rate = _find(here, sd=sd).rate
        paper = {250.0: 1.0, 1000.0: 0.6}.get(sd)
        yield Row("11b", f"{placement} sd={sd:g}", "saturation to sd 250's", paper, rate / base)
        if sd == 1000:
            yield Row("11b", f"{placement} sd={sd:g}", "saturation over P2P's at sd 250", 2.3, rate / p2p)
    for count in sorted({case.skewed for case in here}):
        rate = _find(here, skewed=count).rate
        paper = {0: 1.0, 4: 0.44}.get(count)
        note = "paper: more than halved, about 50,000" if count == 4 else ""
        setting = f"{placement} skewed={count}"
        yield Row("11c", setting, "saturation to even messages'", paper, rate / base, note)
        if count == 4:
            yield Row("11c", setting, "saturation over P2P's with even messages", 1.7, rate / p2p)


def around(done: Done, placement: str) -> Iterator[Row]:
    for share, run in done["around", placement]:
        setting = f"{placement} at {share:.2f} of saturation"
        growth = 100 * max(0.0, run.growth)
        yield Row("5", setting, "backlog's growth, per cent of arrivals", 0 if share < 1 else None, growth)
        yield Row("5", setting, "mean response, ms", None, 1000 * run.response_s)


def crashes(done: Done, placement: str) -> Iterator[Row]:
    found = done["crash", placement]
    note = "as printed: no answer, no retry. Here a question is asked elsewhere and none is lost"
    yield Row("10", placement, "messages lost until known, per cent", 5.0, found.lost_percent, note)
    yield Row(
        "10", placement, "response after over before", None, found.response_after_s / found.response_before_s
    )
    yield Row("10", placement, "seconds until none is lost", 17.5, found.back_after_s, "given, not found")


def order(done: Done, placement: str) -> Iterator[Row]:
    for (share, publishers), ratio in done["order", placement].items():
        setting = f"{placement} load={share:g} publishers={publishers}"
        yield Row("-", setting, "ordered over unordered mean response", None, ratio, "price policy")


def elastic(done: Done) -> Iterator[Row]:
    for policy in ("adaptive", "price"):
        additions, seconds = done["elastic", policy]
        for added in additions:
            setting = f"overlap {policy} matcher={added.matchers}"
            falls = min(added.falls_after_s, 999.0)
            yield Row("9", setting, "seconds until the response falls", 5.0, falls)
            yield Row(
                "9", setting, "response then over 20 s later", None, added.before_s / max(1e-9, added.after_s)
            )
        for second, response in seconds:
            yield Row("9", f"overlap {policy} second={second:g}", "mean response, s", None, response)


def limits(done: Done) -> Iterator[Row]:
    for key, (price, amount, p2p, full) in ((k, v) for k, v in done.items() if k[0] == "limits"):
        _, count, width, matchers = key
        setting = f"our index {count:,} x {width:g} N={matchers}"
        yield Row("-", setting, "limit over full replication, price", None, price / full)
        yield Row("-", setting, "limit over full replication, amount", None, amount / full)
        yield Row("-", setting, "limit over P2P, price", None, price / p2p)
        yield Row("-", setting, "limit, publications/s", None, price)


def texts(done: Done) -> Iterator[Row]:
    for (sd, where), density in done["densities",].items():
        paper = {250.0: 2.7, 1000.0: 1.17}[sd]
        note = "" if where == "even" else "a hot spot at the edge fits better"
        yield Row(
            "IV-B", f"sd={sd:g} hot spots {where}", "fullest segment over the mean", paper, density, note
        )
    for (width, placement), share in done["alone",].items():
        metric = "all copies on one matcher, share of the subscriptions"
        note = "the paper's is for points in dimensions without a hot spot"
        yield Row("III-A", f"{placement} N=20 width={width:g}", metric, 1 / 8000, share, note)
    for key, late in ((k, v) for k, v in done.items() if k[0] == "gossip"):
        metric = "changes later than 2 log2 N + 2 rounds, per cent"
        yield Row("III-C", f"N={key[1]}", metric, None, late)
    for key, shares in ((k, v) for k, v in done.items() if k[0] == "quotes"):
        for one in shares:
            setting = f"quotes {one.attribute} N={key[1]}"
            note = f"the commonest value has {100 * one.tie:.1f}"
            yield Row("-", setting, "fullest segment, per cent, equal widths", None, 100 * one.before)
            yield Row("-", setting, "fullest segment, per cent, after moves", None, 100 * one.after, note)
