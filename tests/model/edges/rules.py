"""The rules of edge changes, by name: what is unsettled when a broker takes another parent, brokers that
crash meanwhile, and who may take which parent when.

Found here beyond what was specified: edges-before-own, gather-both-ways, skip-only-who-was-asked (a gather
that waits for every suspended link never heals round a dead broker, one that skips them all loses),
stamp-names-edges, nowhere-is-no-side, unreachable-is-held and unreachable-stays-told, question-brings-edges,
return-is-granted.

Open: what is held for somebody unreachable is released when an edge leads there again, and may reach a broker
that has not been told yet who wants it (P1; with a crash in 83 events, open.txt; without one after some
thousand states, `python -m tests.model edges`). Holding it until it is told breaks the order. So healing must
not be built from these rules as they stand.
"""

from __future__ import annotations

RULES = {
    "resend": "who changes a side sends all it retains for the old one to the new one, before anything newer",
    "by-sequence": "... in the order of sequence, not of retention: two copies may be retained",
    "stamped": "a copy carries its sender's edges; an older one from the old side goes by the old table",
    "all-generations": "... for every change whose publications may be unsettled, not for the last one only",
    "nowhere-is-no-side": "... an entry that led nowhere for a while has left the side that it had before",
    "stamp-names-edges": "... and names the edges, it does not count them: two parts may change at once",
    "tell-before-edge": "what the new view calls for is told before the edge is passed on",
    "edges-before-own": "the child takes over the new parent's edges before it changes its own",
    "edge-gather": "the new edge is known everywhere before the new parent says SyncDone",
    "gather-both-ways": "... and behind the child before the child says it",
    "gather-skips-suspended": "... except behind links that are not past SyncDone",
    "skip-only-who-was-asked": "... if that side knows the advertisement from here",
    "known-by-any": "an entry is known while any neighbour tells it",
    "keep-until-sync": "what was withdrawn, or came over a link that ended, is known until SyncDone",
    "unreachable-is-held": "what is retained for a side that leads nowhere is kept for those behind it",
    "unreachable-stays-told": "what was told for an advertisement that cannot be reached is not withdrawn",
    "sync-waits-others": "who starts again says SyncDone when its other neighbours have",
    "climb": "the question climbs to the real root",
    "lock": "a root with a grant out does not ask, nor grant again",
    "one-at-a-time": "a root grants, and asks, when every edge that it knows is done",
    "question-brings-edges": "... or is known by the asker to be over",
    "return-is-granted": "... or the asker comes back to one that started again and waits for it",
    "yield": "of two roots that ask each other the better one gives its question up and grants",
    "grant-gives-up-edge": "who grants while its own parent is away has no parent any more",
    "resume-ends-question": "who is back with its parent asks no more, and uses no grant",
}
