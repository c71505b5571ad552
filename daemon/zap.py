"""Who may connect: the ZAP handler of this process, in a thread of its own.

It fails closed. A socket in the domain "keys" lets in authorised CURVE keys and nothing else; one in the
domain "wire" is a wire that the operator trusts (ipc, or security.curve = false). Any other domain, any
mechanism that does not belong to its domain, any malformed request and any error of ours is a refusal;
without this thread the sockets refuse everybody, since they enforce their domain. The user id of a
connection is its key in Z85.
"""

from __future__ import annotations

import threading

import zmq
from zmq.utils import z85

from daemon.keys import Keys
from daemon.logs import log

ADDRESS = "inproc://zeromq.zap.01"
DOMAIN_KEYS, DOMAIN_WIRE = b"keys", b"wire"
REQUEST_FRAMES = 6


class Gate(threading.Thread):
    def __init__(self, context: zmq.Context[zmq.Socket[bytes]], keys: Keys | None) -> None:
        super().__init__(name="zap", daemon=True)
        self._keys = keys
        self.refused = 0
        self._socket = context.socket(zmq.REP)
        self._socket.linger = 0
        self._socket.bind(ADDRESS)  # before any other socket exists

    def run(self) -> None:
        while True:
            try:
                request = self._socket.recv_multipart()
                self._socket.send_multipart(self._reply(request))
            except zmq.ContextTerminated:
                break
            except zmq.ZMQError as error:
                log.error("the door keeper failed and refuses everybody: %s", error)
                break
        self._socket.close(0)

    def _reply(self, request: list[bytes]) -> list[bytes]:
        number = request[1] if len(request) > 1 else b""
        try:
            user = self._user(request)
        except Exception as error:
            log.error("a connection was refused because the check failed: %s", error)
            user = None
        if user is None:
            self.refused += 1
            return [b"1.0", number, b"400", b"not authorised", b"", b""]
        return [b"1.0", number, b"200", b"OK", user, b""]

    def _user(self, request: list[bytes]) -> bytes | None:
        if len(request) < REQUEST_FRAMES or request[0] != b"1.0":
            return None
        domain, mechanism = request[2], request[5]
        if domain == DOMAIN_WIRE and mechanism == b"NULL":
            return b""
        if domain == DOMAIN_KEYS and mechanism == b"CURVE" and len(request) == REQUEST_FRAMES + 1:
            key = z85.encode(request[6])
            allowed = self._keys is not None and self._keys.allows(key.decode())
            return key if allowed else None
        return None
