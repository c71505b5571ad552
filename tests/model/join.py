"""P4 and E5 alone, exhaustively: who may take which parent (J1, J2, the climbing question).

A state is the parent of each broker, whether the link to it is up, who asks and where its question is, which
grants are out, and how many faults are left. It starts as the chain 0-1-2-..; a broker whose parent's link is
down acts as a root. A crash forgets everything of that broker.

Beside cycles and changes that overlap it looks for states without a way out (`stuck`): when no fault is left,
one tree of all brokers must remain within reach, by steps that brokers take on their own. A root that has
granted, or that asks and is refused, must be free again some time.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from typing import NamedTuple

RULES = {
    "climb": "the question climbs to the real root",
    "grant-gives-up-edge": "who grants while its own parent is away has no parent any more",
    "resume-ends-question": "who is back with its parent asks no more, and uses no grant",
    "yield": "of two roots that ask each other the better one gives its question up and grants",
    "lock": "a root with a grant out neither asks nor grants again",
    "start-waits": "who starts again grants nothing, and asks nobody, for the time of a lease",
    "lease": "a grant that is not used ends: whoever got it may be gone",
}


class Question(NamedTuple):
    target: int
    at: int
    granted: bool


class State(NamedTuple):
    parents: tuple[int | None, ...]
    up: tuple[bool, ...]
    questions: tuple[Question | None, ...]
    grants: frozenset[tuple[int, int]]  # (root, asker)
    faults: int

    def is_root(self, one: int) -> bool:
        return self.parents[one] is None or not self.up[one]

    def has_granted(self, one: int) -> bool:
        return any(root == one for root, _ in self.grants)

    def with_parent(self, one: int, parent: int | None, up: bool) -> State:
        return self._replace(parents=_put(self.parents, one, parent), up=_put(self.up, one, up))

    def with_question(self, one: int, question: Question | None) -> State:
        return self._replace(questions=_put(self.questions, one, question))

    def without_grants(self, one: int) -> State:
        return self._replace(grants=frozenset(grant for grant in self.grants if grant[1] != one))


def _put(values: tuple, place: int, value: object) -> tuple:  # type: ignore[type-arg]
    return (*values[:place], value, *values[place + 1 :])


Step = tuple[str, State]


def start(brokers: int, faults: int) -> State:
    parents = (None, *range(brokers - 1))
    return State(parents, (False, *[True] * (brokers - 1)), (None,) * brokers, frozenset(), faults)


def steps(state: State, on: Callable[[str], bool]) -> Iterator[Step]:
    for one in range(len(state.parents)):
        if state.faults:
            yield from _faults(state._replace(faults=state.faults - 1), one, on)
        if state.parents[one] is not None and not state.up[one]:
            back = state._replace(up=_put(state.up, one, True))
            if on("resume-ends-question"):
                back = back.with_question(one, None).without_grants(one)
            yield f"resume({one})", back
        question = state.questions[one]
        if on("lease") and (unused := _unused(state, one)):
            yield f"end-lease({one})", state._replace(grants=state.grants - unused)
        if question is not None:
            yield from _answers(state, one, question, on)
        elif state.is_root(one) and not (on("lock") and state.has_granted(one)):
            for other in range(len(state.parents)):
                if other != one:
                    yield f"ask({one},{other})", state.with_question(one, Question(other, other, False))


def _unused(state: State, one: int) -> frozenset[tuple[int, int]]:
    """Grants for `one` that it has not, or no more: it has crashed, or gave its question up."""
    question = state.questions[one]
    held = question.at if question is not None and question.granted else None
    return frozenset(grant for grant in state.grants if grant[1] == one and grant[0] != held)


def _faults(state: State, one: int, on: Callable[[str], bool]) -> Iterator[Step]:
    if state.parents[one] is not None and state.up[one]:
        yield f"break({one})", state._replace(up=_put(state.up, one, False))
    questions = tuple(
        None
        if asker == one or (question is not None and not question.granted and question.at == one)
        else question
        for asker, question in enumerate(state.questions)
    )
    up = tuple(up and child != one and state.parents[child] != one for child, up in enumerate(state.up))
    # Nobody is told of the asker's crash; who has granted and starts again does not know that it has.
    grants = frozenset(grant for grant in state.grants if grant[0] != one or on("start-waits"))
    yield f"crash({one})", State(_put(state.parents, one, None), up, questions, grants, state.faults)


def _answers(state: State, one: int, question: Question, on: Callable[[str], bool]) -> Iterator[Step]:
    at = question.at
    if question.granted:
        ended = state.with_question(one, None)._replace(grants=state.grants - {(at, one)})
        if state.is_root(one) or not on("resume-ends-question"):
            yield f"use({one})", ended.with_parent(one, question.target, True)
        yield f"expire({one})", ended
    elif not state.is_root(at) and on("climb"):
        parent = state.parents[at]
        assert parent is not None
        yield f"climb({one})", state.with_question(one, question._replace(at=parent))
    elif at == one or (on("lock") and state.has_granted(at)):
        yield f"refused({one})", state.with_question(one, None)
    elif state.questions[at] is not None and on("yield") and on("climb"):
        if at < one:
            yield f"yields({at},{one})", _grant(state.with_question(at, None).without_grants(at), at, one, on)
        else:
            yield f"refused({one})", state.with_question(one, None)
    else:
        yield f"granted({one},{at})", _grant(state, at, one, on)


def _grant(state: State, root: int, asker: int, on: Callable[[str], bool]) -> State:
    question = state.questions[asker]
    assert question is not None
    if on("grant-gives-up-edge") and not state.up[root]:
        state = state._replace(parents=_put(state.parents, root, None))
    granted = state.with_question(asker, Question(question.target, root, True))
    return granted._replace(grants=state.grants | {(root, asker)})


def has_cycle(state: State) -> bool:
    for one in range(len(state.parents)):
        here: int | None = one
        for _ in range(len(state.parents) + 1):
            if here is None or not state.up[here]:
                break
            here = state.parents[here]
        else:
            return True
    return False


def overlaps(state: State) -> bool:
    """Two edges of one part may change at once (E5: then neither settles)."""
    held = [question.at for question in state.questions if question is not None and question.granted]
    return len(held) > len(set(held))


def is_one_tree(state: State) -> bool:
    """Everybody has a way to the same root, and nobody asks any more."""
    roots = [one for one in range(len(state.parents)) if state.is_root(one)]
    return len(roots) == 1 and not has_cycle(state)


def stuck(brokers: int, faults: int, without: tuple[str, ...] = ()) -> tuple[int, State | None]:
    """How many states there are without a fault left, and one from which no tree can be reached."""
    first = start(brokers, faults)
    seen, queue = {first}, deque([first])
    before: dict[State, list[State]] = {}
    while queue:
        state = queue.popleft()
        for _, following in steps(state, lambda rule: rule not in without):
            before.setdefault(following, []).append(state)
            if following not in seen:
                seen.add(following)
                queue.append(following)
    calm = {state for state in seen if not state.faults}
    front = deque(state for state in calm if is_one_tree(state))
    fine = set(front)
    while front:
        for earlier in before.get(front.popleft(), ()):
            if not earlier.faults and earlier not in fine:
                fine.add(earlier)
                front.append(earlier)
    return len(calm), next((state for state in seen if state in calm and state not in fine), None)


def explore(brokers: int, faults: int, without: tuple[str, ...] = ()) -> tuple[int, list[str] | None]:
    """How many states there are, and the shortest way to a cycle, or to two changes at once."""
    first = start(brokers, faults)
    came: dict[State, tuple[str, State] | None] = {first: None}
    queue = deque([first])
    while queue:
        state = queue.popleft()
        for name, following in steps(state, lambda rule: rule not in without):
            if following not in came:
                came[following] = (name, state)
                if has_cycle(following) or overlaps(following):
                    return len(came), _trail(came, following)
                queue.append(following)
    return len(came), None


def _trail(came: dict[State, tuple[str, State] | None], state: State) -> list[str]:
    trail = []
    while (step := came[state]) is not None:
        trail.append(step[0])
        state = step[1]
    return trail[::-1]
