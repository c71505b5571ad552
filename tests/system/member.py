"""A member of a group as a process of its own, to be killed: writes a line for each message that it has
processed ("P n") and for each whose acknowledgement it knows to count ("C n")."""

from __future__ import annotations

import sys
import time

import grapevine
from grapevine import Gap


def main(address: str, name: str, group: str) -> None:
    client = grapevine.connect(address, name=name, keys=False)
    member = client.subscribe("job > 0", group=group, ack="explicit", in_flight=16, ack_wait_s=20)
    jobs: dict[int, object] = {}
    print("ready", flush=True)
    while True:
        message = member.next(0.2)
        if isinstance(message, Gap):
            print("G", flush=True)
        elif message is not None:
            jobs[message.offset] = message.attributes["job"]
            print("P", message.attributes["job"], flush=True)
            time.sleep(0.001)
            message.ack()
        counted = member._reader.counted
        while counted:
            print("C", jobs[counted.popleft()], flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
