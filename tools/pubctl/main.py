"""`pubctl`: the command line of grapevine. stdout is data, stderr is talk.

The version is printed before anything is loaded, and nouns load when they are called: a command line that
is used in loops and completions has to be quick.
"""

from __future__ import annotations

import sys

MODULES = "tools.pubctl."
# name -> (module, attribute, help), in the order of the help
ENTRIES = {
    name: (MODULES + module, attribute, help)
    for name, module, attribute, help in (
        ("status", "status", "status", "The overlay at a glance."),
        ("web", "web", "web", "The live overlay in a browser."),
        ("top", "top", "top", "The live overlay in a terminal."),
        ("events", "events", "events", "What has happened, and what happens (--follow)."),
        ("pub", "publishing", "pub", "Publish."),
        ("sub", "subscribing", "sub", "Subscribe and print what arrives."),
        ("request", "requesting", "request", "Ask, and print the first reply."),
        ("reply", "requesting", "reply", "Answer requests."),
        ("trace", "tracing", "trace", "The path of one publication, with the reason at every broker."),
        ("broker", "broker", "broker", "Brokers: ls, info, ping, drain, reload, move."),
        ("link", "link", "link", "Links between brokers: ls."),
        ("topo", "topo", "topo", "The overlay as a picture: show, diff."),
        ("subs", "subs", "subs", "Subscriptions: ls, explain."),
        ("adv", "adv", "adv", "Advertisements: ls."),
        ("client", "client", "client", "Clients: ls, info."),
        ("relocate", "relocate", "relocate", "Publishers move: show, plan, apply, set."),
        ("strategy", "strategy", "strategy", "Soft links past pure forwarders: set."),
        ("context", "context", "context", "Brokers by a name of your own: ls, add, use, rm."),
        ("config", "config", "config", "Configurations: check, diff, schema."),
        ("stream", "stream", "stream", "What is kept on disk: ls, add, show, rm, parked."),
        ("onehop", "onehop", "onehop", "A one-hop cluster: status, segments."),
        (
            "reconfigure",
            "reconfigure",
            "reconfigure",
            "Positions of a ring's brokers: show, plan, apply, finish, abort.",
        ),
        ("key", "key", "key", "Keys and roles: new, ls, allow, revoke."),
        ("unit", "unit", "unit", "Brokers of this host under systemd: install, print."),
        ("local", "local", "local", "Brokers of a topology on this machine: up, down, status, restart."),
        ("deploy", "deploy", "deploy", "Brokers of a topology on many hosts, by ssh: up, down, upgrade..."),
        ("feed", "feed", "feed", "Rows of CSV, JSON or Parquet as publications (Spark)."),
        ("collect", "collect", "collect", "Delivery logs of all brokers to Parquet (Spark)."),
        ("report", "report", "report", "What the overlay did: tables and a page (Spark)."),
        (
            "channel",
            "channels",
            "channel",
            "Channels over Spark: create, ls, show, explain, run, sub, drop, serve...",
        ),
        ("balance", "balance", "balance", "Load by subscribers of channels: show, plan, set, apply."),
        ("dataset", "dataset", "dataset", "What channels ask of: create, ls, show, drop."),
        ("demo", "demo.command", "demo", "An overlay, publishers and subscribers, and what becomes of them."),
        ("sim", "sim", "sim", "Simulated overlays: run."),
        ("bench", "bench", "bench", "Your overlay: pub, sub, latency; measurements of the source tree."),
        ("reproduce", "reproduce", "reproduce", "The figures of a paper, measured again."),
        ("completion", "completion", "completion", "Completion for your shell."),
    )
}


def main(arguments: list[str] | None = None) -> None:
    words = sys.argv[1:] if arguments is None else arguments
    if words in (["--version"], ["-V"]):
        sys.stdout.write(f"pubctl {version()}\n")
        return
    from tools.pubctl.running import run

    sys.exit(run(words))


def version() -> str:
    from grapevine import __version__

    return __version__


if __name__ == "__main__":
    main()
