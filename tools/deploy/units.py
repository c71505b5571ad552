"""The files that make a host run brokers under systemd: units, one configuration per broker, man pages.

Units and pages come with the package; the unit gets the path of the environment it is installed from. A
configuration that exists is the operator's and stays as it is.
"""

from __future__ import annotations

import sysconfig
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from daemon.settings.values import toml_value

SERVICE, TARGET, CHANNELS = "grapevined@.service", "grapevined.target", "grapevine-channels.service"
SHIPPED_PATH = "/opt/grapevine/bin/grapevined"  # in the shipped unit
SHIPPED_PUBCTL = "/opt/grapevine/bin/pubctl"
UNITS, CONFIGURATIONS, MANUAL = (
    Path(place) for place in ("etc/systemd/system", "etc/grapevine", "usr/local/share/man")
)
PAGES = ("grapevined.8", "pubctl.1")
HIDDEN = ("/home", "/root", "/run/user", "/tmp", "/var/tmp")  # from a unit with ProtectHome and PrivateTmp


class Placed(NamedTuple):
    path: Path
    text: str
    keep: bool = False  # what is there already stays


def shipped(folder: str, name: str) -> str:
    """A file of the package, installed or in a source tree; FileNotFoundError names where it should be."""
    source = Path(__file__).resolve().parents[2]
    installed = Path(sysconfig.get_path("data")) / "share"
    if folder == "man":
        places = [source / "docs" / "man" / name, installed / "man" / f"man{name[-1]}" / name]
    else:
        places = [source / "systemd" / name, installed / "grapevine" / "systemd" / name]
    found = next((path for path in places if path.is_file()), places[-1])
    return found.read_text()


def service(executable: Path) -> str:
    return shipped("systemd", SERVICE).replace(SHIPPED_PATH, str(executable))


def target() -> str:
    return shipped("systemd", TARGET)


def channels_service(executable: Path) -> str:
    """The driver of channels; `executable` is grapevined, beside which pubctl lies."""
    return shipped("systemd", CHANNELS).replace(SHIPPED_PUBCTL, str(executable.with_name("pubctl")))


# Lines of the shipped unit that hold wherever the driver lies; others name places or hide them.
DEPLOYED = (
    *("Description", "Documentation", "StartLimitIntervalSec", "StartLimitBurst", "Type", "NotifyAccess"),
    *("TimeoutStartSec", "TimeoutStopSec", "KillMode", "Restart", "RestartSec", "SyslogIdentifier", "UMask"),
    *("LimitNOFILE", "LimitCORE", "TasksMax", "MemoryMax", "NoNewPrivileges", "ProtectClock", "WantedBy"),
    *("ProtectKernelLogs", "ProtectKernelModules", "ProtectKernelTunables", "RestrictRealtime"),
)


def deployed_channels(place: str, words: Sequence[str], environment: Mapping[str, str]) -> str:
    """The driver of channels as `pubctl deploy` starts it: `words` in the directory `place`, by the user that
    deploys. Its first line says whose it is."""
    more = [f"WorkingDirectory={_unquoted(place)}", f"StandardOutput=append:{_unquoted(place)}/log"]
    more += ["StandardError=inherit", f"ExecStart={' '.join(map(_quoted, words)).replace('$', '$$')}"]
    more += [f"Environment={_quoted(f'{key}={value}')}" for key, value in environment.items()]
    lines = [f"# deployed to {place}"]
    for line in shipped("systemd", CHANNELS).splitlines():
        if line.startswith("[") or line.partition("=")[0] in DEPLOYED:
            lines.append(line)
        if line == "[Service]":
            lines += more
    return "\n".join(lines) + "\n"


def _unquoted(value: str) -> str:
    return value.replace("%", "%%")


def _quoted(word: str) -> str:
    """As systemd reads it."""
    escaped = _unquoted(word).replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


def configuration(listen: Sequence[str], neighbours: Sequence[str]) -> str:
    """A short file: what is not in it has its default."""
    lines = [
        "# Every key: grapevined --default-config. Check a change: pubctl config check FILE.",
        "[broker]",
    ]
    lines.append(f"listen = {toml_value(tuple(listen))}")
    lines += ["", "[tree]", f"neighbours = {toml_value(tuple(neighbours))}"]
    return "\n".join(lines) + "\n"


def placed(
    root: Path, executable: Path, configurations: Mapping[str, str], channels: bool = False
) -> list[Placed]:
    """Everything that installing writes under `root`; `configurations` by the name of the broker. `channels`:
    their driver, too."""
    files = [Placed(root / UNITS / SERVICE, service(executable)), Placed(root / UNITS / TARGET, target())]
    if channels:
        files.append(Placed(root / UNITS / CHANNELS, channels_service(executable)))
    files += [
        Placed(root / CONFIGURATIONS / f"{name}.toml", text, keep=True)
        for name, text in configurations.items()
    ]
    files += [Placed(root / MANUAL / f"man{page[-1]}" / page, shipped("man", page)) for page in PAGES]
    return files


def change(file: Placed) -> str:
    """What writing would do: "new", "changed", "same" or "kept"."""
    if not file.path.exists():
        return "new"
    if file.keep:
        return "kept"
    return "same" if file.path.read_text() == file.text else "changed"


def write(file: Placed) -> str:
    done = change(file)
    if done in ("new", "changed"):
        file.path.parent.mkdir(parents=True, exist_ok=True)
        beside = file.path.with_name(f".{file.path.name}.new")
        beside.write_text(file.text)
        beside.chmod(0o644)
        beside.replace(file.path)
    return done


def unreachable(executable: Path) -> str:
    """Why a unit could not run this program; empty if it can."""
    if not executable.is_file():
        return f"{executable} does not exist: install grapevine-broker into this environment"
    for path in (executable, executable.resolve(), (executable.parent / "python").resolve()):
        for place in HIDDEN:
            if path.is_relative_to(place):
                return (
                    f"{path} lies under {place}, which the unit does not see: install grapevine-broker "
                    "elsewhere, such as /opt/grapevine, and call pubctl from there"
                )
    return ""
