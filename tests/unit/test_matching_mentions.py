"""Publications that agree on the projection match the same filters."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from grapevine.filters import parse
from grapevine.filters.evaluate import matches
from matching.mentions import Mentions, projection

FILTERS = (
    "a = 1",
    "a",
    "not exists b",
    "a != 2 and b prefix 'x'",
    "circle(10, 20, 5) or c > 1",
    "not circle(10, 20, 5)",
)
values = st.sampled_from([True, False, 0, 1, 1.0, 2, 10, 20, "x", "xy", ""])
attributes = st.dictionaries(st.sampled_from(["a", "b", "c", "lat", "lon", "n", "m"]), values)


@given(attributes, attributes)
def test_equal_projections_match_alike(one: dict[str, object], other: dict[str, object]) -> None:
    filters = [parse(text) for text in FILTERS]
    mentions = Mentions()
    for filter in filters:
        mentions.add(filter)
    names = mentions.few(10)
    assert names is not None
    mixed = {**other, **{name: one[name] for name in names if name in one}}
    mixed = {name: value for name, value in mixed.items() if name in one or name not in names}
    assert projection(names)(one) == projection(names)(mixed)  # type: ignore[arg-type]
    for filter in filters:
        assert matches(filter, one) == matches(filter, mixed)  # type: ignore[arg-type]


def test_true_is_not_one() -> None:
    assert projection(("a",))({"a": True}) != projection(("a",))({"a": 1})
    assert projection(("a",))({"a": 1}) == projection(("a",))({"a": 1.0})
    assert projection(("a",))({}) != projection(("a",))({"a": False})


def test_what_leaves_is_forgotten() -> None:
    mentions = Mentions()
    first, second = parse("a = 1 and b = 2"), parse("not circle(10, 20, 5)")
    mentions.add(first)
    mentions.add(second)
    assert set(mentions.few(4) or ()) == {"a", "b", "lat", "lon"}
    assert mentions.few(3) is None
    mentions.remove(second)
    assert mentions.few(2) == ("a", "b")
    mentions.remove(first)
    assert mentions.few(0) == ()
