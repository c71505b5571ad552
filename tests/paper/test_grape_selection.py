"""GRAPE's bit vectors and selection (section 4)."""

from __future__ import annotations

import sys
from collections.abc import Callable
from random import Random

import pytest
from bitarray import bitarray

from grapevine.wire.relocation import BrokerTrace, NeighbourDelay, SessionId
from overlay.relocate.selection import (
    PIECE,
    Candidate,
    Evaluation,
    Node,
    calc_avg_delay,
    calc_downstream_bit_vector,
    calc_total_msg_rate,
    choose,
    nodes_of,
    relocation_target,
)
from overlay.relocate.traces import SessionTrace


def test_session_212() -> None:
    """Figure 3: a session whose id is 212; publication 212 + d sets bit d where it was delivered."""
    trace = SessionTrace(SessionId(1, 1, 212))
    for message in (212, 213, 215, 218):
        trace.delivered(message - 212, subscribers=2)
    trace.delivered(216 - 212, subscribers=0)  # passed on, nobody here wanted it
    assert trace.bits == bitarray("1101001")
    assert trace.deliveries == 8
    trace.delivered(0, subscribers=2)  # sent again after a break
    assert trace.deliveries == 8


def test_vectors_aggregate_by_or_and_their_cardinality_is_the_rate() -> None:
    """4.1 and algorithms 2, 3: B1 - B2 - B3, the publisher's place decides who carries what."""
    nodes = line(["1100", "0110", "0011"])
    assert calc_downstream_bit_vector(nodes, 2, 1) == bitarray("0111")
    assert calc_downstream_bit_vector(nodes, 1) == bitarray("1111")
    assert calc_total_msg_rate(nodes, 1) == 4 + 3 + 2
    assert calc_total_msg_rate(nodes, 2) == 2 + 4 + 2
    assert calc_total_msg_rate(nodes, 3) == 2 + 3 + 4


def test_average_delay() -> None:
    """Algorithm 1: every delivery waits for the brokers before it and for its own."""
    nodes = line(["1", "1", "1"], deliveries=[1, 2, 3], delay_s=1.0, local_s=0.5)
    assert calc_avg_delay(nodes, 1) == pytest.approx((1 * 0.5 + 2 * 1.5 + 3 * 2.5) / 6)
    assert calc_avg_delay(nodes, 3, cumulative_s=2.0) == pytest.approx(2 + (3 * 0.5 + 2 * 1.5 + 2.5) / 6)


def test_one_pass_says_what_the_recursion_says() -> None:
    for seed in range(20):
        nodes = random_tree(Random(seed), brokers=2 + seed)
        round_trips = {broker: 0.1 * broker for broker in nodes}
        for candidate in Evaluation(nodes, 1, round_trips).run():
            broker = candidate.broker
            assert candidate.messages == calc_total_msg_rate(nodes, broker)
            assert candidate.delay_s == pytest.approx(calc_avg_delay(nodes, broker, 0.05 * broker))


CANDIDATES = [Candidate(1, 100, 5.0), Candidate(2, 160, 2.0), Candidate(3, 120, 4.0), Candidate(4, 200, 1.0)]


@pytest.mark.parametrize(
    ("priority", "weight", "broker"),
    [
        ("load", 100, 1),
        ("load", 75, 3),  # a quarter of the span in load may be given for delay
        ("load", 1, 2),  # only the worst in load is out
        ("delay", 100, 4),
        ("delay", 75, 2),
        ("delay", 1, 3),
    ],
)
def test_priority_and_weight(priority: str, weight: float, broker: int) -> None:
    """4.2: who lies beyond 100 - weight in the first metric is dropped, then the other metric decides."""
    assert choose(CANDIDATES, 1, priority, weight).broker == broker


def test_staying_is_preferred_among_equals_and_below_the_gain() -> None:
    equal = [Candidate(broker, 100, 1.0) for broker in (1, 2, 3)]
    assert relocation_target(equal, 3, "load", 100) == 3
    close = [Candidate(1, 97, 1.0), Candidate(2, 100, 1.0)]
    assert relocation_target(close, 2, "load", 100, gain=0.0) == 1
    assert relocation_target(close, 2, "load", 100, gain=0.05) == 2


