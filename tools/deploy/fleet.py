"""The brokers of a topology on their hosts: what is put there, started, asked and removed, over ssh.

At a host everything lies under one directory: `image-<digest>` (packages), and per host name the keys and one
directory a broker (configuration, state, log, pid). A client of the topology has one at its broker's host.
Each step can be said again: what is there already stays. Key pairs are made here, so that every host knows
every broker from the start.
"""

from __future__ import annotations

import base64
import io
import ipaddress
import json
import tarfile
from pathlib import Path
from shlex import quote

import msgspec

from grapevine.client.keys import Entry, KeyPair, client_keys, load_or_create
from tools.deploy.hosts import Host, Trouble
from tools.deploy.image import STAMP_CODE, Image, stamp
from tools.deploy.units import CHANNELS, UNITS, deployed_channels
from tools.pubctl.crew import toml
from tools.pubctl.topology import BrokerPlan, ClientPlan, Sections, Topology

READY_S = 40
STOP_S = 20
UNIT_READY_S = 320  # Java has to start, and the lease of a driver that was killed has to end
CLIENT_SECRET = "user.client.secret"  # where a client looks for its key


class Fleet:
    def __init__(self, topology: Topology, directory: str, local: Path, keys: Path) -> None:
        self.topology = topology
        self.directory = directory  # at the hosts
        self.local = local  # key pairs of the brokers
        self.operator = Entry("operator", client_keys(keys).public, (), "client")

    @property
    def hosts(self) -> list[str]:
        return list(dict.fromkeys(broker.host for broker in self.topology.brokers))

    def at(self, host: str) -> list[BrokerPlan]:
        return [broker for broker in self.topology.brokers if broker.host == host]

    def clients_at(self, host: str) -> list[ClientPlan]:
        return [c for c in self.topology.clients if self.topology.broker(c.broker).host == host]

    def home(self, host: str) -> str:
        return f"{self.directory}/{host}"

    def place(self, broker: BrokerPlan) -> str:
        return f"{self.home(broker.host)}/{broker.name}"

    # --- keys and configurations ----------------------------------------------------------------------

    def pair(self, broker: BrokerPlan) -> KeyPair:
        return load_or_create(self.local / f"{broker.name}.secret")

    def entries(self) -> list[Entry]:
        return [Entry(b.name, self.pair(b).public, (b.address,)) for b in self.topology.brokers]

    def client_pair(self) -> KeyPair:
        """One for all clients of the topology."""
        return load_or_create(self.local / CLIENT_SECRET)

    def configuration(self, broker: BrokerPlan) -> str:
        sections: Sections = self.topology.settings(broker)
        own = sections.setdefault("broker", {})
        own["addresses"] = [broker.address]
        own["listen"] = [_bindable(address) for address in broker.listen]
        own["state_dir"] = f"{self.place(broker)}/state"
        sections.setdefault("security", {})["keys"] = f"{self.home(broker.host)}/keys"
        return toml(sections)

    def files(self, host: str) -> dict[str, bytes]:
        """What a host's own directory holds before the brokers start."""
        made = {f"keys/{e.name}.{e.kind}.toml": _written(e) for e in [*self.entries(), self.operator]}
        for broker in self.at(host):
            made[f"{broker.name}/grapevined.toml"] = self.configuration(broker).encode()
            made[f"{broker.name}/state/key.secret"] = _written(self.pair(broker))
        if self.topology.clients:
            entry = Entry("user", self.client_pair().public, (), "client")
            made["keys/user.client.toml"] = _written(entry)
            made[f"keys/{CLIENT_SECRET}"] = _written(self.client_pair())
        return made

    # --- steps at one host ----------------------------------------------------------------------------

    async def check(self, host: Host) -> str:
        found = (await host.run(f'python3 -c "{STAMP_CODE}"')).strip()
        if found != stamp():
            raise Trouble(f"has Python {found}, here is {stamp()}: the packages would not fit")
        place = quote(self.directory)
        owned = f"test -O {place} -a -w {place} || {{ echo {place} is not ours >&2; exit 1; }}"
        await host.run(f"umask 077; mkdir -p {place}; {owned}")
        return found

    async def install(self, host: Host, image: Image) -> str:
        await self.check(host)
        place = f"{self.directory}/image-{image.digest}"
        there = await host.run(f"test -e {quote(place)}/.whole && echo yes || echo no")
        if there.strip() == "no":
            part = f"{place}.{host.name}"
            unpack = f"mkdir -p {quote(part)} && tar -xz -C {quote(part)} && touch {quote(part)}/.whole"
            move = f"(mv -T {quote(part)} {quote(place)} 2>/dev/null || rm -rf {quote(part)})"
            await host.run(f"{unpack} && {move}", image.archive, timeout_s=300)
        home = quote(self.home(host.name))
        unpack = f"umask 077; mkdir -p {home} && tar -xz -C {home}"
        await host.run(f"{unpack} && ln -sfn {quote(place)} {home}/image", packed(self.files(host.name)))
        return "same" if there.strip() == "yes" else "new"

    async def start(self, host: Host, broker: BrokerPlan) -> str:
        """Start it unless it runs, and wait until it is ready."""
        image = quote(f"{self.home(host.name)}/image")
        script = f"""cd {quote(self.place(broker))} || exit 1
{_RUNS}
if ! runs; then
  mv -f log log.before 2>/dev/null
  PYTHONPATH=$(readlink -f {image}) setsid python3 -P -m daemon.main \\
    --config "$PWD/grapevined.toml" > log 2>&1 < /dev/null &
  echo $! > pid
fi
for i in $(seq {READY_S * 5}); do
  grep -q 'ready after' log && exit 0
  kill -0 $(cat pid) || {{ tail -n 1 log >&2; exit 1; }}
  sleep 0.2
done
echo 'not ready within {READY_S} s' >&2; exit 1"""
        await host.run(script, timeout_s=READY_S + 20)
        return "running"

    async def start_client(self, host: Host, client: ClientPlan) -> str:
        """Once: one that has done its work is not started again, but for a driver, whose work has no end."""
        if client.kind == "driver" and (await host.run(_MANAGED)).strip() == "yes":
            return await self.start_unit(host, client)
        home = quote(self.home(host.name))
        words = " ".join(map(quote, self.words(client)))
        script = f"""mkdir -p {home}/{quote(client.name)} && cd {home}/{quote(client.name)} || exit 1
{_RUNS}
{"runs" if client.kind == "driver" else "[ -e pid ]"} && exit 0
PYTHONPATH=$(readlink -f {home}/image) GRAPEVINE_KEYS={home}/keys \\
  setsid {words} > log 2>&1 < /dev/null &
echo $! > pid"""
        await host.run(script)
        return "started"

    def words(self, client: ClientPlan) -> list[str]:
        """With which it is started at its host."""
        address = self.topology.broker(client.broker).address
        return [client.python, "-P", "-m", "tools.pubctl.main", *client.words(address)]

    async def start_unit(self, host: Host, client: ClientPlan) -> str:
        """The driver of channels as a unit of the host's systemd, which starts it again when it dies. It is
        ready when it has its lease."""
        home, place = self.home(host.name), f"{self.home(host.name)}/{client.name}"
        environment = {"PYTHONPATH": f"{home}/image", "GRAPEVINE_KEYS": f"{home}/keys"}
        text = deployed_channels(place, self.words(client), environment)
        unit = f"/{UNITS}/{CHANNELS}"
        script = f"""mkdir -p {quote(place)} && cd {quote(place)} || exit 1
if [ -e {unit} ] && [ "$(head -n 1 {unit})" != {quote(text.partition(chr(10))[0])} ]; then
  echo {unit} is of another installation: remove it first >&2; exit 1
fi
printf %s {quote(text)} > {unit}.new && mv {unit}.new {unit} && echo {CHANNELS} > unit || exit 1
systemctl daemon-reload && systemctl start {CHANNELS} && exit 0
tail -n 1 log >&2; exit 1"""
        await host.run(script, timeout_s=UNIT_READY_S)
        return "running"

    async def stop(self, host: Host, name: str) -> str:
        """A broker or a client."""
        script = f"""cd {quote(self.home(host.name))}/{quote(name)} 2>/dev/null || {{ echo absent; exit 0; }}
{_RUNS}
if [ -e unit ]; then
  systemctl stop $(cat unit); rm -f /{UNITS}/$(cat unit) unit
  systemctl daemon-reload; echo ended; exit 0
fi
runs || {{ echo ended; exit 0; }}
kill -TERM $(cat pid)
for i in $(seq {STOP_S * 10}); do runs || {{ echo ended; exit 0; }}; sleep 0.1; done
kill -KILL $(cat pid); echo killed"""
        return (await host.run(script, timeout_s=STOP_S + 60)).strip()

    async def state(self, host: Host, name: str) -> str:
        place = f"{quote(self.home(host.name))}/{quote(name)}"
        script = f"cd {place} 2>/dev/null || {{ echo absent; exit 0; }}\n{_RUNS}\n"
        script += "if [ -e unit ]; then systemctl is-active --quiet $(cat unit); else runs; fi"
        return (await host.run(script + " && echo running || echo ended")).strip()

    async def remove(self, host: Host) -> None:
        """All that was put there, and the packages with the last of those who share the directory."""
        root = quote(self.directory)
        rest = f"ls {root} 2>/dev/null | grep -qv '^image-' || rm -rf {root}"
        await host.run(f"rm -rf {quote(self.home(host.name))}; {rest}", timeout_s=120)

    async def log(self, host: Host, broker: BrokerPlan, lines: int) -> str:
        return await host.run(f"{_inside(self.place(broker))}; tail -n {lines} log")

    async def archive(self, host: Host) -> bytes:
        """Logs and delivery logs, without any key."""
        pick = "find . -name log -o -name log.before -o -path '*/deliveries/*.jsonl'"
        script = f"{_inside(self.home(host.name))}; {pick} | tar -cz -T - | base64 -w 0"
        return base64.b64decode(await host.run(script, timeout_s=300))


