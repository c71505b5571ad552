"""The keys directory: who may talk to whom on this machine, in files that a person can read and copy.

`<name>.broker.toml` and `<name>.client.toml` say a name, a public key (Z85) and, for brokers, addresses;
every key in the directory is authorised by every broker that uses it. An entry without a key stands for a
broker whose wire is not encrypted. `<name>.client.secret` is a client's own key pair; a broker keeps its
pair in its state directory, in the same format. Everything is readable by its owner alone.

The directory is `$GRAPEVINE_KEYS`, or `~/.config/grapevine/keys`.
"""

from __future__ import annotations

import json
import os
import socket
import tempfile
import tomllib
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple, TypeVar
from urllib.parse import quote

import msgspec
import zmq

from grapevine.errors import Error

Read = TypeVar("Read")
KEY_CHARS = 40  # 32 bytes in Z85
ANSWER_S = 0.5
LOOPBACK = ("127.0.0.1", "localhost", "[::1]", "0.0.0.0", "*")


class KeyFileError(Error):
    """A key file cannot be read, written or understood; the message names it."""


class KeyPair(msgspec.Struct, frozen=True):
    public: str
    secret: str


class Entry(msgspec.Struct, frozen=True):
    name: str
    public: str  # empty: a broker without encryption
    addresses: tuple[str, ...] = ()
    kind: str = "broker"


class Server(NamedTuple):
    """What a client needs to dial: `public` is empty where the wire is not encrypted."""

    name: str
    public: str


def default_directory() -> Path:
    return Path(os.environ.get("GRAPEVINE_KEYS") or Path.home() / ".config" / "grapevine" / "keys")


# --- key pairs --------------------------------------------------------------------------------------


def load_or_create(path: Path) -> KeyPair:
    """The key pair in `path`, made and written at first use."""
    try:
        return load(path)
    except FileNotFoundError:
        pass
    public, secret = (part.decode() for part in zmq.curve_keypair())
    make_directory(path.parent)
    _write(path, {"public": public, "secret": secret}, replace=False)
    return load(path)  # of two that start at once, both use the pair written first


def load(path: Path) -> KeyPair:
    pair = _read(path, KeyPair)
    if path.stat().st_mode & 0o077:
        raise KeyFileError(f"{path}: others may read this secret key: chmod 600 {path}")
    if len(pair.public) != KEY_CHARS or len(pair.secret) != KEY_CHARS:
        raise KeyFileError(f"{path}: a key has {KEY_CHARS} characters")
    return pair


def client_keys(directory: Path, name: str = "user") -> KeyPair:
    """This user's client key, authorised in the directory by being there."""
    pair = load_or_create(directory / f"{quote(name, safe='')}.client.secret")
    entry = Entry(name, pair.public, (), "client")
    if not entry_path(directory, entry).exists():
        write_entry(directory, entry)
    return pair


# --- entries ------------------------------------------------------------------------------------------


def entry_path(directory: Path, entry: Entry) -> Path:
    return directory / f"{quote(entry.name, safe='')}.{entry.kind}.toml"


def write_entry(directory: Path, entry: Entry) -> None:
    make_directory(directory)
    _write(entry_path(directory, entry), msgspec.to_builtins(entry))


def read_entries(directory: Path) -> list[Entry]:
    """All entries, in the order of their file names."""
    paths = sorted((*directory.glob("*.broker.toml"), *directory.glob("*.client.toml")))
    return [entry for path in paths if (entry := read_entry(path)) is not None]


def read_entry(path: Path) -> Entry | None:
    try:
        return _read(path, Entry)
    except FileNotFoundError:  # removed meanwhile
        return None


def _brokers(directory: Path) -> list[Entry]:
    """Entries of brokers, the newest first: of two that claim an address, the later one has it."""
    dated = []
    for path in sorted(directory.glob("*.broker.toml")):
        try:
            dated.append((-path.stat().st_mtime_ns, path))
        except FileNotFoundError:
            continue
    return [entry for _, path in sorted(dated) if (entry := read_entry(path)) is not None]


def authorised(directory: Path) -> dict[str, Entry]:
    """Every public key in the directory, with who it belongs to."""
    return {entry.public: entry for entry in read_entries(directory) if entry.public}


def rival(directory: Path, name: str, public: str, addresses: Iterable[str]) -> str:
    """Where another broker of this name answers whose entry ours would replace; "" if there is none. What
    this broker listens on itself it has, since nobody else could."""
    entry = read_entry(entry_path(directory, Entry(name, "")))
    if entry is None or (entry.public and entry.public == public):
        return ""
    own = set(map(_plain, addresses))
    return next((a for a in entry.addresses if _plain(a) not in own and _answers(a)), "")


def _answers(address: str) -> bool:
    """Whether somebody listens there."""
    scheme, _, place = address.partition("://")
    host, _, port = place.rpartition(":")
    try:
        if scheme == "ipc":
            with socket.socket(socket.AF_UNIX) as probe:
                probe.connect(place)
        else:
            socket.create_connection((host.strip("[]"), int(port)), ANSWER_S).close()
    except (OSError, ValueError):
        return False
    return True


def find_server(directory: Path, address: str) -> Server:
    """Who listens on `address`; LookupError if no entry says so."""
    brokers = [entry for entry in _brokers(directory) if entry.kind == "broker"]
    wanted = _plain(address)
    host, _, port = wanted.rpartition(":")
    for entry in brokers:
        if wanted in map(_plain, entry.addresses):
            return Server(entry.name, entry.public)
    if host == "tcp://127.0.0.1":  # a broker that listens on every interface is written down by host name
        near = [e for e in brokers if any(a.endswith(f":{port}") for a in e.addresses)]
        if len(near) == 1:
            return Server(near[0].name, near[0].public)
    raise LookupError(f"no broker with the address {address} in {directory}")


def _plain(address: str) -> str:
    """Different spellings of this machine as one."""
    scheme, _, rest = address.partition("://")
    host, colon, port = rest.rpartition(":")
    if scheme == "tcp" and host in LOOPBACK:
        host = "127.0.0.1"
    return f"{scheme}://{host}{colon}{port}"


# --- files ----------------------------------------------------------------------------------------------


def make_directory(path: Path) -> None:
    try:
        path.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise KeyFileError(f"{path}: cannot make the keys directory: {error.strerror}") from None


def _write(path: Path, content: dict[str, object], replace: bool = True) -> None:
    """Whole or not at all; without `replace`, what is there already stays."""
    text = "".join(f"{key} = {json.dumps(value)}\n" for key, value in content.items())
    try:
        handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")  # 0600
        with os.fdopen(handle, "w") as file:
            file.write(text)
            if os.geteuid() == 0:  # a broker that is not root must be able to read what root puts there
                owner = path.parent.stat()
                os.fchown(handle, owner.st_uid, owner.st_gid)
        try:
            if replace:
                os.replace(temporary, path)
            else:
                os.link(temporary, path)
        except FileExistsError:
            pass
        finally:
            Path(temporary).unlink(missing_ok=True)
    except OSError as error:
        raise KeyFileError(f"{path}: cannot be written: {error.strerror}") from None


def _read(path: Path, kind: type[Read]) -> Read:
    try:
        return msgspec.convert(tomllib.loads(path.read_text()), kind)
    except FileNotFoundError:
        raise
    except OSError as error:
        raise KeyFileError(f"{path}: cannot be read: {error.strerror}") from None
    except (ValueError, msgspec.ValidationError) as error:
        raise KeyFileError(f"{path}: not a key file: {error}") from None
