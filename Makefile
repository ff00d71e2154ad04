# Every target makes .venv itself; `make setup` does just that. uv is used where it is installed, plain pip does too.
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
STAMP  := $(VENV)/.installed
CLIENTS := tests/clients/node_modules/.installed
PROJECTS := shared services/core-api services/dms-ingest services/dms-worker services/alerter

.DEFAULT_GOAL := help
.PHONY: help setup run clients chromium test quick lint docs lock ci compose-test faults compose-faults bench-bulk bench-queue bench-upload bench-old-snapshot

help:  ## this list
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):[^#]*## */\1\t/' | awk -F'\t' '{printf "  make %-13s %s\n", $$1, $$2}'

$(STAMP): requirements/dev.txt $(addsuffix /pyproject.toml,$(PROJECTS))
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "NEXARCH needs Python 3.11 or newer: make PYTHON=/path/to/python3.11")'
	@rm -f $(STAMP)
	@if command -v uv >/dev/null 2>&1; then \
	  echo "Installing into $(VENV) with uv ..." && \
	  uv venv --quiet --allow-existing --python $(PYTHON) $(VENV) && \
	  uv pip install --quiet --python $(BIN)/python --require-hashes -r requirements/dev.txt && \
	  uv pip install --quiet --python $(BIN)/python --no-deps --no-build-isolation $(addprefix -e ./,$(PROJECTS)); \
	else \
	  echo "Installing into $(VENV) with pip (a minute or two) ..." && \
	  $(PYTHON) -m venv $(VENV) && \
	  $(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements/dev.txt && \
	  $(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation $(addprefix -e ./,$(PROJECTS)); \
	fi
	@touch $(STAMP)

setup: $(STAMP)  ## make .venv with everything the other targets need

run: $(STAMP)  ## everything, with a demonstration; FILE=path SEARCH=word ONCE=1 PORT_BASE=9000
	@$(BIN)/nexarch up $(if $(FILE),--file "$(FILE)") $(foreach word,$(SEARCH),--search "$(word)") $(if $(ONCE),--once) $(if $(PORT_BASE),--port-base $(PORT_BASE))

# Debian's packages where a command is missing and we may install them: $(call needs,command,packages,what for).
define needs
	@if ! command -v $(1) >/dev/null; then \
	  if [ "$$(id -u)" != 0 ] || ! command -v apt-get >/dev/null; then \
	    echo "$(3)" >&2; exit 1; \
	  fi; \
	  echo "Installing $(2) ..." && apt-get update -qq && \
	  DEBIAN_FRONTEND=noninteractive apt-get install -qq --no-install-recommends $(2) >/dev/null; \
	fi
endef

$(CLIENTS): tests/clients/package-lock.json
	$(call needs,npm,nodejs npm,The tests run clients from npm: install node 18 or newer and npm.)
	@echo "Installing the clients of the tests into tests/clients/node_modules ..."
	@cd tests/clients && npm ci --silent
	@touch $(CLIENTS)

clients: $(CLIENTS)  ## the stock JavaScript clients that the tests run

chromium:  ## the browser in which the tests run them too
	$(call needs,chromium,chromium,The tests drive a browser: install Chromium so that the command chromium starts it.)

test: $(STAMP) $(CLIENTS) chromium  ## every test, on a PostgreSQL that the tests start themselves
	@echo "One file: $(BIN)/pytest tests/shared/test_http.py   one test: $(BIN)/pytest -k 'part of its name'"
	@$(BIN)/pytest $(if $(PYTEST_ARGS),$(PYTEST_ARGS),-n 2)

quick: $(STAMP)  ## the tests that need neither database nor object store, in seconds
	@$(BIN)/pytest -q -m 'not database and not object_store'

lint: $(STAMP)  ## ruff, mypy --strict, import-linter
	@$(BIN)/ruff format --check .
	@$(BIN)/ruff check .
	@$(BIN)/mypy shared services tests bench docs/write.py
	@$(BIN)/lint-imports

docs: $(STAMP)  ## write docs/openapi/*.json and docs/problems.md from the code
	@$(BIN)/python docs/write.py

lock: $(STAMP)  ## pin requirements/*.txt anew (needs uv)
	@uv pip compile --quiet --upgrade --universal --python-version 3.11 --generate-hashes --no-emit-index-url --no-emit-find-links --no-header \
	  --no-emit-package nexarch --no-emit-package core-api --no-emit-package dms-ingest --no-emit-package dms-worker --no-emit-package alerter \
	  $(addsuffix /pyproject.toml,$(PROJECTS)) --output-file requirements/runtime.txt
	@uv pip compile --quiet --upgrade --universal --python-version 3.11 --generate-hashes --no-emit-index-url --no-emit-find-links --no-header \
	  --no-emit-package nexarch --no-emit-package core-api --no-emit-package dms-ingest --no-emit-package dms-worker --no-emit-package alerter \
	  $(addsuffix /pyproject.toml,$(PROJECTS)) --all-extras --group dev --group bench --output-file requirements/dev.txt
	@echo hatchling | uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-emit-index-url --no-emit-find-links --no-header \
	  --no-annotate --constraint requirements/dev.txt - --output-file requirements/build.txt

bench/tus_server/node_modules/.installed: bench/tus_server/package-lock.json
	@cd bench/tus_server && npm ci --silent
	@touch $@

bench-upload: $(STAMP) bench/tus_server/node_modules/.installed  ## how fast 1 GiB goes in and out, next to bare programs and @tus/server; MIB=64 for a try
	@$(BIN)/python bench/upload.py $(MIB)

bench-bulk: $(STAMP)  ## how fast 1,000 documents are changed in one call, next to the bare statements
	@$(BIN)/python bench/bulk.py

bench-queue: $(STAMP)  ## how fast the queue is, next to bare loops and to pgqueuer; CASE=drain for one, QUICK=1 for a try
	@$(BIN)/python bench/queue.py $(if $(QUICK),--quick) $(CASE)

bench-old-snapshot: $(STAMP)  ## how much one forgotten transaction slows the queue down
	@$(BIN)/python bench/old_snapshot.py

faults: $(STAMP)  ## kill, stop, pause and fill up every part while clients upload, check all, write docs/faults.md
	@PYTHONPATH=tests $(BIN)/python -m faults --write $(FAULTS_ARGS)

compose-faults: $(STAMP)  ## the same with the containers (needs Docker)
	@PYTHONPATH=tests $(BIN)/python -m faults compose --write $(FAULTS_ARGS)

compose-test: $(STAMP)  ## the containers for real: build, start, work, scale, look from inside (needs Docker; COMPOSE=docker-compose takes that one)
	@PYTHONPATH=tests $(BIN)/python -m compose.run

ci:  ## what .ci/run does: lint, every test, the containers
	@bash .ci/run
