"""Our own daemon by its own protocol: raw frames, with every duty of a client (credit, acknowledgement)."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path

import msgspec
import zmq

from bench.systems.base import Process, Ready, free_port
from bench.workloads import Topics
from grapevine.filters import EVERYTHING, Filter, parse
from grapevine.wire import decode, encode, encode_attributes, encode_publications, encode_publish, identify
from grapevine.wire.messages import (
    PROTOCOL,
    PROTOCOL_OLDEST,
    Attach,
    Attached,
    ClientAdvertise,
    ClientSubscribe,
    Deliver,
    Done,
    Marks,
    Message,
    Ping,
    Pong,
    Publication,
)

WINDOW = 1 << 20


class DeliverHead(msgspec.Struct, array_like=True):
    """The first fields of a Deliver; publications stay bytes, only counted."""

    epoch: int
    first: int
    received: int
    settled: int
    credit: int
    publications: msgspec.Raw


class Raw:
    """One client on one DEALER, as thin as the protocol allows."""

    def __init__(self, context: zmq.Context[zmq.Socket[bytes]], address: str, name: str) -> None:
        self.socket = context.socket(zmq.DEALER)
        self.socket.set_hwm(0)
        self.socket.linger = 0
        self.socket.connect(address)
        self.epoch = time.time_ns() >> 8
        self.taken = 0
        attach = Attach(PROTOCOL_OLDEST, PROTOCOL, name, identify(name), self.epoch, self.epoch, WINDOW, 0)
        self.send(attach)
        self.attached = self.expect(Attached)
        self.credit = self.attached.credit
        self.settled = 0

    def send(self, message: Message) -> None:
        self.socket.send(encode(message))

    def expect(self, kind: type[Message]) -> Message:
        while True:
            assert self.socket.poll(30_000), f"no {kind.__name__}"
            message = decode(self.socket.recv())
            if isinstance(message, kind):
                return message
            self.answer(message)

    def answer(self, message: Message) -> None:
        if isinstance(message, Ping):
            self.send(Pong(message.sent_at))
        elif isinstance(message, Marks):
            self.credit, self.settled = message.credit, message.settled

    def confirmed(self, message: Message) -> None:
        self.send(message)
        while self.expect(Done).outcome != "confirmed":
            pass

    def take(self, frame: bytes) -> int:
        """Count a delivery's publications and remember to acknowledge them."""
        if frame[0] != Deliver.kind:
            self.answer(decode(frame))
            return 0
        head = _HEAD.decode(memoryview(frame)[1:])
        body = memoryview(head.publications)
        code = body[0]
        count = code & 0x0F if code < 0xDC else int.from_bytes(body[1 : 3 if code == 0xDC else 5], "big")
        self.taken = head.first + count - 1
        return count

    def acknowledge(self) -> None:
        self.send(Marks(self.epoch, self.taken, self.taken, self.taken + WINDOW))


_HEAD = msgspec.msgpack.Decoder(DeliverHead)


class Grapevine(Process):
    name = "grapevine"

    def __init__(self, **sections: dict[str, object]) -> None:
        super().__init__()
        self.sections = sections

    def missing(self) -> str:
        return ""

    def version(self) -> str:
        return version("grapevine-broker")

    @property
    def address(self) -> str:
        return f"tcp://127.0.0.1:{self.port}"

    def start(self, directory: Path) -> None:
        self.port = free_port()
        name = f"bench{self.port}"
        lines = [
            "[broker]",
            f'name = "{name}"',
            f'listen = ["{self.address}"]',
            f'state_dir = "{directory / name}"',
            "[security]",
            "curve = false",
        ]
        for section, values in self.sections.items():
            lines.append(f"[{section}]")
            lines += [f"{key} = {value}" for key, value in values.items()]
        config = directory / f"{name}.toml"
        config.write_text("\n".join(lines) + "\n")
        self.run([sys.executable, "-m", "daemon.main", "--config", str(config)], Path.cwd(), "/dev/null")

    def run(self, command: list[str], directory: Path, log: str) -> None:
        self.process = subprocess.Popen(command, cwd=directory, stderr=subprocess.DEVNULL)

    def attributes(self, workload: Topics, index: int) -> bytes:
        return encode_attributes({"topic": workload.topic(index % workload.topics)})

    def subscribe(self, workload: Topics, ready: Ready) -> float:
        context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
        poller = zmq.Poller()
        clients, left = {}, {}
        for number, topics in enumerate(workload.subscribers):
            client = Raw(context, self.address, f"reader{number}")
            for label, topic in enumerate(topics, 1):
                wanted: Filter = parse(f"topic = '{workload.topic(topic)}'")
                client.confirmed(ClientSubscribe(label, label, wanted))
            poller.register(client.socket, zmq.POLLIN)
            clients[client.socket] = client
            left[client.socket] = workload.expected[number]
        ready()
        while left:
            events = poller.poll(60_000)
            if not events:
                raise TimeoutError(f"{sum(left.values())} deliveries never came")
            for ready_socket, _ in events:
                left_of = left.get(ready_socket, 0)
                client = clients[ready_socket]
                for _ in range(16):
                    try:
                        frame = ready_socket.recv(zmq.NOBLOCK)
                    except zmq.Again:
                        break
                    left_of -= client.take(frame)
                client.acknowledge()
                if left_of > 0:
                    left[ready_socket] = left_of
                else:
                    left.pop(ready_socket, None)
        end = time.monotonic()
        time.sleep(0.2)
        context.destroy(200)
        return end

    def publish(self, workload: Topics, go: Callable[[], None]) -> None:
        context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
        client = Raw(context, self.address, "writer")
        client.confirmed(ClientAdvertise(1, 1, EVERYTHING))
        batch, epoch, payload = workload.batch, client.epoch, workload.payload
        frames = []
        for first in range(0, workload.publications, batch):
            publications = [
                Publication(self.attributes(workload, i), payload, i + 1) for i in range(first, first + batch)
            ]
            frames.append(encode_publish(epoch, first + 1, encode_publications(publications)))
        socket, sent = client.socket, 0
        go()
        for frame in frames:
            while sent + batch > client.credit:
                client.answer(decode(socket.recv()))
            socket.send(frame)
            sent += batch
        while client.settled < sent:
            assert socket.poll(60_000), f"settled {client.settled} of {sent}"
            client.answer(decode(socket.recv()))
        context.destroy(0)
