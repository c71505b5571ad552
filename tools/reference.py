"""`python -m tools.reference`: docs/reference/, written from the code: every command and option of pubctl,
every metric, every event. A test compares the committed pages with what this writes."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import click

from tools.pubctl.commands import LazyGroup
from tools.pubctl.running import root

ROOT = Path(__file__).resolve().parents[1]
PAGES = ROOT / "docs" / "reference"
WRITTEN = "Written by `python -m tools.reference` from the code; do not edit.\n"
FLAGS = {each.name for each in root.params}  # that every command takes, too
OR = "; or: "
LEVELS = ("info", "warn", "bad")


def main() -> None:
    PAGES.mkdir(exist_ok=True)
    for name, text in pages().items():
        (PAGES / name).write_text(text)
        print(f"docs/reference/{name}: {len(text.splitlines())} lines")


def pages() -> dict[str, str]:
    return {"pubctl.md": pubctl(), "metrics.md": metrics(), "events.md": events()}


def _table(head: tuple[str, ...], rows: Sequence[tuple[str, ...]]) -> str:
    lines = [head, ("---",) * len(head), *rows]
    return "".join(f"| {' | '.join(cell.replace('|', '&#124;') for cell in line)} |\n" for line in lines)


# --- pubctl ------------------------------------------------------------------------------------------


def pubctl() -> str:
    intro = (
        "Every command also takes the flags of `pubctl` itself; `--help` says the same and what comes next."
    )
    return f"# pubctl: every command and option\n{WRITTEN}\n{intro}\n\n" + "\n".join(
        _commands(root, "pubctl")
    )


def _commands(command: click.Command, path: str) -> Iterator[str]:
    context = click.Context(command, info_name=path, terminal_width=100, max_content_width=100)
    yield _command(command, path, context)
    if isinstance(command, click.Group):
        for name in command.list_commands(context):
            inner = command.get_command(context, name)
            if inner is not None and not inner.hidden:
                yield from _commands(inner, f"{path} {name}")


def _command(command: click.Command, path: str, context: click.Context) -> str:
    usage = " ".join([path, *command.collect_usage_pieces(context)])
    said = [f"## {path}", f"```\n{usage}\n```"]
    if command.help:
        paragraphs = command.help.replace("\b\n", "").split("\n\n")
        said.append("\n\n".join(" ".join(text.split()) for text in paragraphs))
    if isinstance(command, LazyGroup):
        said.append(
            _table(("command", ""), [(f"`{n}`", text) for n, (_, _, text) in command.entries.items()])
        )
    own = [each for each in command.params if command is root or each.name not in FLAGS]
    options = [record for each in own if (record := each.get_help_record(context)) is not None]
    rows = [(f"`{names}`", text) for names, text in options]
    if rows:
        said.append(_table(("option", ""), rows))
    return "\n\n".join(part.rstrip("\n") for part in said) + "\n"


# --- metrics -----------------------------------------------------------------------------------------


def metrics() -> str:
    tree = ast.parse((ROOT / "daemon" / "metrics.py").read_text())
    found = {name: (kind, text) for name, kind, text in _metrics(tree)}
    rows = [(f"`{name}`", kind, text) for name, (kind, text) in sorted(found.items())]
    return (
        f"# Metrics\n{WRITTEN}\n"
        "What a broker with `http.listen` answers on `/metrics`. No name of a client, broker or\n"
        "subscription is a label. How to scrape them: [watch](../howto/watch.md).\n\n"
        + _table(("metric", "kind", ""), rows)
    )


def _metrics(tree: ast.AST) -> Iterator[tuple[str, str, str]]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
            made, words = node.func.id, [_text(argument) for argument in node.args]
            if made in ("_counter", "_gauge") and words[1:] and words[1]:
                if "{" not in words[0]:
                    yield f"grapevine_{words[0]}", made.removeprefix("_"), words[1]
            elif made == "Metric" and words[0] and "{" not in words[0]:
                yield words[0], words[1], words[2] or "Frames and requests refused, by `reason`."
        elif isinstance(node, ast.Tuple) and len(node.elts) == 3:
            name, text = _text(node.elts[0]), _text(node.elts[1])
            if name.endswith("_total") and text:
                yield f"grapevine_{name}", "counter", text


def _text(node: ast.expr) -> str:
    """A string as it is written, what is filled in between braces; empty for anything else."""
    match node:
        case ast.Constant(value=str(text)):
            return text
        case ast.JoinedStr(values=parts):
            return "".join(_text(part) for part in parts)
        case ast.FormattedValue(value=ast.Name(id=name) | ast.Attribute(attr=name)):
            return "{" + name.strip("_") + "}"
        case ast.FormattedValue():
            return "{..}"
        case ast.Call(func=ast.Attribute(value=ast.Name(id="counted"), attr="format"), args=[word]):
            return f"publications_{_text(word)}_total"
        case ast.IfExp(body=body, orelse=other):
            return " or ".join(filter(None, (_text(body), _text(other))))
    return ""


# --- events ------------------------------------------------------------------------------------------


class Told(NamedTuple):
    kind: str
    level: str
    fields: tuple[str, ...]
    text: str


def events() -> str:
    found: dict[str, Told] = {}
    for folder in ("overlay", "daemon"):
        for path in sorted((ROOT / folder).rglob("*.py")):
            for told in _events(ast.parse(path.read_text())):
                before = found.get(told.kind, told)
                fields = tuple(dict.fromkeys((*before.fields, *told.fields)))
                texts = dict.fromkeys(filter(None, (*before.text.split(OR), told.text)))
                found[told.kind] = told._replace(fields=fields, text=OR.join(texts))
    rows = [
        (f"`{told.kind}`", told.level, ", ".join(f"`{field}`" for field in told.fields), told.text)
        for _, told in sorted(found.items())
    ]
    return (
        f"# Events\n{WRITTEN}\n"
        "What `pubctl events`, the page and a broker's log tell. Every event has `n`, `t_ms`, `kind`,\n"
        "`level` and `text`; fields say the same for programs ([schema](../schema/event.json)).\n\n"
        + _table(("kind", "level", "fields", "a sentence like"), rows)
    )


def _events(tree: ast.Module) -> Iterator[Told]:
    for function in ast.walk(tree):
        if isinstance(function, ast.FunctionDef):
            for node in ast.walk(function):
                if isinstance(node, ast.Call) and _calls_event(node.func) and len(node.args) >= 3:
                    yield from _told(node, function, tree)


def _calls_event(called: ast.expr) -> bool:
    return isinstance(called, ast.Attribute) and called.attr == "event"


def _told(call: ast.Call, function: ast.FunctionDef, tree: ast.Module) -> Iterator[Told]:
    kind, text = call.args[1], call.args[2]
    levels = [said for argument in call.args[3:] for said in _values(argument, function)] or ["info"]
    level = " or ".join(dict.fromkeys(said for said in levels if said in LEVELS)) or "info"
    fields = tuple(dict.fromkeys(_fields(call, function)))
    sentence = next(iter(_values(text, function)), "")
    kinds = [_text(kind)] if _text(kind) else _kinds_passed(tree, function)
    for one in kinds:
        yield Told(one, level, fields, sentence)


def _values(node: ast.expr, function: ast.FunctionDef) -> list[str]:
    """What this may be: itself, or what is assigned to this name in the function."""
    if said := _text(node):
        return said.split(" or ") if isinstance(node, ast.IfExp) else [said]
    if not isinstance(node, ast.Name):
        return []
    before = [value for value in _assigned(node.id, function) if value.lineno < node.lineno]
    return [said for value in reversed(before) if (said := _text(value))]


def _assigned(name: str, function: ast.FunctionDef) -> Iterator[ast.expr]:
    for node in ast.walk(function):
        if isinstance(node, ast.Assign | ast.AnnAssign) and node.value is not None:
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            if any(isinstance(each, ast.Name) and each.id == name for each in targets):
                yield node.value


def _fields(call: ast.Call, function: ast.FunctionDef) -> Iterator[str]:
    for keyword in call.keywords:
        if keyword.arg:
            yield keyword.arg
        elif isinstance(keyword.value, ast.Name):
            for value in _assigned(keyword.value.id, function):
                yield from _keys(value)
        else:
            yield from _keys(keyword.value)


def _keys(value: ast.expr) -> Iterator[str]:
    for node in ast.walk(value):
        if isinstance(node, ast.Dict):
            yield from filter(None, (_text(key) for key in node.keys if key is not None))
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "dict":
            yield from filter(None, (keyword.arg for keyword in node.keywords))


def _kinds_passed(tree: ast.Module, function: ast.FunctionDef) -> list[str]:
    """A function that is told the kind: every kind that it is called with in its module."""
    calls = [node for node in ast.walk(tree) if isinstance(node, ast.Call)]
    told = [call for call in calls if getattr(call.func, "attr", "") == function.name]
    said = [_text(argument) for call in told for argument in call.args]
    assigned = [_text(node.value) for node in ast.walk(function) if isinstance(node, ast.Assign)]
    return [word for word in dict.fromkeys((*said, *assigned)) if "." in word and " " not in word]


if __name__ == "__main__":
    main()
