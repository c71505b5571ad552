"""Every --help ends with the next step, and every step that is named exists."""

from __future__ import annotations

import re
from collections.abc import Iterator

import click
import pytest
from click.testing import CliRunner

from daemon.main import parse
from tools.pubctl.next_steps import STEPS, next_step
from tools.pubctl.running import root


def commands(command: click.Command, path: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    yield path
    if isinstance(command, click.Group):
        context = click.Context(command)
        for name in command.list_commands(context):
            found = command.get_command(context, name)
            assert found is not None
            yield from commands(found, (*path, name))


def test_every_help_ends_with_the_next_step() -> None:
    all_paths = list(commands(root))
    assert len(all_paths) > 50
    for path in all_paths:
        said = CliRunner().invoke(root, [*path, "--help"], prog_name="pubctl").output
        told = " ".join(said.strip().rpartition("\n\n")[2].split())
        assert told == f"Next: {next_step(' '.join(path))}", path


def test_steps_belong_to_commands_and_name_commands() -> None:
    paths = {" ".join(path) for path in commands(root)}
    assert STEPS.keys() <= paths
    nouns = {path.split()[0] for path in paths if path}
    named = {word for step in STEPS.values() for word in re.findall(r"pubctl ([a-z]+)", step)}
    assert named <= nouns


def test_the_daemon_tells_it_too(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        parse(["--help"])
    assert capsys.readouterr().out.rpartition("\n\n")[2].startswith("Next: ")
