"""Requests and their replies: ordinary publications, matched by two attributes.

A request says where its reply is to go (`reply.to`) and which one it is (`reply.id`); a reply goes to
`reply.inbox` with the same number. Who asks has one subscription for all its replies, who answers one
advertisement; both are made when they are first needed. A reply that nobody waits for any more is dropped.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping

from grapevine.client.session.advertised import AdvertisementState
from grapevine.client.session.message import Message
from grapevine.client.session.session import Session
from grapevine.errors import Invalid, NoResponders
from grapevine.filters import parse
from grapevine.filters.normal import Value

REPLY_TO, REPLY_ID, INBOX = "reply.to", "reply.id", "reply.inbox"
REPLIES = parse(f"exists {INBOX}")


class Inbox:
    """Of one session; `waiting` has who waits, by number, and what has come for it."""

    def __init__(self, session: Session) -> None:
        self.session = session
        self.address = f"{session.id:016x}.{session.incarnation:016x}"
        self.filter = parse(f"{INBOX} = '{self.address}'")
        self.waiting: dict[int, Message | None] = {}
        self._number = 0
        self._answers: AdvertisementState | None = None

    def addressed(self, attributes: Mapping[str, Value]) -> dict[str, Value]:
        """The attributes of the next request."""
        return {**attributes, REPLY_TO: self.address, REPLY_ID: self._number + 1}

    def ask(self, attributes: Mapping[str, Value], payload: bytes) -> tuple[int, int]:
        """The number of the request and its sequence; only while `can_publish`."""
        sequence = self.session.publish(self.addressed(attributes), payload, asks=True)
        self._number += 1
        self.waiting[self._number] = None
        return self._number, sequence

    def sort(self, queue: deque[Message]) -> int:
        """Replies from the subscription's queue to who waits; how many there were."""
        count = len(queue)
        for _ in range(count):
            message = queue.popleft()
            number = message.attributes.get(REPLY_ID)
            if isinstance(number, int) and self.waiting.get(number, message) is None:
                self.waiting[number] = message
        return count

    def answered(self, number: int, sequence: int) -> bool:
        if self.waiting[number] is not None:
            return True
        if self.session.cuts.alone(sequence):
            raise NoResponders("nobody has subscribed to this request")
        return False

    def reply(self, message: Message, attributes: Mapping[str, Value]) -> dict[str, Value]:
        """The attributes of the reply; its advertisement is made with the first, and again if it was refused:
        a broker does so while it takes a former process of ours to be alive."""
        asked = message.attributes
        if REPLY_TO not in asked or REPLY_ID not in asked:
            raise Invalid(f"{message} is no request: it does not say where a reply is to go")
        if self._answers is None or self._answers.request.error is not None:
            self._answers = self.session.advertise_also(REPLIES)
        return {**attributes, INBOX: asked[REPLY_TO], REPLY_ID: asked[REPLY_ID]}
