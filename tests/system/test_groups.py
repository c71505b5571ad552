"""Groups, requests and replies on real daemons. `make proof` runs the kills over more messages."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import chain
from pathlib import Path

import pytest

import grapevine
from tests.system.overlay import ROOT, Daemon, Overlay, eventually
from tests.system.test_pubctl import Pubctl

JOBS = int(os.environ.get("GRAPEVINE_GROUP_JOBS", "2000"))
MEMBERS = 10


@pytest.fixture(scope="module")
def overlay(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Overlay]:
    with Overlay(tmp_path_factory.mktemp("groups"), security={"curve": False}) as overlay:
        overlay.start("b1")
        overlay.start("b2", "b1")
        overlay.start("b3", "b2")
        yield overlay


def connect(daemon: Daemon, name: str, **options: object) -> grapevine.Client:
    return grapevine.connect(daemon.address, name=name, keys=False, **options)  # type: ignore[arg-type]


def test_each_message_goes_to_one_member_wherever_it_is(overlay: Overlay) -> None:
    clients = [connect(overlay[name], f"worker at {name}") for name in ("b1", "b2", "b3")]
    members = [client.subscribe("n > 0", group="workers", in_flight=4) for client in clients]
    assert len({member.home for member in members}) == 1, "one home, whoever asked first"
    writer = connect(overlay["b3"], "writer")
    for number in range(1, 61):
        writer.publish({"n": number})
    writer.flush(10)
    got: list[list[int]] = [[] for _ in members]
    eventually(lambda: (_take(members, got), sum(map(len, got)) >= 60)[1])
    assert sorted(chain.from_iterable(got)) == list(range(1, 61)), "each once"
    assert all(len(part) >= 5 for part in got), "nobody is left out"
    for client in clients:
        client.close(0)
    for member in members:
        member.close()
    writer.close(0)


def _take(members: list[grapevine.GroupSubscription], got: list[list[int]]) -> None:
    for member, part in zip(members, got):
        part += [message.attributes["n"] for message in member.next_batch(2, 0.02)]  # type: ignore[union-attr]


def test_what_a_member_leaves_behind_another_gets(overlay: Overlay) -> None:
    one, two = connect(overlay["b1"], "one"), connect(overlay["b3"], "two")
    first = one.subscribe("p > 0", group="pair", ack="explicit")
    writer = connect(overlay["b2"], "writer")
    for number in range(1, 11):
        writer.publish({"p": number})
    writer.flush(10)
    held = [first.next(5) for _ in range(10)]
    assert [message.attributes["p"] for message in held if message] == list(range(1, 11))
    second = two.subscribe("p > 0", group="pair", ack="explicit")
    assert second.next(0.5) is None, "all of it is under way to the other"
    for message in held[:4]:
        message.ack()  # type: ignore[union-attr]
    first.flush(10)
    first._client.close(0)
    again = [second.next(10) for _ in range(6)]
    assert sorted(m.attributes["p"] for m in again if m) == list(range(5, 11))
    assert all(m.redelivered for m in again if m)
    with pytest.raises(grapevine.NotAllowed, match="the group pair reads"):
        two.subscribe("p > 5", group="pair", timeout=10)
    with pytest.raises(grapevine.NotAllowed, match="name of a group"):
        connect(overlay["b1"], "three").subscribe("p > 0", durable="pair", timeout=10)
    for client in (one, two, writer):
        client.close(0)
    second.close()


def test_kills_under_load_each_message_counts_for_one_member(overlay: Overlay, tmp_path: Path) -> None:
    processes, files = [], []
    for index in range(MEMBERS):
        address = overlay[f"b{index % 3 + 1}"].address
        files.append(tmp_path / f"member-{index}")
        with open(files[-1], "wb") as out:
            command = [sys.executable, "-m", "tests.system.member", address, f"m{index}", "crew"]
            processes.append(subprocess.Popen(command, cwd=ROOT, stdout=out))
    try:
        eventually(lambda: all("ready" in file.read_text() for file in files), 60)
        writer = connect(overlay["b2"], "writer")
        for number in range(1, JOBS + 1):
            writer.publish({"job": number}, durable=True)
            if number in (JOBS // 4, JOBS // 2, JOBS * 3 // 4):
                writer.flush(30, until="accepted")
                processes[number * 4 // JOBS].kill()
        writer.flush(60)

        def done() -> bool:
            processed = {line for file in files for line in file.read_text().splitlines() if line[:1] == "P"}
            living = [file for file, process in zip(files, processes) if process.poll() is None]
            waiting = [
                f
                for f in living
                if Counter(line[:1] for line in f.read_text().splitlines())["P"]
                > Counter(line[:1] for line in f.read_text().splitlines())["C"]
            ]
            return len(processed) == JOBS and not waiting

        eventually(done, 120, 0.5)
    finally:
        for process in processes:
            process.kill()
            process.wait()
    writer.close(0)
    _judge(files, killed=[1, 2, 3])


def _judge(files: list[Path], killed: list[int]) -> None:
    counted: Counter[str] = Counter()
    processed: dict[str, set[int]] = {}
    for index, file in enumerate(files):
        for line in file.read_text().splitlines():
            kind, _, job = line.partition(" ")
            assert kind in ("P", "C", "ready"), line
            if kind == "C":
                counted[job] += 1
            elif kind == "P":
                processed.setdefault(job, set()).add(index)
    assert len(processed) == JOBS, "everything was processed"
    assert all(times == 1 for times in counted.values()), "counts for one member only"
    alone = [job for job in processed if not counted[job]]
    assert all(processed[job] & set(killed) for job in alone), "who was told nothing was killed"


def test_a_request_has_its_reply_and_nobody_is_told_at_once(overlay: Overlay) -> None:
    asker, server = connect(overlay["b1"], "asker"), connect(overlay["b3"], "server")
    began = time.monotonic()
    with pytest.raises(grapevine.NoResponders):
        asker.request({"service": "square", "x": 3}, timeout=30)
    assert time.monotonic() - began < 10, "not by waiting"
    service = server.subscribe("service = 'square'")
    asker.advertise("exists service")
    for x in (3, 4):
        server_side = _later(asker, {"service": "square", "x": x})
        question = service.next(10)
        assert question is not None
        question.reply({"is": question.attributes["x"] ** 2}, b"done")
        reply = server_side()
        assert (reply.attributes["is"], reply.payload, reply.publisher) == (x * x, b"done", "server")
    with pytest.raises(grapevine.Timeout, match="no reply"):
        asker.request({"service": "square", "x": 5}, timeout=0.3)
    server.publish({"anything": 1})  # replying has not taken its implicit advertisement
    server.flush(10)
    asker.flush(10)  # what nobody answered is told to who asked, not here
    watch = asker.subscribe("anything > 0")
    server.publish({"anything": 3})
    message = watch.next(10)
    assert message is not None
    with pytest.raises(grapevine.Invalid, match="no request"):
        message.reply()
    asker.close(0)
    server.close(0)


def _later(client: grapevine.Client, attributes: dict[str, object]):  # type: ignore[no-untyped-def]
    pool = ThreadPoolExecutor(1)
    future = pool.submit(client.request, attributes, b"", 20)
    return lambda: (future.result(20), pool.shutdown())[0]


def test_asyncio_asks_answers_and_works_in_groups(overlay: Overlay) -> None:
    async def main() -> None:
        connected = grapevine.aio.connect(overlay["b1"].address, name="a", keys=False)
        other = grapevine.aio.connect(overlay["b3"].address, name="b", keys=False)
        async with connected as asker, other as server:
            with pytest.raises(grapevine.NoResponders):
                await asker.request({"service": "echo"}, timeout=30)
            members = [await server.subscribe("service = 'echo'", group="echoes") for _ in range(2)]

            async def serve(member: grapevine.client.groups.AsyncGroupSubscription) -> int:
                served = 0
                async for message in member:
                    await message.reply({}, message.payload)  # type: ignore[union-attr]
                    served += 1
                    await member.flush(10)
                return served

            tasks = [asyncio.ensure_future(serve(member)) for member in members]
            asked = (asker.request({"service": "echo"}, b"%d" % n, timeout=20) for n in range(20))
            replies = await asyncio.gather(*asked)
            assert [reply.payload for reply in replies] == [b"%d" % n for n in range(20)]
            for member in members:
                await member.close()
            assert sum(await asyncio.gather(*tasks)) == 20

    asyncio.run(asyncio.wait_for(main(), 60))


def test_last_values_come_first_and_then_what_is_new(overlay: Overlay) -> None:
    pubctl = Pubctl(overlay["b1"].keys)
    pubctl("stream", "add", "quotes", "exists quote", "--key", "symbol", "--yes", "-b", "b3")
    writer, reader = connect(overlay["b2"], "quotes"), connect(overlay["b1"], "screen")
    for price in range(30):
        writer.publish({"quote": price, "symbol": "ABC"[price % 3]})
    writer.flush(10)
    latest = reader.subscribe("quote >= 0", last=True)
    first = [latest.next(10) for _ in range(3)]
    assert [message.attributes["quote"] for message in first if message] == [27, 28, 29]
    writer.publish({"quote": 100, "symbol": "A"})
    assert latest.next(10).attributes["quote"] == 100  # type: ignore[union-attr]
    assert latest.next(0.3) is None
    one = reader.subscribe("quote >= 0 and symbol = 'B'", last=True)
    assert one.next(10).attributes == {"quote": 28, "symbol": "B"}  # type: ignore[union-attr]
    for price in range(1000):  # who does not read skips what is overtaken
        writer.publish({"quote": 200 + price, "symbol": "C"})
    writer.flush(10)
    overlay["b3"].kill()
    overlay["b3"].start().ready()
    again = connect(overlay["b2"], "other").subscribe("quote >= 0", last=True, timeout=30)
    kept = {m.attributes["symbol"]: m.attributes["quote"] for m in (again.next(10) for _ in range(3)) if m}
    assert kept == {"A": 100, "B": 28, "C": 1199}
    lines = pubctl(
        "sub", "quote >= 0", "--last", "--count", "3", "--format", "{attributes.quote}", "-b", "b1"
    )
    assert sorted(lines.split()) == ["100", "1199", "28"]
    with pytest.raises(grapevine.NotAllowed, match="stream add"):
        reader.subscribe("nothing = 1", last=True)
    for subscription in (latest, one, again):
        subscription.close()
    reader.close(0)
    writer.close(0)


def test_pubctl_asks_answers_and_shares(overlay: Overlay) -> None:
    pubctl = Pubctl(overlay["b1"].keys)
    assert pubctl.json("request", "ask=upper", "-b", "b1", code=6)["error"]["code"] == "not-found"
    words = (
        "reply",
        "ask = 'upper'",
        "--command",
        "tr a-z A-Z",
        "--group",
        "uppers",
        "--count",
        "2",
        "-b",
        "b3",
    )
    server = pubctl.start(*words)
    eventually(lambda: pubctl.json("stream", "ls")["rows"] and _ask(pubctl) == "HELLO", 60, 0.5)
    assert _ask(pubctl) == "HELLO"
    assert "2 answered" in server.communicate(timeout=60)[1]


def _ask(pubctl: Pubctl) -> str:
    ended = subprocess.run(
        pubctl.command("request", "ask=upper", "--payload", "hello", "--raw", "-t", "20", "-b", "b1"),
        capture_output=True,
        text=True,
        env=pubctl.environment,
    )
    return ended.stdout
