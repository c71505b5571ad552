"""`pubctl key new|ls|allow|revoke`: who may talk to the brokers of a keys directory, and what they may do.

Brokers look at their directory once a second, so nothing has to be told to them. Without a policy a key in
the directory may do everything; the first `allow` with a role or a filter writes one, with all who are there.
"""

from __future__ import annotations

from pathlib import Path

import click

from grapevine.client.keys import KEY_CHARS, Entry, default_directory, entry_path, read_entries, write_entry
from tools.pubctl.commands import agreed, changes, group
from tools.pubctl.failure import NOT_FOUND, USAGE, Failure
from tools.pubctl.invocation import current
from tools.pubctl.output import Column, Result, Row, listed, show

COLUMNS = (
    Column("name", style="bold"),
    Column("kind"),
    Column("roles", show=listed),
    Column("publish", "may publish"),
    Column("ask", "may ask"),
    Column("public", "public key"),
)
ROLES = ("publisher", "subscriber", "broker", "admin", "observer")
EVERYTHING = "with every role, admin too (there is no policy: --role writes one)"
DEFAULT = {"client": ("publisher", "subscriber"), "broker": ("broker",)}

keys_option = click.option(
    "--keys", type=click.Path(path_type=Path), help="Keys directory.  [$GRAPEVINE_KEYS, or the user's own]"
)


@group("key", "Keys and roles in a keys directory.")
def key() -> None: ...


@key.command()
@click.argument("name")
@click.option("--out", type=click.Path(path_type=Path), required=True, help="Directory for the new client.")
@keys_option
def new(name: str, out: Path, keys: Path | None) -> None:
    """A key pair for a client NAME elsewhere, with the addresses of our brokers: hand OUT over to it.

    It may do nothing until it is allowed.
    """
    from grapevine.client.keys import load_or_create

    pair = load_or_create(out / "user.client.secret")
    write_entry(out, Entry(name, pair.public, (), "client"))
    brokers = [entry for entry in read_entries(directory(keys)) if entry.kind == "broker"]
    for broker in brokers:
        write_entry(out, broker)
    entry = entry_path(out, Entry(name, "", (), "client"))
    current().say(f"let it in: pubctl key allow {entry}; it connects with GRAPEVINE_KEYS={out}")
    row = {
        "name": name,
        "kind": "client",
        "public": pair.public,
        "directory": str(out),
        "brokers": len(brokers),
    }
    show(lambda: Result([row], (Column("name", style="bold"), Column("public"), Column("directory"))))


@key.command()
@keys_option
def ls(keys: Path | None) -> None:
    """Every key of the directory and what it may do."""
    from tools.deploy.policies import Policy

    def produce() -> Result:
        place = directory(keys)
        policy = Policy.read(place)
        rows: list[Row] = []
        for entry in read_entries(place):
            rule = policy.rule(entry) if policy is not None else None
            roles = list(ROLES) if policy is None else list(rule.roles) if rule is not None else []
            row: Row = {"name": entry.name, "kind": entry.kind, "roles": roles, "public": entry.public}
            row |= {"publish": rule.publish or None, "ask": rule.ask or None} if rule is not None else {}
            rows.append(row)
        told = (
            "a policy says who may do what"
            if policy is not None
            else "no policy: every key may do everything"
        )
        return Result(rows, COLUMNS, {"directory": str(place), "policy": policy is not None}, footer=told)

    show(produce)


@key.command()
@click.argument("who")
@click.option("--role", "roles", multiple=True, type=click.Choice(ROLES), help="May be given several times.")
@click.option("--publish", default="", metavar="FILTER", help="Only publications that match.")
@click.option("--ask", default="", metavar="FILTER", help="Only subscriptions within.")
@click.option("--name", default="", help="Of a key that is given by itself.")
@keys_option
@changes
def allow(
    who: str,
    roles: tuple[str, ...],
    publish: str,
    ask: str,
    name: str,
    keys: Path | None,
    dry_run: bool,
    yes: bool,
) -> None:
    """Let WHO in: a name of the directory, a .toml entry of another one, or a public key with --name.

    Said again, the roles and filters given now replace those given before.
    """
    from grapevine.filters import parse
    from tools.deploy.policies import Policy

    for text in filter(None, (publish, ask)):
        parse(text)
    place = directory(keys)
    entry = find(who, name, place)
    given = roles or DEFAULT[entry.kind]
    policy = Policy.read(place)
    limited = policy is not None or bool(roles or publish or ask)
    what = f"as {', '.join(given)}" if limited else EVERYTHING
    if not agreed(f"allow {entry.name} {what} in {place}", dry_run, yes):
        return
    if limited:  # before the entry is there: it has no other moment
        policy = policy or Policy.of_all(read_entries(place))
        policy.put(entry, given, publish, ask)
        policy.write(place)
    write_entry(place, entry)
    current().say(f"{entry.name} may connect {what}")


@key.command()
@click.argument("name")
@keys_option
@changes
def revoke(name: str, keys: Path | None, dry_run: bool, yes: bool) -> None:
    """Take NAME's keys away; its live connections end within a second."""
    from tools.deploy.policies import Policy

    place = directory(keys)
    entries = [entry for entry in read_entries(place) if entry.name == name]
    policy = Policy.read(place)
    if not entries:
        raise Failure(f"no key of {name} in {place}: `pubctl key ls` lists them", NOT_FOUND)
    if not agreed(f"revoke the keys of {name} in {place}", dry_run, yes):
        return
    if policy is not None:  # before the entry goes: a rule about an unknown name would be a mistake
        for entry in entries:
            policy.drop(entry)
        policy.write(place)
    for entry in entries:
        entry_path(place, entry).unlink(missing_ok=True)
    current().say(f"{name} is out")


def directory(given: Path | None) -> Path:
    return (given or default_directory()).expanduser().absolute()


def find(who: str, name: str, place: Path) -> Entry:
    if who.endswith(".toml"):
        from grapevine.client.keys import read_entry

        entry = read_entry(Path(who))
        if entry is None:
            raise Failure(f"{who}: no such file", NOT_FOUND)
        return entry
    found = [entry for entry in read_entries(place) if entry.name == who]
    if found:
        return found[0]
    if len(who) == KEY_CHARS and name:
        return Entry(name, who, (), "client")
    if len(who) == KEY_CHARS:
        raise Failure("give the key a name: --name NAME", USAGE)
    raise Failure(
        f"no key of {who} in {place}; give its .toml entry, or the key itself with --name", NOT_FOUND
    )
