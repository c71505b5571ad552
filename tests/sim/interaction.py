"""Interaction files: a script of what is done to a few brokers, and below each step what they took and said.

    publish sender 1 2 3
    ----
    b0
      <- sender: Publish at=1 1 2 3
      ...

`pytest tests/sim/test_interactions.py --rewrite` writes the files anew; the change is read as a diff.
"""

from __future__ import annotations

from pathlib import Path

from grapevine.wire.identity import identify
from overlay.relocate.migration import Migration
from overlay.softlinks.move_commands import MoveCommands
from tests.sim.stories import Story
from tests.sim.transcript import Transcript
from tools.simulator.broker import BrokerHost
from tools.simulator.clients import ClientHost
from tools.simulator.tables import behaviour

RULE = "----"


class Interaction:
    """The steps; each is a method whose name is the first word of a line."""

    def __init__(self) -> None:
        self.clients: dict[str, ClientHost] = {}

    def perform(self, script: str) -> list[str]:
        word, *words = script.split()
        said = getattr(self, f"do_{word}")(*words)
        return [*self.transcript.take(), *(said or [])] or ["ok"]

    def broker(self, name: str) -> BrokerHost:
        return next(broker for broker in self.story.brokers if broker.name == name)

    # --- the world ----------------------------------------------------------------------------------

    def do_brokers(self, count: str, delta: str = "1") -> None:
        """b0 - b1 - b2 - ..., each the parent of the next; what they say while they start is not shown."""
        self.story = Story(int(count), delta=int(delta))
        self.transcript = Transcript(self.story.watcher)
        self.transcript.on = False
        for broker in self.story.brokers:
            self.transcript.follow(broker)
        self.story.begin()
        self.story.run_for(2.0)
        self.transcript.on = True

    def do_publisher(self, name: str, broker: str) -> None:
        self.transcript.names.add(name)
        self.clients[name] = self.story.publisher(name, int(broker[1:]))
        self.story.run_for(0.2)

    def do_subscriber(self, name: str, broker: str, *filter: str) -> None:
        self.transcript.names.add(name)
        client = self.clients[name] = self.story.client(name, int(broker[1:]))
        subscription = self.story.subscribe(client, " ".join(filter))
        self.story.wait(lambda: subscription.confirmed)
        self.story.run_for(0.2)

    def do_quietly(self, *words: str) -> None:
        self.transcript.on = False
        self.perform(" ".join(words))
        self.transcript.on = True

    # --- what happens -------------------------------------------------------------------------------

    def do_publish(self, name: str, *xs: str) -> None:
        """And nothing else yet: `run` or `settle` follow."""
        self.clients[name].publish(*({"x": int(x)} for x in xs))

    def do_run(self, milliseconds: str, _: str = "ms") -> None:
        self.story.run_for(int(milliseconds) / 1000)

    def do_settle(self) -> list[str]:
        """Until everything published is settled and the brokers are one tree, and half a second more."""
        story = self.story
        staying = sum(not broker.left for broker in story.brokers)
        story.wait(
            lambda: (
                all(client.idle for client in self.clients.values()) and story.oracle.reach.is_tree(staying)
            )
        )
        story.run_for(0.5)
        return story.judged()

    def do_received(self, name: str) -> list[str]:
        return [" ".join(map(str, self.story.received(self.clients[name])))]

    def do_leave(self, name: str) -> None:
        self.broker(name).leave()
        self.story.wait(lambda: self.broker(name).left)

    def do_crash(self, name: str) -> None:
        self.story.crash(self.broker(name))

    def do_start(self, name: str) -> None:
        self.broker(name).start()

    def do_break(self, one: str, other: str) -> None:
        """The transport breaks, and both sides hear of it."""
        end = self.story.link(int(one[1:]), int(other[1:]))
        self.story.network.break_connection(end, told=True, other_told=True)

    def do_wall(self, name: str, milliseconds: str, _: str = "ms") -> None:
        """Nothing passes between this broker with its clients and the others."""
        host = self.broker(name)
        assert host.core is not None
        inside = [client for who, client in self.clients.items() if identify(who) in host.core.clients]
        self.story.wall(host, *inside, seconds=int(milliseconds) / 1000)

    def do_move(self, name: str, _: str, parent: str) -> None:
        host = self.broker(name)
        assert host.core is not None
        commands = behaviour(host.core, MoveCommands)
        assert not commands.move(identify(parent), host.clock())
        host.wake()
        self.story.wait(lambda: commands.moves.moved == 1)

    def do_migrate(self, name: str, _: str, target: str) -> None:
        story, client = self.story, identify(name)
        source = next(b for b in story.brokers if b.core is not None and client in b.core.clients)
        assert source.core is not None
        story.faults.relocate(source, source.core.clients[client], self.broker(target))
        assert behaviour(source.core, Migration).departures
        there = self.broker(target).core
        assert there is not None
        story.wait(lambda: client in there.clients)


def steps(text: str) -> list[tuple[str, str]]:
    """Comment blocks stand by themselves: (comment, "")."""
    return [
        (block, "") if block.startswith("#") else (block.split(f"\n{RULE}")[0], RULE)
        for block in text.strip().split("\n\n")
    ]


def performed(text: str) -> str:
    """The same script with what happens now."""
    interaction = Interaction()
    blocks = []
    for script, rule in steps(text):
        blocks.append("\n".join([script, rule, *interaction.perform(script)]) if rule else script)
    return "\n\n".join(blocks) + "\n"


def check(path: Path, rewrite: bool) -> None:
    text = path.read_text()
    now = performed(text)
    if rewrite:
        path.write_text(now)
    else:
        assert now == text, f"{path.name}: other words than written; --rewrite, then read the diff"
