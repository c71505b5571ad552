"""What one key alone cannot say: addresses, keys that need each other, and what this version lacks.

Each check yields (key, text); the text ends with what to do.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from daemon.settings.sections import Settings, Tree
from daemon.settings.values import toml_value
from grapevine.wire.onehop import DIMENSIONS_MAX
from overlay.chord.topics import Unusable, terms_of

Found = Iterator[tuple[str, str]]

# Values that the configuration knows and this version does not serve yet.
UNAVAILABLE: dict[str, tuple[object, ...]] = {
    "delivery_log.content": (True,),
}
ORDERED, UNORDERED = ("S0", "SD", "SH"), ("S0", "S1", "S2", "SH")
_TCP = re.compile(r"tcp://(?P<host>\[[0-9a-fA-F:.%\w]+\]|[^:/\s\[\]]+):(?P<port>\d+|\*)")
IPC_BYTES = 107  # of a path, the kernel's limit


def check(settings: Settings) -> Found:
    yield from _names(settings)
    yield from _addresses(settings)
    yield from _softlinks(settings)
    yield from _onehop(settings)
    yield from _sizes(settings)
    yield from _channels(settings)
    yield from _available(settings)
    yield from _http(settings)
    yield from _ring(settings)


def address_mistake(address: str, listening: bool) -> str:
    """What is wrong with an address; empty if nothing."""
    if address.startswith("ipc://"):
        return path_mistake(address)
    found = _TCP.fullmatch(address)
    if found is None:
        return f"{address!r} is neither tcp://host:port nor ipc://path"
    port = found["port"]
    if port == "*" or int(port) == 0:
        return "" if listening else f"{address!r} has no port to connect to"
    if int(port) > 65_535:
        return f"{address!r}: ports end at 65535"
    if found["host"] == "*" and not listening:
        return f"{address!r} has no host to connect to"
    return ""


def path_mistake(address: str) -> str:
    path = address.removeprefix("ipc://")
    if not path or not path.startswith(("/", "@")):
        return f"{address!r}: write the whole path, from /"
    if len(path.encode()) > IPC_BYTES:
        return (
            f"the path is {len(path.encode())} bytes long and the system takes {IPC_BYTES}: use a shorter one"
        )
    return ""


def _names(settings: Settings) -> Found:
    name = settings.broker.name
    if len(name.encode()) > 255 or any(c.isspace() or c in "/\\" or not c.isprintable() for c in name):
        yield "broker.name", f"{name!r}: letters, digits and punctuation but no slash or space, 255 bytes"
    elif name in (".", ".."):
        yield "broker.name", f"{name!r} is no name"


def _addresses(settings: Settings) -> Found:
    broker = settings.broker
    if not broker.listen:
        yield "broker.listen", "no address: nobody could connect; give one, such as tcp://127.0.0.1:7470"
    for address in broker.listen:
        if mistake := address_mistake(address, listening=True):
            yield "broker.listen", mistake
    for address in broker.addresses:
        if mistake := address_mistake(address, listening=False):
            yield "broker.addresses", mistake
    if len(set(broker.listen)) != len(broker.listen):
        yield "broker.listen", "an address stands here twice"
    for address in settings.tree.neighbours:
        if mistake := address_mistake(address, listening=False):
            yield "tree.neighbours", mistake
        elif address in broker.listen:
            yield "tree.neighbours", f"{address!r} is this broker's own address in broker.listen"
    if broker.control and not broker.control.startswith("ipc://"):
        yield "broker.control", f"{broker.control!r}: only ipc://path, because file permissions guard it"
    elif broker.control and (mistake := path_mistake(broker.control)):
        yield "broker.control", mistake
    if broker.coordinator and (mistake := address_mistake(broker.coordinator, listening=False)):
        yield "broker.coordinator", mistake


def _softlinks(settings: Settings) -> Found:
    strategy, ordered = settings.softlinks.strategy, settings.overlay.ordered
    allowed = ORDERED if ordered else UNORDERED
    if strategy not in allowed:
        said = f"overlay.ordered = {str(ordered).lower()}"
        yield "softlinks.strategy", f"{strategy!r} does not go with {said}; there: {', '.join(allowed)}"


def _onehop(settings: Settings) -> Found:
    roles, onehop = set(settings.broker.roles), settings.onehop
    if settings.overlay.kind != "onehop":
        for role in sorted(roles & {"dispatcher", "matcher"}):
            yield "broker.roles", f'"{role}" is for overlay.kind = "onehop"; here: "broker"'
        return
    if not roles <= {"dispatcher", "matcher"}:
        yield "broker.roles", 'with overlay.kind = "onehop" give "dispatcher", "matcher" or both'
    if not 1 <= len(onehop.dimensions) <= DIMENSIONS_MAX:
        yield "onehop.dimensions", f"1 to {DIMENSIONS_MAX} attributes, such as those most often asked for"
    if len(set(onehop.dimensions)) != len(onehop.dimensions):
        yield "onehop.dimensions", "an attribute stands here twice"
    if onehop.delivery == "matcher" and settings.overlay.ordered:
        yield "onehop.delivery", '"matcher" keeps no order: set overlay.ordered = false, or leave "ask"'
    for address in onehop.seeds:
        if mistake := address_mistake(address, listening=False):
            yield "onehop.seeds", mistake
    if not onehop.seeds and "matcher" not in roles:
        yield "onehop.seeds", "a dispatcher needs the address of a member: give that of the first matcher"


def _sizes(settings: Settings) -> Found:
    if settings.links.batch_bytes > settings.transport.frame_bytes:
        yield "links.batch_bytes", f"over transport.frame_bytes = {settings.transport.frame_bytes}"
    if settings.links.lost_after_s < settings.links.ping_s:
        yield "links.lost_after_s", f"shorter than links.ping_s = {settings.links.ping_s:g}"


def _ring(settings: Settings) -> Found:
    """Sections of one overlay in another's configuration are mistakes, not wishes."""
    chord = settings.overlay.kind == "chord"
    for address in settings.chord.members:
        if mistake := address_mistake(address, listening=False):
            yield "chord.members", mistake
    try:
        terms_of(settings.topics.by)
    except Unusable as error:
        yield "topics.by", str(error).removeprefix("topics.by: ")
    if chord and settings.tree != Tree():
        yield "tree", 'this section is for overlay.kind = "tree": remove it, a ring has chord.members'
    if chord and settings.softlinks.strategy != "S0":
        yield "softlinks.strategy", 'soft links are for overlay.kind = "tree": leave it at "S0"'
    if chord and settings.relocation.algorithm != "off":
        yield "relocation.algorithm", 'publishers move on overlay.kind = "tree" only: leave it "off"'
    if chord and not settings.overlay.ordered:
        yield "overlay.ordered", "a ring keeps the order of each publisher and topic: leave it true"
    if settings.overlay.kind != "tree" and settings.journal.copies != 1:
        yield "journal.copies", 'a second copy is kept on overlay.kind = "tree" only: leave it 1'
    if settings.journal.copies != 1 and not settings.journal.enabled:
        yield "journal.copies", "there is nothing to copy without journal.enabled"
    if not chord and settings.chord.members:
        yield (
            "chord.members",
            f'for overlay.kind = "chord", which is {toml_value(settings.overlay.kind)} here',
        )


