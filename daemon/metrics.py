"""Counters as Prometheus reads them. They are plain ints that the loop raises anyway; here they are only
read, by another thread, when somebody asks.

No name of a client, broker or subscription is a label: the number of series does not grow with the overlay.
"""

from __future__ import annotations

import os
import resource
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from daemon.assembly import Assembly
from overlay.administration.reports import Ask, Reports

ATTEMPTS = 5  # a table may change while another thread looks through it
CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"


class Metric(NamedTuple):
    name: str
    kind: str  # "counter" or "gauge"
    help: str
    samples: tuple[tuple[str, float], ...]  # (labels or "", value)


class Metrics:
    def __init__(self, parts: Assembly) -> None:
        self._parts = parts
        self._reports = next(b for b in parts.core.behaviours if isinstance(b, Reports))

    def text(self) -> str:
        return "".join(render(self.collect()))

    def collect(self) -> list[Metric]:
        for _ in range(ATTEMPTS - 1):
            try:
                return [*self._overlay(), *self._driver(), *_process()]
            except RuntimeError:  # a dictionary changed its size
                continue
        return [*self._overlay(), *self._driver(), *_process()]

    def _overlay(self) -> Iterator[Metric]:
        core, row = self._parts.core, self._reports.broker(Ask())
        clients = list(core.clients.values())
        backlog = sum(len(client.deliveries.backlog) for client in clients)
        counted = "publications_{}_total"
        yield _counter(counted.format("accepted"), "Publications taken from clients.", row["accepted"])
        yield _counter(counted.format("forwarded"), "Publications sent to neighbours.", row["forwarded"])
        yield _counter(counted.format("delivered"), "Publications sent to clients.", row["delivered"])
        yield _counter(counted.format("duplicate"), "Publications seen before.", row["duplicates"])
        yield _gauge("ready", "1 when clients are served.", float(core.ready))
        yield _gauge("neighbours", "Neighbours on the tree.", len(core.peers))
        yield _gauge("neighbours_connected", "Neighbours with a link now.", row["links"])
        yield _gauge("clients", "Clients attached.", row["clients"])
        yield _gauge("subscriptions", "Subscriptions of our clients.", row["subscriptions"])
        yield _gauge("subscriptions_known", "Subscriptions in the table.", row["subscriptions_known"])
        yield _gauge("advertisements", "Advertisements in the table.", row["advertisements"])
        if (moved := row.get("reconfiguration")) is not None:
            yield _gauge("plane", "Number of the ring's plane.", moved["plane"])
            yield _gauge(
                "reconfiguring", "1 while a reconfiguration is not over here.", float(bool(moved["step"]))
            )
            yield _counter("reconfigurations_finished_total", "Planes moved to.", moved["finished"])
            yield _counter("reconfigurations_aborted_total", "Planes given up.", moved["aborted"])
        if (member := row.get("onehop")) is not None:
            yield from _one_hop(member)
        yield _gauge("backlog_publications", "Deliveries that wait for slow clients.", backlog)

    def _driver(self) -> Iterator[Metric]:
        parts = self._parts
        loop, receiver, sender = parts.loop, parts.receiver, parts.sender
        for name, what, value in (
            ("frames_received_total", "Frames read.", receiver.frames),
            (
                "publications_received_total",
                "Publications read, of clients and brokers.",
                receiver.publications,
            ),
            ("frames_sent_total", "Frames sent.", sender.frames),
            ("received_bytes_total", "Bytes read.", receiver.bytes),
            ("sent_bytes_total", "Bytes sent.", sender.bytes),
            ("matching_seconds_total", "Time in matching and routing.", receiver.matching_s),
            ("loop_busy_seconds_total", "Time in which the loop did not wait.", loop.busy_s),
            ("loop_turns_total", "Turns of the loop.", loop.turns),
            ("overflows_total", "Links ended because they took nothing.", sender.overflows),
            ("connections_refused_total", "Connections without an authorised key.", parts.gate.refused),
        ):
            yield _counter(name, what, value)
        yield _gauge("links", "Links of brokers, clients and administrators.", len(parts.wires))
        refused = {**parts.core.refused}
        for reason, count in list(receiver.refused.items()):
            refused[reason] = refused.get(reason, 0) + count
        samples = tuple((f'{{reason="{reason}"}}', float(n)) for reason, n in sorted(refused.items()))
        what = "Frames and requests refused."
        yield Metric("grapevine_refused_total", "counter", what, samples)


def _one_hop(row: dict[str, float]) -> Iterator[Metric]:
    """Of a member of a one-hop cluster, as far as its roles have it."""
    yield _gauge("onehop_members", "Members that are not held dead.", row["members"])
    if "asked" in row:
        yield _gauge("onehop_saturated", "1 while a matcher should be added.", float(row["saturated"]))
        yield _counter("onehop_asked_total", "Publications asked about.", row["asked"])
        yield _counter("onehop_asked_again_total", "Asked about once more.", row["asked_again"])
        yield _counter("onehop_rejected_total", "Answers that lacked subscriptions.", row["rejected"])
        yield _gauge("onehop_waiting", "Publications that nobody can answer for now.", row["waiting"])
        yield _gauge("onehop_response_seconds", "Mean time of the last answers.", row["response_s"])
        yield _gauge("onehop_broad", "Subscriptions without a bound in some dimension.", row["broad"])
    if "copies" in row:
        yield _gauge("onehop_copies", "Copies of subscriptions at this matcher.", row["copies"])
        yield _gauge("onehop_spares", "Those of them that are spare.", row["spares"])
        yield _counter("onehop_answered_total", "Publications answered for.", row["answered"])
        yield _counter("onehop_refused_total", "Asked about and not owned.", row["refused"])
        yield _gauge("onehop_backlog_seconds", "Work that waits at this matcher.", row["backlog_s"])
        yield _gauge("onehop_taking", "Segments that are being taken.", row["taking"])
        yield _counter("onehop_given_total", "Segments given to others.", row["moves"])


def _process() -> Iterator[Metric]:
    used = resource.getrusage(resource.RUSAGE_SELF)
    with open("/proc/self/statm") as file:
        pages = int(file.read().split()[1])
    cpu_s, memory = used.ru_utime + used.ru_stime, pages * os.sysconf("SC_PAGE_SIZE")
    yield Metric("process_cpu_seconds_total", "counter", "Processor time.", (("", cpu_s),))
    yield Metric("process_resident_memory_bytes", "gauge", "Memory.", (("", float(memory)),))
    yield Metric("process_open_fds", "gauge", "Open descriptors.", (("", len(os.listdir("/proc/self/fd"))),))


def _counter(name: str, text: str, value: float) -> Metric:
    return Metric(f"grapevine_{name}", "counter", text, (("", value),))


def _gauge(name: str, text: str, value: float) -> Metric:
    return Metric(f"grapevine_{name}", "gauge", text, (("", value),))


def render(metrics: Iterable[Metric]) -> Iterator[str]:
    for metric in metrics:
        yield f"# HELP {metric.name} {metric.help}\n# TYPE {metric.name} {metric.kind}\n"
        for labels, value in metric.samples:
            yield f"{metric.name}{labels} {value:.15g}\n"
