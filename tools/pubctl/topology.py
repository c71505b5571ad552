"""The topology file: which brokers there are, how they are connected, which clients use them.

The same file runs on one host (`pubctl local`), in tests and on many hosts. `neighbours` names brokers of
the file, or gives addresses; every mistake is collected and told at once.
"""

from __future__ import annotations

import tomllib
from collections.abc import Callable, Iterable
from pathlib import Path
from random import Random
from typing import Any, Literal

import msgspec

from daemon.settings.keys import table
from tools.pubctl.failure import USAGE, Failure

PORT = 7470
Sections = dict[str, dict[str, Any]]
RING_MEMBERS = 5  # of a ring are its first ones, unless chord.members says who
PLAIN_KEYS = ("name", "host", "listen", "neighbours", "start_s")


class Generate(msgspec.Struct, forbid_unknown_fields=True):
    shape: Literal["tree", "line", "star", "random"] = "tree"
    brokers: int = 7
    fanout: int = 2
    prefix: str = "b"
    seed: int = 1  # of a random shape

    def parents(self) -> list[int | None]:
        """The parent of each broker, the root first."""
        chance = Random(self.seed)
        choose: dict[str, Callable[[int], int]] = {
            "tree": lambda n: (n - 1) // self.fanout,
            "line": lambda n: n - 1,
            "star": lambda n: 0,
            "random": lambda n: chance.randrange(max(0, n - 4 * self.fanout), n),
        }
        return [None if number == 0 else choose[self.shape](number) for number in range(self.brokers)]


