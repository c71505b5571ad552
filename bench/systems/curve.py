"""ZMTP 3.1 with CURVE by hand (CurveZMQ, rfc.zeromq.org/spec/26): a broker that encrypts, without clients that compete with
it for the cores.

What a publisher sends is encrypted before the clock starts. Of a delivery only the beginning is decrypted while the clock
runs, which is what a raw client reads of it; all of it is authenticated when the clock has stopped (`open`), so
that a broker which sends rubbish is found out.
"""  # noqa: E501

from __future__ import annotations

from pathlib import Path

import nacl.bindings as sodium
from nacl.exceptions import CryptoError
from zmq.utils import z85

from bench.systems.raw import Forged
from bench.systems.zmtp import BUFFER_BYTES, READY, Zmtp, framed
from grapevine.client.keys import client_keys, find_server

MESSAGE = b"\x07MESSAGE"
COMMAND = 2  # inside of a message, where outside of it is 4
MAC_BYTES = 16
MAC_AT = len(MESSAGE) + 8
TEXT_AT = MAC_AT + MAC_BYTES
HEAD_BYTES = 64  # of a message: all that comes before a delivery's publications, and more
SHORT_BYTES = 256  # commands are shorter
LEAST_BYTES = 1 << 16  # to receive
NONCES_BETWEEN = 1 << 20  # two prepared frames, for what is said meanwhile: nonces only grow


def _nonce(prefix: bytes, number: int) -> bytes:
    return prefix + number.to_bytes(8, "big")


def _after(name: bytes, body: bytes) -> bytes:
    assert body.startswith(name), body[:64]
    return body[len(name) :]


class Curve(Zmtp):
    """`keys` is the keys directory. What is received stays where it came to, for later; `room` bytes are there for it
    from the beginning: asking the system for them took more time than decrypting."""  # noqa: E501

    mechanism = b"CURVE"

    def __init__(self, address: str, keys: Path, room: int = 0) -> None:
        pair = client_keys(keys)
        self._public, self._secret = z85.decode(pair.public), z85.decode(pair.secret)
        self._server = z85.decode(find_server(keys, address).public)
        self._sent = self._heard = self._prepared = 0  # the last nonces
        super().__init__(address, max(room, BUFFER_BYTES))

    # --- handshake -----------------------------------------------------------------------------------

    def _shake_hands(self, metadata: bytes) -> None:
        public, secret = sodium.crypto_box_keypair()
        self._hello(public, secret)
        welcome = _after(b"\x07WELCOME", self._answer())
        nonce = b"WELCOME-" + welcome[:16]
        opened = sodium.crypto_box_open_easy(welcome[16:], nonce, self._server, secret)
        server, cookie = opened[:32], opened[32:]
        self._key = sodium.crypto_box_beforenm(server, secret)
        self._initiate(public, server, cookie, metadata)
        ready = _after(READY, self._answer())
        self._open(ready[8:], b"CurveZMQREADY---" + ready[:8])
        self._heard = int.from_bytes(ready[:8], "big")

    def _hello(self, public: bytes, secret: bytes) -> None:
        """Our key for this connection, and that we have the secret one to it."""
        self._sent += 1
        nonce = _nonce(b"CurveZMQHELLO---", self._sent)
        box = sodium.crypto_box_easy(bytes(64), nonce, self._server, secret)
        self._command_frame(b"\x05HELLO\x01\x00" + bytes(72) + public + nonce[16:] + box)

    def _initiate(self, public: bytes, server: bytes, cookie: bytes, metadata: bytes) -> None:
        """Who we are, vouched for by our lasting key."""
        vouched = b"VOUCH---" + sodium.randombytes(16)
        vouch = sodium.crypto_box_easy(public + self._server, vouched, server, self._secret)
        self._sent += 1
        nonce = _nonce(b"CurveZMQINITIATE", self._sent)
        box = sodium.crypto_box_easy_afternm(self._public + vouched[8:] + vouch + metadata, nonce, self._key)
        self._command_frame(b"\x08INITIATE" + cookie + nonce[16:] + box)

    # --- messages --------------------------------------------------------------------------------------

    def prepare(self, frame: bytes) -> bytes:
        self._prepared += NONCES_BETWEEN
        return self._sealed(b"\x00" + frame, self._prepared)

    def send(self, prepared: bytes) -> None:
        begin = prepared.index(MESSAGE, 0, 32) + len(MESSAGE)
        self._sent = int.from_bytes(prepared[begin : begin + 8], "big")
        super().send(prepared)

    def say(self, frame: bytes) -> None:
        self.send(self._sealed(b"\x00" + frame, self._sent + 1))

    def _sealed(self, text: bytes, number: int) -> bytes:
        nonce = _nonce(b"CurveZMQMESSAGEC", number)
        return framed(MESSAGE + nonce[16:] + sodium.crypto_box_easy_afternm(text, nonce, self._key))

    def frames(self) -> list[memoryview]:
        """As they came: `peek` and `open` read them."""
        return [frame for frame in super().frames() if not self._attended(frame)]

    def keep(self, frame: memoryview) -> memoryview:
        return frame

    def _make_room(self) -> None:
        if len(self._buffer) - self._end < LEAST_BYTES:
            self._move(memoryview(bytearray(max(BUFFER_BYTES, 2 * (self._end - self._begin)))))

    def _attended(self, frame: memoryview) -> bool:
        """Whether it was a command; and that it is no frame of before."""
        assert frame[: len(MESSAGE)] == MESSAGE, bytes(frame[:32])
        number = int.from_bytes(frame[len(MESSAGE) : MAC_AT], "big")
        if number <= self._heard:
            raise Forged(f"nonce {number} after {self._heard}")
        self._heard = number
        if len(frame) >= SHORT_BYTES:
            return False
        text = self._text(frame)
        if not text[0] & COMMAND:
            return False
        if pong := self.pong(text[1:]):
            self.send(self._sealed(bytes((COMMAND,)) + pong, self._sent + 1))
        return True

    def peek(self, frame: memoryview) -> memoryview:
        """Its beginning, not authenticated: the cipher adds to a text what it makes of zeros."""
        if len(frame) < SHORT_BYTES:
            return self.open(frame)
        zeros = sodium.crypto_box_easy_afternm(bytes(HEAD_BYTES), self._nonce_of(frame), self._key)
        stream = int.from_bytes(zeros[MAC_BYTES:], "big")
        sealed = int.from_bytes(frame[TEXT_AT : TEXT_AT + HEAD_BYTES], "big")
        return memoryview((stream ^ sealed).to_bytes(HEAD_BYTES, "big"))[1:]

    def open(self, frame: memoryview | bytes) -> memoryview:
        return memoryview(self._text(frame))[1:]

    def _text(self, frame: memoryview | bytes) -> bytes:
        return self._open(bytes(frame[MAC_AT:]), self._nonce_of(frame))

    def _open(self, box: bytes, nonce: bytes) -> bytes:
        try:
            return sodium.crypto_box_open_easy_afternm(box, nonce, self._key)
        except CryptoError:
            raise Forged("a frame is not authentic") from None

    @staticmethod
    def _nonce_of(frame: memoryview | bytes) -> bytes:
        return b"CurveZMQMESSAGES" + bytes(frame[len(MESSAGE) : MAC_AT])
