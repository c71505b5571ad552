"""`grapevined`: the command line and its exit codes (0, 1 failure, 78 configuration)."""

from __future__ import annotations

import argparse
import importlib.util
import os
import sys
from collections.abc import Sequence
from pathlib import Path

from daemon.errors import EXIT_CONFIG, EXIT_FAILED, EXIT_OK, Failure
from daemon.settings import ConfigError, Settings, load
from daemon.settings.reference import default_file

SHADOWED = ("overlay", "matching")


def main(arguments: Sequence[str] | None = None) -> int:
    options = parse(arguments)
    if options.default_config:
        sys.stdout.write(default_file())
        return EXIT_OK

    def read() -> Settings:
        return load(options.config, os.environ, options.set)

    try:
        settings = read()
    except ConfigError as error:
        for problem in error.problems:
            say(str(problem))
        return EXIT_CONFIG
    if options.check_config:
        say(f"{options.config or 'configuration'}: ok")
        return EXIT_OK
    return run(settings, read)


def run(settings: Settings, read: object) -> int:
    if shadow := shadowed():
        say(shadow)
        return EXIT_FAILED
    from daemon.assembly import broker_name
    from daemon.logs import set_up
    from daemon.process import Process

    set_up(broker_name(settings), settings.log.level)
    try:
        process = Process(settings, read)  # type: ignore[arg-type]
    except Failure as failure:
        say(str(failure))
        return EXIT_FAILED
    return process.run()


def parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        "grapevined",
        description="A broker of the grapevine overlay.",
        epilog="Next: --default-config shows every key; pubctl unit install NAME --now makes it a service.",
    )
    parser.add_argument("--config", type=Path, metavar="FILE", help="TOML; also FILE.d/*.toml")
    parser.add_argument("--check-config", action="store_true", help="check the configuration and stop")
    parser.add_argument(
        "--default-config", action="store_true", help="print a commented default file and stop"
    )
    parser.add_argument(
        "--set", action="append", default=[], metavar="SECTION.KEY=VALUE", help="overrides everything else"
    )
    return parser.parse_args(arguments)


def say(text: str) -> None:
    sys.stderr.write(f"grapevined: {text}\n")


def shadowed() -> str:
    """Our top-level names are generic: say so if another file would be imported under one of them."""
    home = Path(__file__).resolve().parents[1]
    for name in SHADOWED:
        spec = importlib.util.find_spec(name)
        if spec is None or spec.origin is None:
            return f"the package {name} is missing: install grapevine-broker again"
        if Path(spec.origin).resolve().parents[1] != home:
            return f"{spec.origin} stands before our package {name}: remove it or its directory from the path"
    return ""


if __name__ == "__main__":
    sys.exit(main())
