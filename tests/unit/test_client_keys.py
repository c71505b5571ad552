"""The keys directory: made on demand, private, readable, and found by address."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from grapevine.client.keys import (
    Entry,
    KeyFileError,
    authorised,
    client_keys,
    default_directory,
    find_server,
    load,
    load_or_create,
    read_entries,
    write_entry,
)

KEY = "k" * 40


def test_key_pair_is_made_once_and_private(tmp_path: Path) -> None:
    path = tmp_path / "state" / "broker.secret"
    pair = load_or_create(path)
    assert load_or_create(path) == pair and len(pair.public) == len(pair.secret) == 40
    assert path.stat().st_mode & 0o777 == 0o600 and path.parent.stat().st_mode & 0o777 == 0o700
    assert os.listdir(path.parent) == ["broker.secret"]


def test_secret_that_others_may_read_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "broker.secret"
    load_or_create(path)
    path.chmod(0o644)
    with pytest.raises(KeyFileError, match="chmod 600"):
        load(path)


@pytest.mark.parametrize("text", ["public = 1", "no toml", 'public = "short"\nsecret = "short"', "\0"])
def test_file_that_is_no_key_is_named(tmp_path: Path, text: str) -> None:
    path = tmp_path / "broker.secret"
    path.write_text(text)
    path.chmod(0o600)
    with pytest.raises(KeyFileError, match=r"broker\.secret"):
        load_or_create(path)


def test_client_key_is_authorised_by_being_there(tmp_path: Path) -> None:
    pair = client_keys(tmp_path)
    assert client_keys(tmp_path) == pair
    assert authorised(tmp_path)[pair.public] == Entry("user", pair.public, (), "client")


def test_broker_entries_there_and_back(tmp_path: Path) -> None:
    entries = [Entry("b/1 'é\"", KEY, ("tcp://127.0.0.1:7470", "ipc:///run/b1")), Entry("plain", "")]
    for entry in entries:
        write_entry(tmp_path, entry)
    assert sorted(read_entries(tmp_path), key=lambda e: e.name) == entries
    assert list(authorised(tmp_path)) == [KEY]
    assert all(path.stat().st_mode & 0o777 == 0o600 for path in tmp_path.iterdir())


def test_server_is_found_by_address(tmp_path: Path) -> None:
    write_entry(tmp_path, Entry("b1", KEY, ("tcp://127.0.0.1:7470",)))
    write_entry(tmp_path, Entry("b2", "", ("tcp://127.0.0.1:7471",)))
    write_entry(tmp_path, Entry("b3", "3" * 40, ("tcp://host.example:7472",)))
    assert find_server(tmp_path, "tcp://localhost:7470") == ("b1", KEY)
    assert find_server(tmp_path, "tcp://127.0.0.1:7471") == ("b2", "")
    assert find_server(tmp_path, "tcp://host.example:7472").name == "b3"
    assert find_server(tmp_path, "tcp://127.0.0.1:7472").name == "b3"
    with pytest.raises(LookupError):
        find_server(tmp_path, "tcp://other.example:7470")


def test_directory_comes_from_the_environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("GRAPEVINE_KEYS", str(tmp_path))
    assert default_directory() == tmp_path
    monkeypatch.delenv("GRAPEVINE_KEYS")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert default_directory() == tmp_path / ".config" / "grapevine" / "keys"


def test_of_two_that_claim_an_address_the_newer_has_it(tmp_path: Path) -> None:
    """A broker that was renamed leaves its old entry behind."""
    for name, age_s in (("a-old", 100), ("b-new", 0), ("c-old", 50)):
        write_entry(tmp_path, Entry(name, KEY, ("tcp://127.0.0.1:7470",)))
        path = tmp_path / f"{name}.broker.toml"
        os.utime(path, (path.stat().st_atime, path.stat().st_mtime - age_s))
    assert find_server(tmp_path, "tcp://127.0.0.1:7470").name == "b-new"


@pytest.mark.skipif(os.geteuid() != 0, reason="only root writes for others")
def test_what_root_writes_belongs_to_the_directorys_owner(tmp_path: Path) -> None:
    os.chown(tmp_path, 12345, 12345)
    client_keys(tmp_path, "guest")
    assert {path.stat().st_uid for path in tmp_path.iterdir()} == {12345}
