"""The rules of edge changes, by name: what is unsettled when a broker takes another parent, brokers that
crash meanwhile, and who may take which parent when.

Found here beyond what was specified: edges-before-own, gather-both-ways, skip-only-who-was-asked (a gather
that waits for every suspended link never heals round a dead broker, one that skips them all loses),
stamp-names-edges, nowhere-is-no-side, unreachable-is-held, question-brings-edges,
return-is-granted.

What is held for somebody unreachable is the hard part: an edge that leads there again is no word of who
wants it, and a broker that has not been told settles what it gets (untold-is-held, with all that is newer;
what was told before stands until every edge on the way is done: keep-until-done). What waits for a SyncDone
may have come to the link by two ways, and goes oldest first (older-first). A broker whose advertisement
leads nowhere tells everybody who wants it, since whoever comes may be the way (unreachable-is-told-to-all).
Who starts again waits for those who were its neighbours wherever they are by now (former-are-awaited): they
are told of as gone elsewhere before anybody has told what is wanted there.

Those in NOT_SHOWN have no counterexample within what was explored, or had one before other rules were found
(who may take which parent is shown by join.py); they are kept, because a model that does not show a need
does not show that there is none.
"""

from __future__ import annotations

RULES = {
    "resend": "who changes a side sends all it retains for the old one to the new one, before anything newer",
    "by-sequence": "... in the order of sequence, not of retention: two copies may be retained",
    "older-first": "... and so is what waits for a SyncDone, whatever it waited for before",
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
    "keep-until-done": "... of the neighbour that leads there, and until every edge on the way is done",
    "unreachable-is-held": "what is retained for a side that leads nowhere is kept for those behind it",
    "untold-is-held": "... and until who leads there has told who wants it, with all that is newer",
    "unreachable-is-told-to-all": "who wants an advertisement that leads nowhere is told to all neighbours",
    "sync-waits-others": "who starts again says SyncDone when its other neighbours have",
    "former-are-awaited": "... also those that were neighbours and are elsewhere, or nowhere, by now",
    "child-is-lost": "a child that has another place, and that nobody tells of, is given up after a time",
    "climb": "the question climbs to the real root",
    "lock": "a root with a grant out does not ask, nor grant again",
    "one-at-a-time": "a root grants, and asks, when every edge that it knows is done",
    "question-brings-edges": "... or is known by the asker to be over",
    "return-is-granted": "... or the asker comes back to one that started again and waits for it",
    "yield": "of two roots that ask each other the better one gives its question up and grants",
    "grant-gives-up-edge": "who grants while its own parent is away has no parent any more",
    "resume-ends-question": "who is back with its parent asks no more, and uses no grant",
}

NOT_SHOWN = frozenset(
    (
        "by-sequence",
        "stamped",
        "all-generations",
        "nowhere-is-no-side",
        "stamp-names-edges",
        "edges-before-own",
        "edge-gather",
        "gather-both-ways",
        "skip-only-who-was-asked",
        "lock",
        "one-at-a-time",
        "question-brings-edges",
        "return-is-granted",
        "yield",
        "resume-ends-question",
    )
)