# Whether a driver can be a unit of systemd there.
_MANAGED = '[ -d /run/systemd/system ] && [ "$(id -u)" = 0 ] && echo yes || echo no'
# A pid file may be older than the process that has its number now.
_RUNS = """runs() {
  [ -e pid ] && [ "$(readlink /proc/$(cat pid)/cwd)" = "$(pwd -P)" ]
} 2>/dev/null"""


def _inside(place: str) -> str:
    nothing = f"echo nothing is deployed in {quote(place)}: pubctl deploy up starts it >&2"
    return f"cd {quote(place)} 2>/dev/null || {{ {nothing}; exit 1; }}"


def packed(files: dict[str, bytes]) -> bytes:
    content = io.BytesIO()
    with tarfile.open(fileobj=content, mode="w:gz") as archive:
        for name, data in files.items():
            entry = tarfile.TarInfo(name)
            entry.size, entry.mode = len(data), 0o600
            archive.addfile(entry, io.BytesIO(data))
    return content.getvalue()


def _written(content: Entry | KeyPair) -> bytes:
    fields = msgspec.to_builtins(content)
    return "".join(f"{key} = {json.dumps(value)}\n" for key, value in fields.items()).encode()


def _bindable(address: str) -> str:
    """A broker is told to others by its host's name, and listens on all of its addresses."""
    scheme, _, rest = address.partition("://")
    host, _, port = rest.rpartition(":")
    try:
        ipaddress.ip_address(host.strip("[]"))
    except ValueError:
        return f"{scheme}://*:{port}" if scheme == "tcp" else address
    return address
