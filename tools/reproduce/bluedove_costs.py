"""`python -m tools.reproduce.bluedove_costs`: how soon gossip has a change everywhere, and what order costs.

Gossip: of 1,000 seeds the per cent that took more than 2 log2 N + 2 rounds, and its bytes beside the paper's. Order: mean response with each publisher's
order restored at its dispatcher over that without, price policy, by load and number of publishers.
"""  # noqa: E501

from __future__ import annotations

import sys

import msgspec

from tools.reproduce import bluedove_capacity as capacity
from tools.reproduce.bluedove import PLACEMENTS, cost_of_order, gossip_late
from tools.reproduce.bluedove_bytes import byte_rows

MEMBERS = (5, 20, 100)
SEEDS = 1_000


def main() -> int:
    gossip = [{"members": members, "late_percent": gossip_late(members, SEEDS)} for members in MEMBERS]
    order = [
        {"placement": placement, "load": load, "publishers": publishers, "ratio": round(ratio, 3)}
        for placement in PLACEMENTS
        for (load, publishers), ratio in cost_of_order(placement, capacity.QUICK).items()
    ]
    at_bar = [row["ratio"] for row in order if row["load"] == 0.8 and row["publishers"] == 1000]
    sizes = [{"setting": r.setting, "what": r.metric, "paper": r.paper, "ours": r.ours} for r in byte_rows()]
    found = {"gossip": gossip, "bytes": sizes, "order": order, "order_at_80": max(map(float, at_bar))}
    print(msgspec.json.encode(found).decode())
    return 0


if __name__ == "__main__":
    sys.exit(main())