def test_the_first_broker_is_a_candidate() -> None:
    nodes = line(["1111", "0001"])
    assert [c.broker for c in Evaluation(nodes, 1).run()] == [1, 2]


def test_delay_model() -> None:
    """Algorithm 1 has no link latency; `latency` counts half a round trip in the output delay."""
    traces = [
        BrokerTrace(1, "a", (), (NeighbourDelay(2, 0.25, 4.0),), b"\x80", 1, 0.5, 0.125, 0.0),
        BrokerTrace(2, "b", (), (NeighbourDelay(1, 0.25, 4.0), NeighbourDelay(9, 0, 0)), b"\x80", 1, 0, 0, 0),
    ]
    assert nodes_of(traces, "paper")[1].delays == {2: 0.875}
    assert nodes_of(traces, "latency")[1].delays == {2: 2.875}
    assert nodes_of(traces, "paper")[2].delays == {1: 0.25}  # 9 did not answer


def test_selection_is_linear_in_the_brokers() -> None:
    """4.2 is quadratic. Calls are counted and not timed: the times are the claim `relocation.figures`."""
    few, many = (calls(Evaluation(random_tree(Random(1), brokers), 1).run) for brokers in (63, 630))
    assert many <= 11 * few


def test_a_thousand_brokers_are_bounded_pieces() -> None:
    """Also for one broker with 500 neighbours, and for a chain: no piece stalls the loop."""
    for nodes in (random_tree(Random(2), brokers=1_000), star_and_chain(500)):
        evaluation = Evaluation(nodes, 1)
        pieces = [calls(evaluation.step)]
        while len(evaluation.candidates) < len(nodes):
            pieces.append(calls(evaluation.step))
        assert len(pieces) > 3 * len(nodes) // PIECE
        assert max(pieces) <= 100 * PIECE, max(pieces)


def calls(work: Callable[[], object]) -> int:
    """How many functions it calls, those of C too."""
    count = 0

    def see(frame: object, event: str, argument: object) -> None:
        nonlocal count
        count += event in ("call", "c_call")

    sys.setprofile(see)
    try:
        work()
    finally:
        sys.setprofile(None)
    return count


# --- trees -------------------------------------------------------------------------------------------------


def node(
    broker: int, bits: str, deliveries: int, neighbours: list[int], delay_s: float, local_s: float
) -> Node:
    return Node(broker, bitarray(bits), deliveries, dict.fromkeys(neighbours, delay_s), local_s)


def line(
    vectors: list[str], deliveries: list[int] | None = None, delay_s: float = 1.0, local_s: float = 0.0
) -> dict[int, Node]:
    """Brokers 1, 2, ... in a row."""
    counts = deliveries or [vector.count("1") for vector in vectors]
    last = len(vectors)
    return {
        n: node(
            n, vectors[n - 1], counts[n - 1], [m for m in (n - 1, n + 1) if 1 <= m <= last], delay_s, local_s
        )
        for n in range(1, last + 1)
    }


def random_tree(random: Random, brokers: int) -> dict[int, Node]:
    neighbours: dict[int, list[int]] = {1: []}
    for broker in range(2, brokers + 1):
        parent = random.randint(max(1, broker // 3), broker - 1)
        neighbours[broker] = [parent]
        neighbours[parent].append(broker)
    return {
        broker: Node(
            broker,
            bitarray([random.random() < 0.3 for _ in range(100)]),
            random.randint(1, 500),
            {other: random.random() for other in neighbours[broker]},
            random.random(),
        )
        for broker in neighbours
    }


def star_and_chain(size: int) -> dict[int, Node]:
    links = [(1, other) for other in range(2, size + 1)]
    links += [(other, other + 1) for other in range(size, 2 * size)]
    neighbours: dict[int, list[int]] = {broker: [] for broker in range(1, 2 * size + 1)}
    for one, other in links:
        neighbours[one].append(other)
        neighbours[other].append(one)
    return {broker: node(broker, "10" * 50, 1, around, 1.0, 0.0) for broker, around in neighbours.items()}
