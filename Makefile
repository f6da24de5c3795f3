# The only door. `make` alone lists what it opens; every target prepares what it needs, on a fresh clone too.
#
#   make test PYTHON=python3.13     the interpreter for a new .venv (after `make clean`)
#   make test JOBS=2                test processes; many of them wait most of the time
#   make test ARGS="-k inbox -x"    anything pytest takes; also for test-ui, acceptance, chaos and bench

.DEFAULT_GOAL := help
.NOTPARALLEL:
MAKEFLAGS += --no-print-directory

ARGS ?=
JOBS ?= 4
ACCEPTANCE_JOBS ?= 2
UI_JOBS ?= 2
LINTED := $(wildcard src tests tools bench examples deploy)

# The first interpreter that is new enough; empty if there is none.
NEW_ENOUGH := import sys; sys.exit(sys.version_info < (3, 11))
PYTHON ?= $(shell for python in python3 python3.14 python3.13 python3.12 python3.11; do \
	$$python -c '$(NEW_ENOUGH)' 2>/dev/null && { echo $$python; break; }; done)

RUN := .venv/bin/python
PYTEST := $(RUN) -m pytest
READY := .venv/.ready

.PHONY: help setup demo up page test test-ui acceptance chaos bench bench-peers bench-quick lint docs wheel lock clean

help: ## list the targets
	@echo 'Holdfast: a durable runtime for AI agents'
	@echo
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/  make \1	\2/p' Makefile | expand -t 20
	@echo
	@echo 'On a fresh clone: make demo, make test. Each sets up what it needs.'

setup: $(READY) ## make .venv from the hash-locked requirements
	@echo 'setup: .venv is ready'

demo: $(READY) ## an agent is killed three times; see what becomes of it
	@$(RUN) -m tools.make_page --if-missing
	@$(RUN) -m holdfast demo $(ARGS)

up: $(READY) ## API, page and worker with an example's agents, until Ctrl-C
	@$(RUN) -m tools.make_page --if-missing
	@$(RUN) -m holdfast up examples/support.py $(ARGS)

page: $(READY) ## build the page that the API serves at /, with a node of its own
	@$(RUN) -m tools.make_page

test: $(READY) ## all quick tests on memory, SQLite and Postgres
	@$(PYTEST) -n $(JOBS) --dist=loadgroup $(ARGS)

test-ui: $(READY) ## the page in a real browser, on SQLite and Postgres; installs Chromium where it may
	@$(RUN) -m tools.run_ui_tests -n $(UI_JOBS) $(ARGS)

acceptance: $(READY) ## the acceptance checks by name; writes build/acceptance.json
	@$(PYTEST) -m seed --acceptance -n $(ACCEPTANCE_JOBS) --dist=loadgroup --quiet $(ARGS)

chaos: $(READY) ## long fault runs: kills, power cuts, random worlds
	@$(PYTEST) -m chaos --hypothesis-profile=chaos $(ARGS)

bench: $(READY) ## side by side with the raw databases and the best peers; writes build/bench.json and pictures
	@$(RUN) -m bench --peers best $(ARGS)

bench-peers: $(READY) ## the same with all peers; takes by far the longest
	@$(RUN) -m bench --peers all $(ARGS)

bench-quick: $(READY) ## the same shape with few rounds; the figures are rough
	@$(RUN) -m bench --quick --rounds 1 --peers best $(ARGS)

lint: $(READY) ## format, style, types, layers
	@$(RUN) -m ruff format --check $(LINTED)
	@$(RUN) -m ruff check $(LINTED)
	@$(RUN) -m mypy $(LINTED)
	@$(RUN) -c 'from importlinter.cli import lint_imports_command as lint; lint()' --no-logo

docs: $(READY) ## regenerate the reference pages and check every link and snippet
	@$(RUN) -m tools.make_errors_reference
	@$(RUN) -m tools.make_metrics_reference
	@$(RUN) -m tools.check_docs

wheel: page ## build/holdfast-*.whl, with the page in it
	@$(RUN) -m pip wheel --quiet --no-deps --no-build-isolation --wheel-dir build .
	@ls build/holdfast-*.whl

lock: $(READY) ## write requirements/*.txt again (make lock ARGS=--upgrade takes the newest)
	@$(RUN) -m tools.lock $(ARGS)

clean: ## remove .venv, build/, the built page and caches
	@rm -rf ui/node_modules src/holdfast/server/page/static
	@rm -rf .venv build .mypy_cache .ruff_cache .pytest_cache .import_linter_cache .hypothesis
	@find src tests tools -name __pycache__ -type d -prune -exec rm -rf {} +

$(READY): requirements/dev.txt pyproject.toml tools/setup_venv.py
	@"$(or $(PYTHON),false)" -c '$(NEW_ENOUGH)' 2>/dev/null || { \
		echo 'Holdfast needs Python 3.11 or newer, and $(or $(PYTHON),python3) is older or missing.' >&2; \
		echo 'Install one, or name one: make $(or $(MAKECMDGOALS),setup) PYTHON=/path/to/python3.12' >&2; exit 1; }
	@"$(PYTHON)" tools/setup_venv.py
