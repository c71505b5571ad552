"""GRAPE's decision: the average delay and the message rate with the publisher at each broker, and the choice.

The paper gives calcAvgDelay, calcTotalMsgRate and calcDownstreamBV as recursions from one candidate over
directed edges of the tree (GRAPE 4.2, algorithms 1 to 3). What they return for an edge does not depend on
the candidate, so each edge is worked out once, outwards from a root and back: all candidates together cost
what the paper's recursion costs for a few. `Evaluation.step` does a bounded piece of it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from bitarray import bitarray

from grapevine.wire.relocation import BrokerTrace

PIECE = 64  # brokers in one step


class Node:
    """A broker as the selection sees it. `delays` are the queueing and matching delays towards each
    neighbour, `local_delay_s` towards its own clients."""

    __slots__ = ("bits", "broker", "delays", "deliveries", "local_delay_s")

    def __init__(
        self, broker: int, bits: bitarray, deliveries: int, delays: dict[int, float], local_delay_s: float
    ) -> None:
        self.broker = broker
        self.bits = bits
        self.deliveries = deliveries
        self.delays = delays
        self.local_delay_s = local_delay_s


class Edge(NamedTuple):
    """What lies beyond a directed edge, the broker it leads to included: the publications delivered there
    (calcDownstreamBV), the messages all brokers there take (calcTotalMsgRate), deliveries, and the sum of
    their delays counted from the entry (calcAvgDelay)."""

    bits: bitarray
    messages: int
    deliveries: int
    delay_s: float


class Candidate(NamedTuple):
    broker: int
    messages: int
    delay_s: float  # average over all deliveries


def nodes_of(traces: Iterable[BrokerTrace], delay_model: str) -> dict[int, Node]:
    """`delay_model` "latency" counts half the round trip of a link in the delay towards that neighbour,
    "paper" does not."""
    traces = list(traces)
    known = {trace.broker for trace in traces}
    nodes = {}
    for trace in traces:
        bits = bitarray()
        bits.frombytes(trace.bits)
        inside_s = trace.input_delay_s + trace.matching_delay_s
        delays = {}
        for neighbour in trace.neighbours:
            if neighbour.broker in known:
                link_s = neighbour.round_trip_s / 2 if delay_model == "latency" else 0.0
                delays[neighbour.broker] = inside_s + neighbour.output_delay_s + link_s
        nodes[trace.broker] = Node(
            trace.broker, bits, trace.deliveries, delays, inside_s + trace.client_delay_s
        )
    return nodes


class Evaluation:
    """All candidates of one tree. `root` is the publisher's first broker; brokers that it is not connected
    to by what was answered are no candidates."""

    def __init__(
        self, nodes: Mapping[int, Node], root: int, round_trips: Mapping[int, float] | None = None
    ) -> None:
        self.nodes = nodes
        self.round_trips = round_trips or {}
        self.candidates: list[Candidate] = []
        self._size = max((len(node.bits) for node in nodes.values()), default=0)
        self._order: list[int] = []  # parents before children
        self._parent: dict[int, int | None] = {root: None}
        self._down: dict[int, Edge] = {}  # beyond the edge from its parent to this broker
        self._up: dict[int, Edge] = {}  # beyond the edge from this broker to its parent
        self._front = [root]
        self._next = 0
        self._phase = self._spread

    def step(self, most: int = PIECE) -> bool:
        """A piece of at most `most` brokers; True while some is left."""
        return all(self._phase() for _ in range(most))

    def run(self) -> list[Candidate]:
        while self.step():
            pass
        return self.candidates

    # --- three passes, one broker a call ------------------------------------------------------------

    def _spread(self) -> bool:
        if not self._front:
            self._next = len(self._order)
            self._phase = self._gather
            return True
        broker = self._front.pop()
        self._order.append(broker)
        for neighbour in self.nodes[broker].delays:
            if neighbour not in self._parent and broker in self.nodes[neighbour].delays:
                self._parent[neighbour] = broker
                self._front.append(neighbour)
        return True

    def _gather(self) -> bool:
        if not self._next:
            self._phase = self._judge
            return True
        self._next -= 1
        broker = self._order[self._next]
        self._down[broker] = self._beyond(broker, self._children(broker))
        return True

    def _judge(self) -> bool:
        if self._next >= len(self._order):
            return False
        broker = self._order[self._next]
        self._next += 1
        edges = self._children(broker)
        parent = self._parent[broker]
        if parent is not None:
            edges.append((parent, self._up[broker]))
        self._hand_up(broker, edges)
        whole = self._beyond(broker, edges)
        delay_s = whole.delay_s / whole.deliveries if whole.deliveries else 0.0
        self.candidates.append(
            Candidate(broker, whole.messages, delay_s + self.round_trips.get(broker, 0.0) / 2)
        )
        return True

    def _children(self, broker: int) -> list[tuple[int, Edge]]:
        parent = self._parent
        return [
            (n, self._down[n]) for n in self.nodes[broker].delays if n in self._down and parent[n] == broker
        ]

    def _hand_up(self, broker: int, edges: list[tuple[int, Edge]]) -> None:
        """What each child sees beyond us: all but itself. The bits without one edge are those before and
        after it and sums are less by it, so a broker with many neighbours costs no more than many brokers."""
        delays = self.nodes[broker].delays
        whole = self._sum(broker, bitarray(), edges)
        before: list[bitarray] = [self._bits(broker)]
        for _, edge in edges:
            before.append(before[-1] | edge.bits)
        after = bitarray(self._size)
        for index in range(len(edges) - 1, -1, -1):
            neighbour, edge = edges[index]
            if self._parent[neighbour] == broker:
                bits = before[index] | after
                self._up[neighbour] = Edge(
                    bits,
                    whole.messages - edge.messages + bits.count(),
                    whole.deliveries - edge.deliveries,
                    whole.delay_s - edge.delay_s - edge.deliveries * delays[neighbour],
                )
            after |= edge.bits

    def _bits(self, broker: int) -> bitarray:
        bits = self.nodes[broker].bits.copy()
        bits.extend([False] * (self._size - len(bits)))
        return bits

    def _beyond(self, broker: int, edges: list[tuple[int, Edge]]) -> Edge:
        bits = self._bits(broker)
        for _, edge in edges:
            bits |= edge.bits
        return self._sum(broker, bits, edges)

    def _sum(self, broker: int, bits: bitarray, edges: list[tuple[int, Edge]]) -> Edge:
        node = self.nodes[broker]
        messages = bits.count()
        deliveries = node.deliveries
        delay_s = node.deliveries * node.local_delay_s
        for neighbour, edge in edges:
            messages += edge.messages
            deliveries += edge.deliveries
            delay_s += edge.delay_s + edge.deliveries * node.delays[neighbour]
        return Edge(bits, messages, deliveries, delay_s)


# --- the paper's three functions, for one candidate ----------------------------------------------------


def calc_downstream_bit_vector(
    nodes: Mapping[int, Node], broker: int, previous: int | None = None
) -> bitarray:
    bits = nodes[broker].bits.copy()
    for neighbour in nodes[broker].delays:
        if neighbour != previous:
            bits |= calc_downstream_bit_vector(nodes, neighbour, broker)
    return bits


def calc_total_msg_rate(nodes: Mapping[int, Node], broker: int, previous: int | None = None) -> int:
    """Messages of one session that all brokers take, with the publisher at `broker`."""
    local = calc_downstream_bit_vector(nodes, broker, previous).count()
    return local + sum(
        calc_total_msg_rate(nodes, neighbour, broker)
        for neighbour in nodes[broker].delays
        if neighbour != previous
    )


def calc_avg_delay(nodes: Mapping[int, Node], broker: int, cumulative_s: float = 0.0) -> float:
    """Average over all deliveries; `cumulative_s` is what the way to the candidate takes."""
    total_s, deliveries = _delays(nodes, broker, None, cumulative_s)
    return total_s / deliveries if deliveries else cumulative_s


def _delays(
    nodes: Mapping[int, Node], broker: int, previous: int | None, cumulative_s: float
) -> tuple[float, int]:
    node = nodes[broker]
    total_s = node.deliveries * (cumulative_s + node.local_delay_s)
    deliveries = node.deliveries
    for neighbour, delay_s in node.delays.items():
        if neighbour != previous:
            beyond_s, beyond = _delays(nodes, neighbour, broker, cumulative_s + delay_s)
            total_s += beyond_s
            deliveries += beyond
    return total_s, deliveries


# --- the choice ------------------------------------------------------------------------------------------


def normalised(values: list[float]) -> list[float]:
    """To 0..100, the least being 0. The paper does not say how; this fits all that it says of weights."""
    low, high = min(values), max(values)
    return [100.0 * (value - low) / (high - low) if high > low else 0.0 for value in values]


def choose(candidates: list[Candidate], home: int, priority: str, weight: float) -> Candidate:
    """Drop who is beyond 100 - weight in the first metric, then take the least in the other (GRAPE 4.2).
    Among equals the first metric decides, then staying at home, then the lowest id."""
    first = [c.delay_s if priority == "delay" else float(c.messages) for c in candidates]
    second = [float(c.messages) if priority == "delay" else c.delay_s for c in candidates]
    kept = [i for i, value in enumerate(normalised(first)) if value <= 100.0 - weight + 1e-9]
    best = min(kept, key=lambda i: (second[i], first[i], candidates[i].broker != home, candidates[i].broker))
    return candidates[best]


def worth_moving(here: Candidate, there: Candidate, priority: str, gain: float) -> bool:
    """Hysteresis: the metric that speaks for the move must gain at least this share of what it is here."""
    pairs = [(float(here.messages), float(there.messages)), (here.delay_s, there.delay_s)]
    if priority == "delay":
        pairs.reverse()
    for now, then in pairs:
        if then < now:
            return then <= now * (1.0 - gain)
        if then > now:
            continue
    return False


def relocation_target(
    candidates: list[Candidate], home: int, priority: str, weight: float, gain: float = 0.0
) -> int:
    """The broker where the publisher should be; home if no move is worth it."""
    here = next(c for c in candidates if c.broker == home)
    there = choose(candidates, home, priority, weight)
    if there.broker == home or not worth_moving(here, there, priority, gain):
        return home
    return there.broker
