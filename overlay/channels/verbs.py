"""An administrator's verbs for datasets and channels, answered by the back end; others say where that is."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from grapevine.errors import ChannelError
from grapevine.filters import parse
from grapevine.wire.catalog import Channel, Dataset
from grapevine.wire.driving import LEASE_S, STATE
from grapevine.wire.messages import Answer, Command
from overlay.behaviour import Quiet
from overlay.channels.dataset_log import DatasetLogError
from overlay.channels.desk import DriverDesk
from overlay.channels.executions import Progress, store_name
from overlay.channels.feeds import Feeds
from overlay.channels.results import ResultsError
from overlay.core import Core
from overlay.links.session import Link

VERBS = (
    *("channel.create", "channel.ls", "channel.show", "channel.drop"),
    *("dataset.ls", "dataset.show", "dataset.drop", "channel.results"),
)
ROWS_SHOWN = 10_000
BYTES_SHOWN = 8 << 20


class Definitions(msgspec.Struct):
    datasets: list[Dataset] = []
    channels: list[Channel] = []


class ChannelVerbs(Quiet):
    """`desk` and `feeds` are the back end's; without them only its address is known, if that."""

    def __init__(self, desk: DriverDesk | None, feeds: Feeds | None, address: Callable[[], str]) -> None:
        self.desk = desk
        self.feeds = feeds
        self.address = address

    def attach(self, core: Core) -> None:
        self.core = core
        handlers: dict[str, Callable[[Link, Command, float], None]] = {
            "channel.create": self.on_create,
            "channel.drop": self.on_drop,
            "dataset.drop": self.on_drop_dataset,
        }
        answers = {
            "channel.ls": self._ls,
            "channel.show": self._show,
            "dataset.ls": self._datasets,
            "dataset.show": self._dataset,
            "channel.results": self._results,
        }
        for verb in VERBS:
            if self.desk is None:
                core.on_command(verb, self.on_elsewhere)
            elif verb in handlers:
                core.on_command(verb, self._guarded(handlers[verb]))
            else:
                core.on_command(verb, self._guarded(self._answering(answers[verb])))

    def _answer(self, link: Link, command: Command, outcome: str, body: Any, text: str = "") -> None:
        self.core.send(Answer(command.request, outcome, msgspec.json.encode(body), text), link)

    def on_elsewhere(self, link: Link, command: Command, now: float) -> None:
        where = self.address()
        text = f"the back end is at {where}" if where else "there is no back end: set broker.backend"
        self._answer(link, command, "failed", {"backend": where}, f"{self.core.name} is no back end; {text}")

    def _guarded(
        self, handler: Callable[[Link, Command, float], None]
    ) -> Callable[[Link, Command, float], None]:
        def guarded(link: Link, command: Command, now: float) -> None:
            try:
                handler(link, command, now)
            except (ChannelError, DatasetLogError, ResultsError) as error:
                outcome = "not-found" if str(error).startswith("no ") else "failed"
                self._answer(link, command, outcome, {}, str(error))
            except (msgspec.MsgspecError, KeyError, ValueError) as error:  # an argument that is none
                self._answer(link, command, "usage", {}, str(error))

        return guarded

    def _answering(self, found: Callable[[Command, float], Any]) -> Callable[[Link, Command, float], None]:
        def answer(link: Link, command: Command, now: float) -> None:
            self._answer(link, command, "ok", {"asked": self.core.name, **found(command, now)})

        return answer

    # --- changes ------------------------------------------------------------------------------------------

    def on_create(self, link: Link, command: Command, now: float) -> None:
        assert self.desk is not None
        store = self.desk.store
        given = msgspec.json.decode(str(command.arguments["definitions"]), type=Definitions)
        for dataset in given.datasets:
            parse(dataset.filter or "true")  # before anything has changed
        replace = bool(command.arguments.get("replace"))
        if command.arguments.get("dry_run"):
            trial = msgspec.convert(msgspec.to_builtins(store.catalog), type(store.catalog))
            changed = trial.create(given.datasets, given.channels, replace)
        else:
            changed = self.create(given, replace, now)
        self._answer(link, command, "ok", {"changed": changed})

    def create(self, given: Definitions, replace: bool, now: float) -> list[str]:
        """What is new or other now."""
        assert self.desk is not None and self.feeds is not None
        feeds, store = self.feeds, self.desk.store
        before = dict(store.catalog.channels)
        changed = store.catalog.create(given.datasets, given.channels, replace)
        for dataset in given.datasets:
            feeds.begin(dataset, now)
        for name in [channel.name for channel in given.channels if channel.name in changed]:
            voided = store.executions.begin(store.catalog.channels[name])
            self.desk.failures.pop(name, None)
            if name in before:
                self.desk.backend.replaced(before[name], store.catalog.channels[name], voided, now)
        store.note_catalog()
        return changed

    def on_drop(self, link: Link, command: Command, now: float) -> None:
        assert self.desk is not None
        store, name = self.desk.store, str(command.arguments["name"])
        channel = store.catalog.channel(name)
        held = [k for k in store.interest.by_be.values() if k.kept.channel == name]
        users = [k for k in held if k.wanted and k.kept.version == channel.version]
        if users and not command.arguments.get("force"):
            raise ChannelError(f"channel {name} has {len(users)} subscriptions: --force ends them")
        store.catalog.drop_channel(name)
        for known in held:
            store.interest.forget(known.be)
        store.executions.end(channel)
        self.desk.failures.pop(name, None)
        store.note_catalog()
        self.desk.backend.troubled(name, "ended", f"channel {name} was dropped")
        self._answer(link, command, "ok", {"dropped": name})

    def on_drop_dataset(self, link: Link, command: Command, now: float) -> None:
        assert self.desk is not None and self.feeds is not None
        name = str(command.arguments["name"])
        self.desk.store.catalog.drop_dataset(name)
        self.feeds.end(name, now)
        self.desk.store.note_catalog()
        self._answer(link, command, "ok", {"dropped": name})

    # --- what there is ------------------------------------------------------------------------------------

    def _ls(self, command: Command, now: float) -> dict[str, Any]:
        assert self.desk is not None
        rows = [self._row(channel, now) for channel in self.desk.store.catalog.channels.values()]
        return {"channels": rows, **self._driver(now)}

    def _driver(self, now: float) -> dict[str, Any]:
        assert self.desk is not None
        desk = self.desk
        none_s = None if desk.driver else round(now - desk.since, 1)
        silent_s = round(now - (desk.until - LEASE_S), 1) if desk.driver else None
        return {"driver": desk.driver or None, "no_driver_for_s": none_s, "driver_silent_s": silent_s}

    def _row(self, channel: Channel, now: float) -> dict[str, Any]:
        assert self.desk is not None
        store = self.desk.store
        progress = store.executions.progress.get(channel.name, Progress())
        held = [
            k
            for k in store.interest.by_be.values()
            if k.kept.channel == channel.name and k.kept.version == channel.version and not k.kept.left
        ]
        failures, text = self.desk.failures.get(channel.name, (0, ""))
        state = "no driver" if not self.desk.driver else "failing" if failures else "ready"
        if channel.direct is not None:
            state = "ready"
        return {
            "name": channel.name,
            "version": channel.version,
            "period_s": channel.period_s,
            "state": state,
            "direct": channel.direct is not None,
            "trouble": text,
            "back_end": len(held),
            "brokers": len({broker for known in held for broker in known.brokers}),
            "executed": progress.executed,
            "executed_at": progress.at,
            "rows": progress.rows,
            "bytes": progress.size,
            "took_s": progress.took_s,
            "late": progress.late,
        }

    def _show(self, command: Command, now: float) -> dict[str, Any]:
        assert self.desk is not None
        store = self.desk.store
        channel = store.catalog.channel(str(command.arguments["name"]))
        kept = store.results.executions(store_name(channel.name, channel.version))
        row = self._row(channel, now)
        more = {"kept": [kept[0], kept[-1]] if kept else [], "definition": msgspec.to_builtins(channel)}
        datasets = {name: msgspec.to_builtins(d) for name, d in store.catalog.datasets.items()}
        return {"channel": {**row, **more}, "datasets": datasets, **self._driver(now)}

    def _datasets(self, command: Command, now: float) -> dict[str, Any]:
        assert self.desk is not None
        store = self.desk.store
        return {"datasets": [self._dataset_row(d) for d in store.catalog.datasets.values()]}

    def _dataset_row(self, dataset: Dataset) -> dict[str, Any]:
        assert self.desk is not None
        log = self.desk.store.log
        rows = max(log.end(dataset.name) - log.start(dataset.name) + 1, 0) if dataset.fed else None
        return {
            "name": dataset.name,
            "fed_by": dataset.filter,
            "file": dataset.file,
            "key": list(dataset.key),
            "rows": rows,
            "keep_s": dataset.keep_s if dataset.fed else None,
            "columns": [list(column) for column in dataset.columns],
        }

    def _dataset(self, command: Command, now: float) -> dict[str, Any]:
        assert self.desk is not None
        name, store = str(command.arguments["name"]), self.desk.store
        if name not in store.catalog.datasets:
            raise ChannelError(f"no dataset {name}")
        most = min(int(command.arguments.get("rows") or 0), ROWS_SHOWN)
        end = store.log.end(name)
        found = store.log.read(name, max(end - most, 0), end, BYTES_SHOWN) if most else []
        shown = [
            {"position": read.position, "publisher": read.row.publisher_name, "sequence": read.row.sequence}
            | {"accepted_at": read.row.accepted_at, "attributes": _readable(read.row.attributes)}
            for read in found
        ]
        return {"dataset": self._dataset_row(store.catalog.datasets[name]), "rows": shown}

    def _results(self, command: Command, now: float) -> dict[str, Any]:
        """Rows of an execution, or of the last one that is kept."""
        assert self.desk is not None
        store = self.desk.store
        channel = store.catalog.channel(str(command.arguments["name"]))
        where = store_name(channel.name, channel.version)
        kept = store.results.executions(where)
        wanted = int(command.arguments.get("execution") or (kept[-1] if kept else 0))
        rows: list[dict[str, Any]] = []
        size = 0
        for be in store.results.index(where, wanted) if wanted in kept else ():
            if be == STATE:
                continue
            known = store.interest.by_be.get(be)
            form = msgspec.msgpack.decode(known.kept.form) if known is not None else None
            for row in store.results.read(where, wanted, be):
                size += len(row)
                if len(rows) < ROWS_SHOWN and size < BYTES_SHOWN:
                    rows.append({"parameters": form, "row": msgspec.msgpack.decode(row)})
        return {"execution": wanted, "kept": kept, "rows": rows}


def _readable(attributes: bytes) -> Any:
    from grapevine.wire import decode_attributes

    return decode_attributes(attributes)
