"""Named mistakes of requests and replies (see mutants.py)."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from typing import Any

from grapevine.client.session.inbox import INBOX, REPLY_TO, Inbox
from grapevine.client.session.message import Message
from grapevine.filters.normal import Value
from overlay.data.path import Publications

Replacement = tuple[Any, str, Any]


def to_who_asked_before() -> list[Replacement]:
    """A reply goes to the inbox of the request that was answered before."""
    reply = Inbox.reply
    before: dict[Inbox, Value] = {}

    def astray(self: Inbox, message: Message, attributes: Mapping[str, Value]) -> dict[str, Value]:
        answer = reply(self, message, attributes)
        last, before[self] = before.get(self, answer[INBOX]), message.attributes[REPLY_TO]
        return {**answer, INBOX: last}

    return [(Inbox, "reply", astray)]


def taken_by_whoever_waits() -> list[Replacement]:
    """The number of a reply is not looked at."""

    def careless(self: Inbox, queue: deque[Message]) -> int:
        for message in queue:
            waiting = next((number for number, reply in self.waiting.items() if reply is None), None)
            if waiting is not None:
                self.waiting[waiting] = message
        return len(queue)

    return [(Inbox, "sort", careless)]


def advertised_once() -> list[Replacement]:
    """Who was refused when it first replied may never reply."""
    reply = Inbox.reply

    def once(self: Inbox, message: Message, attributes: Mapping[str, Value]) -> dict[str, Value]:
        state = self._answers
        if state is None or state.request.error is None:
            return reply(self, message, attributes)
        error, state.request.error = state.request.error, None
        try:
            return reply(self, message, attributes)
        finally:
            state.request.error = error

    return [(Inbox, "reply", once)]


def never_said() -> list[Replacement]:
    """Who asks waits for its time to be over although nobody is there."""
    return [(Publications, "_answerable", lambda self, client, publications, known, record: known)]


REQUEST_MUTANTS = {
    "reply-to-who-asked-before": to_who_asked_before,
    "reply-taken-by-whoever-waits": taken_by_whoever_waits,
    "reply-advertised-once": advertised_once,
    "no-responders-never-said": never_said,
}
