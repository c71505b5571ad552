"""The policy file: who may do what, and which line is wrong."""

from __future__ import annotations

from pathlib import Path

import pytest

from daemon.keys import Keys
from daemon.policy import FILE, PolicyError, read
from grapevine.client.keys import Entry, write_entry
from grapevine.filters import EVERYTHING, parse
from grapevine.wire.messages import Attach, ClientSubscribe, Command, Hello, Publish

A, B = "a" * 40, "b" * 40
ENTRIES = [Entry("quotes", A, (), "client"), Entry("b1", B, ("tcp://127.0.0.1:1",))]


def policy(directory: Path, text: str) -> Path:
    path = directory / FILE
    path.write_text(text)
    return path


def test_roles_and_filters_by_name_or_key(tmp_path: Path) -> None:
    text = f"""
[[key]]
name = "quotes"
roles = ["publisher"]
publish = "class = 'STOCK'"
[[key]]
public = "{B}"
roles = ["broker", "admin"]
"""
    grants = read(policy(tmp_path, text), ENTRIES)
    assert grants[A].publish == parse("class = 'STOCK'")
    assert grants[A].ask == EVERYTHING
    assert {Hello.kind, Command.kind, ClientSubscribe.kind} <= grants[A].barred
    assert not {Attach.kind, Publish.kind} & grants[A].barred
    assert {Attach.kind, Publish.kind} <= grants[B].barred
    assert not {Hello.kind, Command.kind} & grants[B].barred


def test_an_empty_policy_is_nobody(tmp_path: Path) -> None:
    assert read(policy(tmp_path, "# nobody\n"), ENTRIES) == {}


GOOD = '[[key]]\nname = "quotes"\nroles = ["publisher"]\n\n'


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (GOOD + '[[key]]\nname = "b1"\nroles = ["boss"]\n', ":7: roles: "),
        (GOOD + '[[key]]\nname = "b1"\nroles = ["broker"]\nask = "class ="\n', ":8: ask: "),
        (GOOD + '[[key]]\nname = "nobody"\nroles = ["broker"]\n', ":6: name: no key of 'nobody'"),
        (GOOD + '[[key]]\npublic = "short"\nroles = ["broker"]\n', ":6: public: a key has 40"),
        (GOOD + '[[key]]\nname = "b1"\n', ":5: no roles"),
        (GOOD + '[[key]]\nname = "b1"\nroles = ["broker"]\nrole = "x"\n', ":8: role: "),
        (GOOD + '[[kye]]\nname = "b1"\n', ":5: kye: unknown"),
        (GOOD + "[[key]\n", "line 5"),
    ],
)
def test_one_bad_line_is_named_and_nothing_is_taken(tmp_path: Path, text: str, told: str) -> None:
    path = policy(tmp_path, text)
    with pytest.raises(PolicyError) as caught:
        read(path, ENTRIES)
    assert str(caught.value).startswith(str(path))
    assert told in str(caught.value)
    assert "\n" not in str(caught.value)


# --- the keys with a policy -----------------------------------------------------------------------


@pytest.fixture
def keys(tmp_path: Path) -> Keys:
    for entry in ENTRIES:
        write_entry(tmp_path / "keys", entry)
    return Keys(tmp_path / "keys", tmp_path / "authorised", tmp_path / "key.secret")


def test_without_a_policy_every_key_may_do_everything(keys: Keys) -> None:
    grant = keys.grant(A)
    assert grant is not None
    assert not grant.barred
    assert keys.grant("x" * 40) is None
    assert keys.server_key("tcp://127.0.0.1:1") == B


def test_with_one_the_others_may_do_nothing(keys: Keys) -> None:
    policy(keys.directory, GOOD)
    keys.read_again()
    assert keys.authorised == {A}
    assert keys.grant(B) is None
    with pytest.raises(LookupError, match="no role broker"):
        keys.server_key("tcp://127.0.0.1:1")


@pytest.mark.parametrize("change", ["bad", "gone", "dangling", "unreadable"])
def test_the_old_policy_stays_when_the_new_one_cannot_be_taken(keys: Keys, change: str) -> None:
    path = policy(keys.directory, GOOD)
    keys.read_again()
    before = keys.generation
    path.unlink()
    if change == "bad":
        path.write_text(GOOD + "[[key]]\n")
    elif change == "dangling":
        path.symlink_to("nowhere")
    elif change == "unreadable":
        path.mkdir()
    keys.read_again()
    assert (keys.authorised, keys.generation) == ({A}, before)


@pytest.mark.parametrize("kind", ["empty", "bad", "dangling", "unreadable"])
def test_a_policy_that_says_nothing_at_the_start_lets_nobody_in(tmp_path: Path, kind: str) -> None:
    directory = tmp_path / "keys"
    write_entry(directory, ENTRIES[0])
    path = directory / FILE
    if kind == "dangling":
        path.symlink_to("nowhere")
    elif kind == "unreadable":
        path.mkdir()
    else:
        path.write_text("" if kind == "empty" else "[[key]]\n")
    keys = Keys(directory, tmp_path / "authorised", tmp_path / "key.secret")
    assert keys.authorised == frozenset()
    assert keys.grant(A) is None