def _channels(settings: Settings) -> Found:
    broker = settings.broker
    if "backend" in broker.roles and (settings.overlay.kind != "tree" or "broker" not in broker.roles):
        yield "broker.roles", '"backend" goes with "broker", on the overlay "tree"'
    if broker.backend and (mistake := address_mistake(broker.backend, listening=False)):
        yield "broker.backend", mistake
    if broker.location and not (len(broker.location) == 2 and abs(broker.location[0]) <= 90):
        yield "broker.location", "latitude and longitude in degrees, such as [60.17, 24.94]"
    if any(abs(degrees) > 180 for degrees in broker.location):
        yield "broker.location", "degrees are within 180"
    if settings.balancing.mode != "off" and "coordinator" not in broker.roles:
        yield "balancing.mode", 'is for the broker whose roles hold "coordinator"'


def _available(settings: Settings) -> Found:
    for path, absent in UNAVAILABLE.items():
        section, key = path.split(".")
        value = getattr(getattr(settings, section), key)
        for word in value if isinstance(value, tuple) else (value,):
            if word in absent:
                yield path, f"{toml_value(word)} is not in this version"


def _http(settings: Settings) -> Found:
    listen = settings.http.listen
    host, colon, port = listen.rpartition(":")
    if listen and (not colon or not host or not port.isdigit() or int(port) > 65_535):
        yield "http.listen", f"{listen!r} is not host:port, such as 127.0.0.1:9470"
