"""The commented default file and the reference page, written from the keys themselves."""

from __future__ import annotations

from collections.abc import Iterator

from daemon.settings.keys import Key, keys_of, sections
from daemon.settings.schema import LINE
from daemon.settings.section import Section
from daemon.settings.values import toml_value as toml_value

INTRODUCTION = """# Configuration

Written by `python -m daemon.settings`; a test fails when it no longer says what the code does.

`grapevined --config FILE` reads TOML. Later layers win: defaults, the file, `FILE.d/*.toml` in the order of
their names, the environment (`GRAPEVINE_BROKER__NAME=b1`), and `--set broker.name=b1`. `--check-config`
checks and stops, `--default-config` prints the commented file. Mistakes are reported all at once, each with
its file and key, and end with exit code 78.

*reload*: a running broker takes a new value on SIGHUP or `pubctl broker reload`; *restart*: it does not, and
says so. *cluster-wide*: all brokers of an overlay must agree; a difference is refused when two meet."""


def marks(key: Key) -> str:
    return ("reload" if key.reload else "restart") + (", cluster-wide" if key.cluster else "")


def limits(key: Key) -> str:
    """The values that a key takes, as one would say them."""
    meta = key.meta
    if key.choices:
        return ("any of " if key.many else "") + ", ".join(f'"{choice}"' for choice in key.choices)
    kind = {bool: "true or false", int: "integer", float: "number", str: "string"}.get(
        key.plain, "list of strings"
    )
    ends = [("from", meta.ge), ("over", meta.gt), ("to", meta.le), ("below", meta.lt)]
    return " ".join([kind, *(f"{word} {end:g}" if isinstance(end, float) else f"{word} {end}"
                             for word, end in ends if end is not None)])  # fmt: skip


def default_file() -> str:
    return "\n".join(_default_lines()) + "\n"


def _default_lines() -> Iterator[str]:
    yield LINE
    yield "# Configuration of grapevined. Every key is here with its default, commented out."
    yield "# Later ones win: this file, FILE.d/*.toml, the environment (GRAPEVINE_BROKER__NAME=b1), --set."
    yield "# [reload]: a running broker takes a new value on SIGHUP. [restart]: it does not."
    yield "# [cluster-wide]: all brokers of an overlay must agree; a difference is refused when they meet."
    for name, section in sections().items():
        yield f"\n[{name}]  # {_first_line(section)}"
        for key in keys_of(name, section):
            yield f"# {key.text} ({limits(key)}) [{marks(key)}]"
            yield f"#{key.name} = {toml_value(key.default)}"


def reference_page() -> str:
    return "\n".join(_page_lines()) + "\n"


def _page_lines() -> Iterator[str]:
    yield INTRODUCTION
    for name, section in sections().items():
        yield f"\n## [{name}]\n\n{_first_line(section)}\n"
        yield "| key | default | values | change | meaning |"
        yield "|---|---|---|---|---|"
        for key in keys_of(name, section):
            cells = (f"`{key.name}`", f"`{toml_value(key.default)}`", limits(key), marks(key), key.text)
            yield "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"


def _first_line(section: type[Section]) -> str:
    return (section.__doc__ or "").partition("\n")[0]
