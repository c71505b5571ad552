"""A member leaves in good order: clients are sent elsewhere, segments handed on, and nothing unsettled is
left, neither in custody. A dispatcher that has streams stays: they are owed what is published, and an
administrator ends them first.

It ends when all others that live have acknowledged that it has left, and one at the least: durable
publications would wait for ever for a dispatcher that went without a word (`adopting`). They keep it on disk.
Whoever hears nobody for long ends all the same.
"""

from __future__ import annotations

from msgspec.structs import replace

from grapevine.wire.onehop import LEFT
from overlay.behaviour import Quiet
from overlay.clients.attachments import Attachments
from overlay.core import Core
from overlay.journal.streams import Streams
from overlay.onehop.asking import Asking
from overlay.onehop.cluster import Cluster
from overlay.onehop.handover import Handover
from overlay.onehop.segments import is_gone

LOOK_S = 0.1
PATIENCE_S = 5.0  # for clients to go; then they are ended
UNHEARD = 10  # times lost_after_s


class Leaving(Quiet):
    def __init__(
        self, cluster: Cluster, attachments: Attachments, asking: Asking, handover: Handover | None
    ) -> None:
        self.cluster, self.attachments, self.asking, self.handover = cluster, attachments, asking, handover
        self._since = self._left_at = 0.0
        self._stamp = 0  # since we have left
        self.streams: Streams | None = None  # set by the profile, as is the journal they are in

    def attach(self, core: Core) -> None:
        self.core = core

    def leave(self, now: float) -> None:
        if self.core.leaving:
            return
        if self.has_streams:
            self.core.event(now, "leaving", f"{self.core.name} stays: it has streams, end them first")
            return
        self.core.event(now, "leaving", f"{self.core.name} leaves the cluster")
        self.core.leaving = True
        self._since = now
        self.attachments.send_away(now)
        if self.handover is not None:
            self.handover.leave(now)
        self._look(now)

    @property
    def has_streams(self) -> bool:
        return self.streams is not None and bool(self.streams.sessions)

    def _look(self, now: float) -> None:
        if now - self._since > PATIENCE_S:
            for client in list(self.core.clients.values()):
                self.attachments.end(client, now)
        if not self._busy() and self._is_heard(now):
            self.core.finished = True
        else:
            self.core.timers.at(now + LOOK_S, self._look)

    def _is_heard(self, now: float) -> bool:
        """Whether the others know that we have left."""
        cluster = self.cluster
        if cluster.own.state != LEFT:
            self._left_at, self._stamp = now, cluster.stamp()
            cluster.change(replace(cluster.own, state=LEFT), now)
        others = [e for e in cluster.table.entries.values() if e.owner != self.core.id and e.state != LEFT]
        heard = {member for member, stamp in cluster.acknowledged.items() if stamp > self._stamp}
        for member in [cluster.get(entry.owner) for entry in others if entry.owner not in heard]:
            if member is not None and member.reachable:
                cluster.ask_to_acknowledge(member)
        if now - self._left_at > UNHEARD * self.core.settings.links.lost_after_s:
            self.core.note(now, f"{self.core.name} ends, and not everybody knows that it has left")
            return True
        living = [entry.owner for entry in others if not is_gone(entry)]
        return not others or (bool(heard) and heard.issuperset(living))

    def _busy(self) -> bool:
        if self.core.clients or self.core.numbered or self.asking.stages:
            return True
        if self.streams is not None and self.streams.journal.contents.custody.items:
            return True
        if self.handover is not None and not self.handover.gone:
            return True
        peers = self.core.peers.values()
        lanes = [lane for peer in peers for lane in peer.every_lane()]
        return any(lane.out.unsettled or lane.incoming.records for lane in lanes)