class ClientPlan(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    kind: Literal["publisher", "subscriber", "driver"]  # a driver runs the channels of its broker
    broker: str
    name: str = ""
    filter: str = ""  # a subscriber's; a publisher's advertisement
    attributes: dict[str, str | int | float | bool] = {}
    payload_bytes: int = 0
    rate: float = 1.0  # publications a second
    count: int = 0  # 0: until it is stopped
    start_s: float = 0.0  # after all brokers are ready
    master: str = ""  # a driver's: of Spark
    python: str = "python3"  # at the host, with Spark for a driver

    def words(self, address: str) -> list[str]:
        """What pubctl is told to be this client."""
        words = ["-q", "-b", address]
        if self.kind == "driver":
            return [*words, "channel", "serve", *(("--master", self.master) if self.master else ())]
        after = ["--after", f"{self.start_s}s", "--name", self.name]
        if self.kind == "subscriber":
            return [*words, "-o", "jsonl", "sub", *after, "--", self.filter or "true"]
        words += ["pub", "--yes", *after, "--rate", str(self.rate), "--count", str(self.count)]
        words += ["--payload-bytes", str(self.payload_bytes)]
        words += ["--advertise", self.filter] if self.filter else []
        return [*words, "--", *(f"{key}={_written(value)}" for key, value in self.attributes.items())]


class BrokerPlan(msgspec.Struct):
    name: str
    host: str = "127.0.0.1"
    listen: list[str] = []
    neighbours: list[str] = []
    start_s: float = 0.0  # not before, counted from the start of the first
    sections: Sections = {}

    @property
    def address(self) -> str:
        return self.listen[0]


class Topology(msgspec.Struct):
    brokers: list[BrokerPlan]
    clients: list[ClientPlan]
    defaults: Sections = {}

    def broker(self, name: str) -> BrokerPlan:
        return next(broker for broker in self.brokers if broker.name == name)

    def settings(self, broker: BrokerPlan) -> Sections:
        """The configuration of one broker, without what depends on where it runs."""
        merged: Sections = {section: dict(values) for section, values in self.defaults.items()}
        for section, values in broker.sections.items():
            merged.setdefault(section, {}).update(values)
        own = merged.setdefault("broker", {})
        own.update(name=broker.name, listen=broker.listen)
        if backend := self._back_end(broker, own):
            own["backend"] = backend
        if merged.get("overlay", {}).get("kind") == "chord":
            ring = merged.setdefault("chord", {})
            ring.setdefault("members", [broker.address for broker in self.brokers[:RING_MEMBERS]])
        elif parents := [self._address(neighbour) for neighbour in broker.neighbours]:
            onehop = merged.get("overlay", {}).get("kind") == "onehop"
            section, key = ("onehop", "seeds") if onehop else ("tree", "neighbours")
            merged.setdefault(section, {})[key] = parents
        return merged

    def _back_end(self, broker: BrokerPlan, own: dict[str, Any]) -> str:
        """What it says, by name or address; else the one broker of the file that is a back end."""
        if said := str(own.get("backend", "")):
            return self._address(said)
        found = [b for b in self.brokers if "backend" in b.sections.get("broker", {}).get("roles", ())]
        return found[0].address if len(found) == 1 and found[0] is not broker else ""

    def _address(self, neighbour: str) -> str:
        return neighbour if "://" in neighbour else self.broker(neighbour).address

    def levels(self) -> list[list[BrokerPlan]]:
        """Roots first; a broker comes after those it dials. A ring waits for all its first members."""
        if any(self.settings(b).get("overlay", {}).get("kind") == "chord" for b in self.brokers):
            return [list(self.brokers)]
        left = list(self.brokers)
        done: set[str] = set()
        found = []
        while left:
            level = [b for b in left if all(n in done or "://" in n for n in b.neighbours)]
            level = level or left  # mutual neighbours: the order does not matter
            found.append(level)
            done |= {b.name for b in level}
            left = [b for b in left if b.name not in done]
        return found


def read(path: Path) -> Topology:
    try:
        content = tomllib.loads(path.read_text())
    except OSError as error:
        raise Failure(f"{path}: {error.strerror}", USAGE) from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise Failure(f"{path}: not TOML: {error}", USAGE) from None
    return build(content, str(path))


def build(content: dict[str, Any], place: str = "topology") -> Topology:
    """From parsed TOML; Failure lists every mistake with its place."""
    mistakes: list[str] = []
    known = ("generate", "port", "defaults", "broker", "client")
    mistakes += [f"{key}: unknown; there are {', '.join(known)}" for key in content if key not in known]
    brokers = _brokers(content, mistakes)
    _listen(brokers, content.get("port", PORT), mistakes)
    clients = _clients(content, mistakes)
    topology = Topology(brokers, clients, content.get("defaults", {}))
    mistakes += _section_mistakes("defaults", topology.defaults)
    mistakes += _contradictions(topology)
    if mistakes:
        raise Failure("\n".join(f"{place}: {mistake}" for mistake in mistakes), USAGE, mistakes=mistakes)
    return topology


def generated(generate: Generate) -> list[BrokerPlan]:
    names = [f"{generate.prefix}{number}" for number in range(1, generate.brokers + 1)]
    return [
        BrokerPlan(name, neighbours=[] if parent is None else [names[parent]])
        for name, parent in zip(names, generate.parents(), strict=True)
    ]


def _brokers(content: dict[str, Any], mistakes: list[str]) -> list[BrokerPlan]:
    brokers: list[BrokerPlan] = []
    if "generate" in content:
        generate = _convert(content["generate"], Generate, "generate", mistakes)
        if generate is not None and (generate.brokers < 1 or generate.fanout < 1):
            mistakes.append("generate: brokers and fanout are at least 1")
        elif generate is not None:
            brokers = generated(generate)
    generated_names = {broker.name for broker in brokers}
    given = content.get("broker", [])
    if not isinstance(given, list):
        mistakes.append("broker: write [[broker]], there are several")
        return brokers
    for number, one in enumerate(given, 1):
        plan = {key: value for key, value in one.items() if key in PLAIN_KEYS}
        own = {key: value for key, value in one.items() if key in table()["broker"] and key not in PLAIN_KEYS}
        sections = {key: value for key, value in one.items() if key not in (*PLAIN_KEYS, *own)}
        if own:  # roles and whatever else a broker says of itself
            sections["broker"] = own | sections.get("broker", {})
        if isinstance(plan.get("listen"), str):
            plan["listen"] = [plan["listen"]]
        made = _convert(plan, BrokerPlan, f"broker {one.get('name', number)}", mistakes)
        if made is not None:
            mistakes += _section_mistakes(f"broker {made.name}", sections)
            made.sections = sections
            _enter(made, brokers, generated_names)
    return brokers


def _clients(content: dict[str, Any], mistakes: list[str]) -> list[ClientPlan]:
    clients = []
    for number, each in enumerate(content.get("client", []), 1):
        plan = _convert(each, ClientPlan, f"client {number}", mistakes)
        if plan is not None:
            plan.name = plan.name or f"{plan.kind}{number}"
            clients.append(plan)
    return clients


def _written(value: str | int | float | bool) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    return f"'{value}'" if isinstance(value, str) else str(value)


def _enter(made: BrokerPlan, brokers: list[BrokerPlan], replaceable: set[str]) -> None:
    """A broker that is written down may say more about a generated one."""
    for index, old in enumerate(brokers):
        if old.name == made.name and made.name in replaceable:
            replaceable.discard(made.name)
            made.neighbours = made.neighbours or old.neighbours
            brokers[index] = made
            return
    brokers.append(made)


def _listen(brokers: Iterable[BrokerPlan], port: Any, mistakes: list[str]) -> None:
    """Who does not say where it listens gets the next port."""
    if isinstance(port, bool) or not isinstance(port, int) or not 0 < port < 65_536:
        mistakes.append("port: a number from 1 to 65535")
        return
    taken = {address for broker in brokers for address in broker.listen}
    for broker in brokers:
        if not broker.listen:
            while (address := f"tcp://{broker.host}:{port}") in taken:
                port += 1
            taken.add(address)
            broker.listen = [address]


def _convert(value: Any, kind: Any, where: str, mistakes: list[str]) -> Any:
    try:
        return msgspec.convert(value, kind)
    except msgspec.ValidationError as error:
        mistakes.append(f"{where}: {error}")
        return None


def _section_mistakes(where: str, sections: Any) -> list[str]:
    known = table()
    if not isinstance(sections, dict):
        return [f"{where}: sections of a configuration"]
    found = []
    for section, values in sections.items():
        if section not in known or not isinstance(values, dict):
            found.append(f"{where}: {section} is no section of a configuration ({', '.join(known)})")
        else:
            found += [f"{where}: unknown key {section}.{key}" for key in values if key not in known[section]]
    return found


def _contradictions(topology: Topology) -> list[str]:
    names = [broker.name for broker in topology.brokers]
    found = [] if names else ["no brokers: write [[broker]] or generate = { ... }"]
    found += [f"broker {name}: there are two" for name in sorted({n for n in names if names.count(n) > 1})]
    for broker in topology.brokers:
        found += [
            f"broker {broker.name}: no broker {neighbour}"
            for neighbour in broker.neighbours
            if "://" not in neighbour and neighbour not in names
        ]
        backend = str(broker.sections.get("broker", {}).get("backend", ""))
        if backend and "://" not in backend and backend not in names:
            found.append(f"broker {broker.name}: no broker {backend} to be its back end")
        if broker.name in broker.neighbours:
            found.append(f"broker {broker.name}: its own neighbour")
    found += [f"client {c.name}: no broker {c.broker}" for c in topology.clients if c.broker not in names]
    everybody: list[BrokerPlan | ClientPlan] = [*topology.brokers, *topology.clients]
    found += [f"{one.name}: start_s is no time before the start" for one in everybody if one.start_s < 0]
    of_clients = [client.name for client in topology.clients]
    found += [
        f"client {n}: there are two" for n in sorted({n for n in of_clients if of_clients.count(n) > 1})
    ]
    found += [f"client {n}: a broker has this name" for n in of_clients if n in names]
    return found
