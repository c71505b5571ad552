# Everything of this repository from a machine with only Python 3.11, git and make.
# uv comes from the PATH, or else into .tools by pip (with whatever pip configuration the machine has).

SHELL  := /bin/bash
PYTHON ?= python3
UV     ?= $(shell uv --version >/dev/null 2>&1 && command -v uv || echo .tools/bin/uv)
EXTRAS ?= figures deploy spark web top
GROUPS ?= dev fuzz browser
BENCH  ?= everything matching

SYNC = $(UV) sync --locked --inexact $(EXTRAS:%=--extra %) $(GROUPS:%=--group %)
RUN  = $(UV) run --no-sync

.DEFAULT_GOAL := help
.PHONY: help setup demo demo-channels test check proof bench bench-guard recordings vendor wheels clean

help:  ## this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-12s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

.tools/bin/uv:
	$(PYTHON) -m venv .tools
	.tools/bin/pip install --quiet 'uv>=0.5'

setup: $(UV)  ## uv and the locked environment in .venv
	$(SYNC)

demo: setup  ## an overlay of real brokers on this machine, end to end (KEEP=1 leaves it running, WEB=1 opens the page)
	$(RUN) pubctl demo --picture build/overlay.svg $(if $(KEEP),--keep) $(if $(WEB),--web)

demo-channels: setup  ## channels over Spark: emergencies in Helsinki, six brokers, 300 subscribers that are moved, a page
	$(RUN) pubctl channel demo --page build/channels.html

test: $(UV)  ## every stage of the tests, with its time (STAGES="unit sim" picks some)
	@UV='$(UV)' SYNC='$(SYNC)' $(PYTHON) tests/stages.py $(STAGES)

check: setup  ## format, lint, types, fast tests: under two minutes
	@failed=; \
	$(RUN) ruff format --check --quiet . || failed="$$failed format"; \
	$(RUN) ruff check --quiet . || failed="$$failed lint"; \
	$(RUN) mypy || failed="$$failed types"; \
	HYPOTHESIS_PROFILE=quick $(RUN) pytest -q -m 'not slow' tests/unit tests/paper || failed="$$failed tests"; \
	test -z "$$failed" || { echo "check failed:$$failed" >&2; exit 1; }

proof: setup  ## every claim in full; resumable, hours (PROOF="--list", PROOF="--only core")
	$(RUN) python -m tools.proof $(PROOF)

bench: GROUPS += bench
bench: setup  ## the measurements of bench/, one file a question (BENCH="broker latency" picks some)
	@set -e; for question in $(BENCH); do echo "== bench.$$question"; $(RUN) python -m bench.$$question; done

bench-guard: GROUPS += bench
bench-guard: setup  ## counted work per publication against the committed figures; fails beyond 3 %
	$(RUN) python -m bench.guard

recordings: setup  ## the tutorial typed in a terminal and drawn, docs/pictures/tutorial-*.svg (root: in a network of its own)
	unshare --net --pid --fork --kill-child --mount-proc \
		bash -c 'ip link set lo up && exec $(RUN) python -m tools.recordings'

vendor: ## what the live page takes from npm, fetched again; rewrites static/vendor/vendor.toml
	$(RUN) python -m tools.web.vendored

wheels: $(UV)  ## both wheels into dist/
	$(UV) build --all-packages --wheel --out-dir dist

clean:  ## what the other targets made, except .tools and .proof
	rm -rf .venv .cache .mypy_cache .pytest_cache .ruff_cache .hypothesis dist build
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
