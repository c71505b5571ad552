"""What a broker says of the channels it serves, for who draws the overlay."""

from __future__ import annotations

from overlay.administration.pulse import Pulse
from overlay.administration.reports import Ask, Reports
from tests.town import CHANNEL, founded, subscribe


def test_whose_results_a_broker_serves_and_to_how_many() -> None:
    town = founded()
    core = town.cores["edge"]
    reports = next(one for one in core.behaviours if isinstance(one, Reports))
    pulse = next(one for one in core.behaviours if isinstance(one, Pulse))
    assert "channels" not in reports.topology(Ask())
    pulse.row()
    before = pulse.generation
    for name, low in (("ann", 0), ("bob", 2), ("cid", 2)):
        town.attach(name, "edge")
        assert subscribe(town, name, low).confirmed
    backs = [
        {"name": f"{CHANNEL.name}(0)", "subscriptions": 1},
        {"name": f"{CHANNEL.name}(2)", "subscriptions": 2},
    ]
    assert reports.topology(Ask())["channels"] == {"backend": backs, "frontend": 3, "moved": 0}
    pulse.row()
    assert pulse.generation > before, "who has drawn it asks again"
