"""Is everything well? The worst that there is, in one sentence, and where to look."""

from __future__ import annotations

from tools.web.members import Members
from tools.web.model import Trouble

BUSY = 0.9  # of a loop: a broker at its limit
UNSETTLED = 50_000  # publications on one link
ABSENT = (
    ("no answer", "does not answer", "do not answer"),
    ("gone", "is gone", "are gone"),
    ("cut off", "is cut off", "are cut off"),
)


def troubles(members: Members) -> list[Trouble]:
    """Everything that is not well, the worst first."""
    found: list[Trouble] = []
    brokers = [broker for broker in members.brokers.values() if broker.state != "dismissed"]
    for state, one, many in ABSENT:
        absent = [broker for broker in brokers if broker.state == state]
        if absent:
            names = ", ".join(broker.name for broker in absent[:3]) + (", ..." if len(absent) > 3 else "")
            text = f"{absent[0].name} {one}" if len(absent) == 1 else f"{len(absent)} brokers {many}: {names}"
            found.append(Trouble("bad", text, absent[0].i))
    present = [(b, members.beats[b.name]) for b in brokers if b.state in ("ready", "joining", "leaving")]
    slow = [(broker, beat) for broker, beat in present if beat.slow]
    if slow:
        count = sum(beat.slow for _, beat in slow)
        worst = max(slow, key=lambda pair: pair[1].backlog)[0]
        clients = "1 client does" if count == 1 else f"{count} clients do"
        found.append(Trouble("warn", f"{clients} not keep up, at {worst.name}", worst.i))
    busy = [(broker, beat) for broker, beat in present if (beat.busy or 0.0) >= BUSY]
    if busy:
        worst, beat = max(busy, key=lambda pair: pair[1].busy or 0.0)
        found.append(
            Trouble("warn", f"{worst.name} is at its limit: {100 * (beat.busy or 0):.0f} % busy", worst.i)
        )
    for broker, beat in present:
        for link in beat.links:
            if link.unsettled >= UNSETTLED:
                text = f"{link.unsettled:,} publications wait on the link {broker.name} to {link.peer}"
                found.append(Trouble("warn", text, broker.i))
                break
    joining = [broker for broker in brokers if broker.state == "joining"]
    if joining:
        found.append(Trouble("warn", f"{joining[0].name} joins", joining[0].i))
    return found


def health(members: Members) -> Trouble:
    found = troubles(members)
    if found:
        return found[0]
    count = sum(broker.state != "dismissed" for broker in members.brokers.values())
    if not count:
        return Trouble("warn", "nobody has answered yet")
    return Trouble("good", "the one broker is well" if count == 1 else f"all {count} well")
