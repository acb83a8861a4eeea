# Foreword. `make up` starts everything on this machine; `make test` runs the whole suite.
SHELL := /bin/bash
PYTHON ?= python3
VENV := .venv
STAMP := $(VENV)/.installed
# Tests never see the developer's own state; what they make lies in the clone.
TEST_ROOT := $(CURDIR)/.foreword
TEST_ENV := FOREWORD_TEST_CACHE=$(TEST_ROOT)/cache
# What one process has compiled the next one reads; `make clean` removes it.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: install up test test-fast lint docs lock bench soak clean help

help:
	@echo "make up         install what is needed and start the whole stack here"
	@echo "make test       the whole suite, the real engine included"
	@echo "make test-fast  the quick tests, which start no engine"
	@echo "make lint       format, lint, types, import contracts, our own templates and Compose file"
	@echo "make docs       the documentation as a site, in dist/docs; fails on a broken link"
	@echo "make bench      all benchmarks against their budgets (up to two hours; 4 GB of disk)"
	@echo "make soak       a million requests through the gateway (hours; it can be taken up again)"
	@echo "make install    just the Python environment (.venv)"
	@echo "make lock       make the lock files again (needs uv)"
	@echo "make clean      remove everything that was made in this clone"

install: $(STAMP)

$(STAMP): requirements.lock pyproject.toml
	@command -v $(PYTHON) >/dev/null || { echo "Python 3.11 or newer is needed (or PYTHON=/path/to/python3)" >&2; exit 1; }
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "Python 3.11 or newer is needed; $(PYTHON) is older (set PYTHON=/path/to/python3.11)" >&2; exit 1; }
	@echo "installing the gateway into $(VENV) (about 2 minutes the first time)…"
	@[ -x $(VENV)/bin/pip ] || $(PYTHON) -m venv $(VENV) || { echo "python3-venv is missing: apt-get install python3-venv" >&2; exit 1; }
	@deploy/install.sh $(VENV) requirements.lock \
		|| { echo "pip could not install requirements.lock; if it is about torch, see 'torch without CUDA' in the README" >&2; exit 1; }
	@$(VENV)/bin/pip install --quiet --no-deps --no-build-isolation --editable .
	@touch $@

up: install
	@$(VENV)/bin/foreword up $(UP_ARGS)

# The engine wants the machine for itself; all else shares two cores, and one of three always waits.
SHARED := -n 3 --dist loadfile
QUICK := -m "not engine and not slow" $(SHARED)

# AGAIN=3: up to three tests of a suite that failed are run once more, and named. Off unless asked for.
test: export AGAIN ?= 0
test: install
	$(TEST_ENV) tests/suite.sh quick $(QUICK)
	$(TEST_ENV) tests/suite.sh slow -m "slow and not engine" $(SHARED)
	$(TEST_ENV) tests/suite.sh engine -m engine

# What holds for all values is tried on fewer of them than in the whole suite.
test-fast: install
	$(TEST_ENV) $(VENV)/bin/pytest $(QUICK) --hypothesis-profile few

lint: install
	$(VENV)/bin/ruff format --check .
	$(VENV)/bin/ruff check .
	$(VENV)/bin/mypy
	MYPYPATH=deploy/pytest-plugin/src $(VENV)/bin/mypy -p foreword_pytest
	$(VENV)/bin/mypy examples
	$(VENV)/bin/lint-imports
	$(VENV)/bin/foreword lint prompts/templates prompts/agents examples
	$(VENV)/bin/foreword lint --engine-config docker-compose.yml --engine-config deploy/compose/lmcache.yaml --engine-config deploy/kubernetes/base/engines.yaml
	$(VENV)/bin/foreword lock --check

# Offline: nothing is fetched, and the pages load nothing but themselves.
docs: install
	rm -rf dist/docs
	$(VENV)/bin/python -m sphinx --fail-on-warning --keep-going --quiet -b html -c docs/site -d dist/.doctrees . dist/docs
	@echo "dist/docs/index.html"

# Both write their results to bench/results, and fail where a budget or a check does.
bench: install
	$(VENV)/bin/python -m bench.micro.suite $(BENCH_ARGS)
	$(if $(findstring --only,$(BENCH_ARGS)),,$(VENV)/bin/python -m bench.rag_cag all --cache $(TEST_ROOT)/cache)

# Five to eight hours on two cores. Interrupt it once to stop it with a result; `make soak` goes on.
soak: install
	$(VENV)/bin/python -m bench.soak --folder $(TEST_ROOT)/soak $(SOAK_ARGS)

lock:
	deploy/engine/lock.sh
	deploy/lock.sh

clean:
	rm -rf $(VENV) $(TEST_ROOT) dist .hypothesis .mypy_cache .pytest_cache .ruff_cache .import_linter_cache .coverage
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
