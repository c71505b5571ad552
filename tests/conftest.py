"""Generated cases are the same in every run, so that a red build is red for a reason in the diff.

`HYPOTHESIS_PROFILE=explore uv run pytest` draws new ones, and more of them; a failure prints its replay.
"""

from __future__ import annotations

import os

import pytest
from hypothesis import HealthCheck, settings

# No deadline: two cores are shared with real daemons, and a slow case is not a wrong one.
settings.register_profile("repeatable", deadline=None, derandomize=True, print_blob=True)
# `make check` looks at fewer: it is run before every commit, `make test` before a push.
settings.register_profile("quick", settings.get_profile("repeatable"), max_examples=25)
settings.register_profile(
    "explore",
    deadline=None,
    max_examples=2_000,
    print_blob=True,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "repeatable"))


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--rewrite", action="store_true", help="write interaction files anew; read the diff")
