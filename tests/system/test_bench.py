"""The benchmarks themselves, at a size that says nothing about speed: they run and they verify."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
import zmq

from bench import guard, report
from bench.bars import judge
from bench.broker import machine, run
from bench.content import Content, c1, c1_equality, form, quotes, text
from bench.features import interval
from bench.probing import delay, delays, probe
from bench.running import Wrong, measure
from bench.systems.base import Outcome, Ready, Workload
from bench.systems.grapevine import Grapevine
from bench.systems.raw import Forged
from bench.systems.zmtp import BUFFER_BYTES, Zmtp
from bench.workloads import Topics, topic_workloads
from daemon import packing
from daemon.receiving import Receiver
from grapevine.client.keys import Entry, write_entry
from grapevine.filters import parse
from grapevine.filters.evaluate import matches
from matching import kernel
from overlay.data import runs

ROOT = Path(__file__).resolve().parents[2]


def test_forms_are_what_the_parser_makes() -> None:
    for content in (c1(20, 1), c1_equality(20, 1), quotes(20, 1, 1, None)):
        for triples in content.filters:
            assert form(triples) == parse(text(triples))


def test_the_brute_force_agrees_with_the_language() -> None:
    content = c1(200, 50, connections=3)
    for publication, found in zip(content.publications, content.matching, strict=True):
        filters = enumerate(content.filters)
        assert found == [n for n, triples in filters if matches(form(triples), publication)]
    assert content.matches == sum(map(len, content.matching)) > content.copies > 0
    assert 0.5 < content.matches / (200 * 50) * 100 < 2, "about one in a hundred"


def test_topics_count_what_each_subscriber_gets() -> None:
    for workload in topic_workloads(0.01).values():
        assert sum(workload.expected) == workload.publications * (10 if workload.name == "T3" else 1)


@pytest.mark.parametrize("name", ["T1", "T2", "T3"])
def test_topics_through_a_broker(name: str) -> None:
    figure = measure(Grapevine(), topic_workloads(0.01)[name]._replace(publications=1_000))
    assert figure.deliveries_s > 0 and figure.publications_s > 0
    assert 0.1 < figure.broker_us_per_msg < 1_000, (
        "finer than ticks: a thousand publications take less than one"
    )


class Twice(Grapevine):
    """Its publisher sends more than the subscribers expect."""

    def publish(self, workload: Workload, go: Callable[[], None]) -> None:
        assert isinstance(workload, Topics)
        super().publish(workload._replace(publications=2 * workload.publications), go)


def test_deliveries_too_many_are_seen() -> None:
    with pytest.raises(Wrong, match="too many"):
        measure(Twice(), topic_workloads(0.01)["T3"]._replace(publications=1_000))


@pytest.mark.parametrize("curve", [False, True])
def test_content_is_verified_per_subscriber(curve: bool) -> None:
    if curve:
        pytest.importorskip("nacl", reason="needs the group `bench`")
    content = c1(100, 200, connections=5)
    assert measure(Grapevine(curve=curve), content).publications_s > 0
    number = next(n for n, found in enumerate(content.matching) if found)
    other = [list(found) for found in content.matching]
    other[number][0] += content.connections  # the same connection, another subscription
    with pytest.raises(Wrong, match="something else"):
        measure(Grapevine(curve=curve), Content("wrong", content.filters, 5, content.publications, other))


@pytest.mark.parametrize("libzmq", [False, True])
def test_curve_and_a_chain(libzmq: bool) -> None:
    if not libzmq:
        pytest.importorskip("nacl", reason="needs the group `bench`")
    workload = topic_workloads(0.01)["T2"]._replace(publications=1_000)
    assert measure(Grapevine("both", brokers=2, curve=True, libzmq=libzmq), workload).deliveries_s > 0


class Touched(Grapevine):
    """One bit of every long frame that its subscribers get is another one, far behind what is counted."""

    def subscribe(self, workload: Workload, ready: Ready) -> Outcome:
        from bench.systems.curve import SHORT_BYTES, Curve

        class Touching(Curve):
            def frames(self) -> list[memoryview]:
                frames = super().frames()
                for frame in frames:
                    if len(frame) >= SHORT_BYTES:
                        frame[-1] ^= 1
                return frames

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("bench.systems.curve.Curve", Touching)
            return super().subscribe(workload, ready)


def test_deliveries_that_are_not_authentic_are_seen() -> None:
    pytest.importorskip("nacl", reason="needs the group `bench`")
    workload = topic_workloads(0.01)["T1"]._replace(publications=1_000)
    with pytest.raises(Wrong, match="not authentic"):
        measure(Touched(curve=True), workload)


def test_delays_of_every_publication(tmp_path: Path) -> None:
    system = Grapevine()
    system.start(tmp_path)
    try:
        asked = probe(system)
        assert asked is not None
        found = delays(asked, 500, 100)
    finally:
        system.stop()
    assert len(found) == 100 and min(found) > 0
    assert 0 < delay(found).p50_us <= delay(found).p99_us


def beating_router(context: zmq.Context[zmq.Socket[bytes]]) -> zmq.Socket[bytes]:
    router = context.socket(zmq.ROUTER)
    router.setsockopt(zmq.HEARTBEAT_IVL, 50)
    router.setsockopt(zmq.HEARTBEAT_TIMEOUT, 200)
    return router


def curve_by_hand(router: zmq.Socket[bytes], keys: Path) -> Zmtp:
    pytest.importorskip("nacl", reason="needs the group `bench`")
    from bench.systems.curve import Curve

    public, secret = zmq.curve_keypair()
    router.curve_server, router.curve_secretkey = True, secret
    address = f"tcp://127.0.0.1:{router.bind_to_random_port('tcp://127.0.0.1')}"
    write_entry(keys, Entry("router", public.decode(), (address,)))
    return Curve(address, keys)


@pytest.mark.parametrize("curve", [False, True])
def test_zmtp_by_hand_is_understood_by_libzmq(curve: bool, tmp_path: Path) -> None:
    """Frames of every length both ways, and heartbeats that would otherwise end the connection."""
    context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
    router = beating_router(context)
    if curve:
        wire = curve_by_hand(router, tmp_path)
    else:
        wire = Zmtp(f"tcp://127.0.0.1:{router.bind_to_random_port('tcp://127.0.0.1')}")
    bodies = [b"", b"a" * 255, b"b" * 256, b"c" * (3 * BUFFER_BYTES), b"end"]
    prepared = [wire.prepare(body) for body in bodies]
    quiet = time.monotonic() + 0.6
    while time.monotonic() < quiet:
        if wire.poll(0.05):
            assert wire.frames() == []
    for each in prepared:
        wire.send(each)
        wire.say(b"between")
    got = [router.recv_multipart() for _ in bodies for _ in range(2)]
    assert [body for _, body in got[::2]] == bodies and {body for _, body in got[1::2]} == {b"between"}
    for identity, body in got[::2]:
        router.send_multipart((identity, body))
    back: list[memoryview | bytes] = []
    while len(back) < len(bodies) and wire.poll(5):
        for frame in wire.frames():
            assert wire.open(frame)[:20] == wire.peek(frame)[:20]
            back.append(wire.keep(frame))
    assert [bytes(wire.open(frame)) for frame in back] == bodies
    router.close(0)
    assert wire.poll(5)
    with pytest.raises(ConnectionError):
        wire.frames()
    context.destroy(0)


def test_a_bit_that_was_changed_on_the_way_is_seen(tmp_path: Path) -> None:
    context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
    wire = curve_by_hand(router := beating_router(context), tmp_path)
    wire.say(b"hello")
    identity = router.recv_multipart()[0]
    for body in (b"short", b"long" * 1_000):
        router.send_multipart((identity, body))
        frames: list[memoryview] = []
        while not frames and wire.poll(5):
            frames = wire.frames()
        assert wire.open(frames[0]) == body
        frames[0][-1] ^= 1
        with pytest.raises(Forged, match="not authentic"):
            wire.open(frames[0])
    context.destroy(0)


def test_the_document_of_the_broker_bench() -> None:
    result = run(["T2"], ["nats"], 1, 0.01, None)
    assert result["schema"] == "bench.broker/1"
    systems = {row["system"] for row in result["rows"]} | {gap["system"] for gap in result["missing"]}
    ours = {"grapevine", "grapevine-curve", "grapevine-libzmq", "grapevine-libzmq-curve"}
    assert systems == ours | {"nats"}
    keys = {"system", "version", "workload", "deliveries_s", "publications_s", "p50_us", "p99_us"}
    assert keys | {"broker_us_per_msg", "ratio_to_nats"} <= result["rows"][0].keys()


def test_what_curve_keeps_is_of_the_same_clients_without_it() -> None:
    rates = {"grapevine": 400, "grapevine-curve": 200, "grapevine-libzmq": 300, "grapevine-libzmq-curve": 120}
    rows = [
        {"system": system, "workload": "T2", "deliveries_s": rate, "broker_us_per_msg": 100 / rate}
        for system, rate in rates.items()
    ]
    assert "| grapevine-curve | T2 | grapevine | 0.50 | 2.00 |" in report.kept(rows)
    assert "| grapevine-libzmq-curve | T2 | grapevine-libzmq | 0.40 | 2.50 |" in report.kept(rows)
    values = {bar.claim: value for bar, value, _ in judge({"rows": rows})}
    assert values["T2 kept with CURVE"] == 0.5 and values["T1 kept with CURVE"] is None
    assert report.kept(rows[::2]) == ""


def test_figures_without_the_compiled_loops_say_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runs, "compiled", None)
    assert "without the compiled loops" in report.machine({"machine": machine()})
    assert "compiled" not in report.machine({"machine": machine() | {"compiled": True}})


def test_an_unknown_workload_is_refused() -> None:
    command = [sys.executable, "-m", "bench.broker", "--workloads", "T9"]
    ended = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert ended.returncode == 2 and "T9" in ended.stderr and not ended.stdout


@pytest.mark.parametrize("compiled", [True, False])
def test_counted_work_repeats_and_is_what_was_committed(
    compiled: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not compiled:
        monkeypatch.setattr(kernel, "module", None)
        monkeypatch.setattr(runs, "compiled", None)
        monkeypatch.setattr(packing, "compiled", None)
    committed = json.loads(guard.COMMITTED.read_text()).get(guard.variant())
    if committed is None:
        pytest.skip("no figures were committed for this Python")
    found = {name: guard.count(name) for name in guard.WORKLOADS}
    assert found["T1"] == guard.count("T1")
    assert not guard.compare(found, committed)


@pytest.mark.parametrize("part", ["hand_over", "take"])
def test_one_call_more_a_publication_is_counted(part: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """In what a turn does, and for each frame: publications' and acknowledgements'."""
    before = {"T2": guard.count("T2")}
    done = getattr(Receiver, part)

    def more(*arguments: object) -> object:
        for _ in range(guard.BATCH * guard.FRAMES_A_TURN if part == "hand_over" else guard.BATCH):
            len("")
        return done(*arguments)

    monkeypatch.setattr(Receiver, part, more)
    assert len(guard.compare({"T2": guard.count("T2")}, before)) == 2


def test_the_guard_notices_more_work() -> None:
    before = {"T1": {"bytecodes": 50.0, "calls": 2.0}}
    assert not guard.compare({"T1": {"bytecodes": 51.4, "calls": 2.0}}, before)
    assert len(guard.compare({"T1": {"bytecodes": 51.6, "calls": 2.3}}, before)) == 2
    assert guard.compare({"T9": {"bytecodes": 1.0}}, before)


def test_the_interval_holds_the_mean() -> None:
    middle, half = interval([1.0, 2.0, 3.0, 4.0, 5.0])
    assert middle == 3.0 and half == pytest.approx(2.776 * 1.5811 / 5**0.5, rel=1e-3)
