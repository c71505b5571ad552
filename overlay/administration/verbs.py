"""Every verb that an administrator can say, and whether it changes anything.

This is the one place that says so: the role "observer" may say those that only read. Verbs of the driver
(its configuration, its process) stand here too, although the driver answers them.
"""

from __future__ import annotations

from enum import Enum


class Access(Enum):
    READ = "read"
    WRITE = "write"


VERBS: dict[str, Access] = {
    "status": Access.READ,
    "broker.ls": Access.READ,
    "broker.info": Access.READ,
    "broker.ping": Access.READ,
    "broker.drain": Access.WRITE,
    "broker.forget": Access.WRITE,
    "link.ls": Access.READ,
    "topo.show": Access.READ,
    "subs.ls": Access.READ,
    "subs.explain": Access.READ,
    "adv.ls": Access.READ,
    "client.ls": Access.READ,
    "client.info": Access.READ,
    "client.move": Access.WRITE,
    "client.moved": Access.READ,
    "trace": Access.READ,
    "pulse": Access.READ,
    "events": Access.READ,
    "relocate.show": Access.READ,
    "relocate.plan": Access.READ,
    "relocate.set": Access.WRITE,
    "relocate.apply": Access.WRITE,
    "strategy.set": Access.WRITE,
    "stream.ls": Access.READ,
    "stream.show": Access.READ,
    "stream.add": Access.WRITE,
    "stream.rm": Access.WRITE,
    "channel.ls": Access.READ,
    "channel.show": Access.READ,
    "channel.results": Access.READ,
    "channel.create": Access.WRITE,
    "channel.drop": Access.WRITE,
    "dataset.ls": Access.READ,
    "dataset.show": Access.READ,
    "dataset.drop": Access.WRITE,
    "balance.show": Access.READ,
    "balance.plan": Access.READ,
    "balance.set": Access.WRITE,
    "balance.apply": Access.WRITE,
    "reconfigure.show": Access.READ,
    "reconfigure.plan": Access.READ,
    "reconfigure.apply": Access.WRITE,
    "reconfigure.finish": Access.WRITE,
    "reconfigure.abort": Access.WRITE,
    "onehop.status": Access.READ,
    "onehop.segments": Access.READ,
    "config": Access.READ,
    "reload": Access.WRITE,
}


def access(verb: str) -> Access:
    """An unknown verb is taken for one that changes something."""
    return VERBS.get(verb, Access.WRITE)
