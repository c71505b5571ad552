"""Commands that concern the process and not the overlay: its configuration, its log, its end.

They come as Command frames over the control socket or from an authorised key, and are answered like the
core's own, since the core hands them over (`on_command`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from daemon.settings import ConfigError, Settings
from daemon.settings.keys import table, value
from grapevine.wire.messages import Answer, Command
from overlay.core import Core
from overlay.links.session import Link


class Control:
    def __init__(self, core: Core, settings: Settings, reload: Callable[[], list[str]]) -> None:
        self.core = core
        self.settings = settings
        self._reload = reload
        core.on_command("config", self.on_config)
        core.on_command("reload", self.on_reload)

    def on_config(self, link: Link, command: Command, now: float) -> None:
        """The settings in force, and what each key is."""
        keys = [
            {"key": key.path, "value": value(self.settings, key.path), "reload": key.reload}
            for section in table().values()
            for key in section.values()
        ]
        self._answer(link, command, {"settings": keys})

    def on_reload(self, link: Link, command: Command, now: float) -> None:
        try:
            restart = self._reload()
            needs = f"; a restart is needed for {', '.join(restart)}" if restart else ""
            text = f"{self.core.name} has read its configuration again{needs}"
            self.core.event(now, "reload", text, by=link.peer, restart=restart)
            self._answer(link, command, {"restart": restart})
        except ConfigError as error:
            self._answer(link, command, {}, "failed", str(error))

    def _answer(self, link: Link, command: Command, body: Any, outcome: str = "ok", text: str = "") -> None:
        self.core.send(Answer(command.request, outcome, msgspec.json.encode(body), text), link)
