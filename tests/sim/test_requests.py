"""Requests and replies while who asks, who answers, brokers and links fail; mistakes that must be seen.
`make proof` runs more seeds."""

from __future__ import annotations

import pytest

from tools.simulator.request_mutants import REQUEST_MUTANTS
from tools.simulator.scenario import find
from tools.simulator.seeds import simulate


# In 25 a broker that had restarted was held to its former life's word that another was missing, and nobody
# was told of no responders. In 29 a responder that was refused once could never reply again.
@pytest.mark.parametrize("seed", [0, 25, 29])
def test_requests(seed: int) -> None:
    result = simulate(find("requests"), "", None, seed)
    assert result.ok, [result.replay(), *result.violations]
    assert result.overlay["reply"] and result.overlay["timeout"] and result.overlay["no responders"]


# Where each was last seen; when the code changes, so may the seed, and the others are tried.
SEEN_AT = {
    "reply-to-who-asked-before": 0,
    "reply-taken-by-whoever-waits": 0,
    "reply-advertised-once": 29,
    "no-responders-never-said": 0,
    "nobody-behind-links": 0,
}


@pytest.mark.parametrize("name", SEEN_AT)
def test_mutant_is_caught(name: str) -> None:
    pinned = SEEN_AT[name]
    seeds = [pinned, *(seed for seed in range(40) if seed != pinned)]
    assert any(not simulate(find("requests"), name, None, seed).ok for seed in seeds), name


def test_every_mutant_of_requests_has_a_seed() -> None:
    assert REQUEST_MUTANTS.keys() <= SEEN_AT.keys()
