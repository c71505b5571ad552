"""An overlay that keeps publications and has no streams says so to whoever asks for one."""

from __future__ import annotations

from grapevine.wire.streams import StreamRequest, StreamState
from overlay.behaviour import Quiet
from overlay.core import Core
from overlay.data.client import Client


class NoStreams(Quiet):
    def __init__(self, text: str) -> None:
        self.text = text

    def attach(self, core: Core) -> None:
        self.core = core
        core.on(StreamRequest, self.on_request)

    def on_request(self, client: Client, message: StreamRequest, now: float) -> None:
        self.core.tell(StreamState(message.request, "not-allowed", text=self.text), client)
