# Everything starts from a machine that has Python (3.11 or newer, with venv) and make; the rest is set up here.
#
# locks/*.txt carry versions and hashes only, so that any index or mirror can serve them:
#   run.txt    what `make demo` needs
#   image.txt  what the container image has: all extras of a deployment (deploy/Dockerfile)
#   dev.txt    everything: all extras, tests, checks, docs
#   fuzz.txt   what `make fuzz` needs beside it
#   plot.txt   what `make soak` needs beside it
#   bench.txt  what `make bench` needs beside it
#   charts.txt  what the tests of the Helm chart need: files of these packages, installed by tests.services
#   babyagi.txt  the BabyAGI that it compares with, in an environment of its own
#   tools.txt  what installs the others and builds this package

PYTHON ?= python3
ARGS ?=
BIN := .venv/bin
PY := $(BIN)/python
UV := $(BIN)/uv

# The node that pyright runs on comes from the lock, whether or not this machine has another one.
export PYRIGHT_PYTHON_GLOBAL_NODE := off
export PYRIGHT_PYTHON_IGNORE_WARNINGS := 1
export PIP_DISABLE_PIP_VERSION_CHECK := 1
# uv trusts the certificate authorities of this machine, where it has any, as pip does: a proxy that opens TLS has its own.
AUTHORITIES := /etc/ssl/certs/ca-certificates.crt /etc/pki/tls/certs/ca-bundle.crt /etc/ssl/ca-bundle.pem /etc/ssl/cert.pem
ifndef UV_SYSTEM_CERTS
export UV_SYSTEM_CERTS := $(if $(wildcard $(AUTHORITIES)),true,false)
endif
# Where the home folder cannot be written, what uv downloads stays in the environment.
ifndef UV_CACHE_DIR
export UV_CACHE_DIR := $(shell cache="$${XDG_CACHE_HOME:-$$HOME/.cache}/uv"; \
	mkdir -p "$$cache" 2>/dev/null && test -w "$$cache" && echo "$$cache" || echo "$(CURDIR)/.venv/.uv-cache")
endif
# Where a shell forbids it, each process of the tests would compile all that it imports: three seconds instead of one.
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
.PHONY: help demo dashboard test test-changed test-all test-sample simulate chaos fuzz leaks soak check bench docs lock clean

help: ## print this list
	@echo "usage: make TARGET [ARGS='...'] [PYTHON=python3.12]"
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  %-12s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

demo: .venv/.run .venv/.dashboard ## run the demo on real input: the licence watch (ARGS=--keep keeps its folder, --watch adds a Prometheus)
	@$(BIN)/functory demo $(ARGS)

dashboard: .venv/.ready ## build the dashboard (needs npm's registry; node from the path or from the development lock)
	@STRICT=1 dashboard/build.sh

# Tests wait for processes most of their time: twice as many at once as there are cores.
JOBS ?= $(shell n=$$(nproc 2>/dev/null || echo 2); echo $$((n * 2)))

test: .venv/.ready .venv/.dashboard ## run the tests on their own servers: minutes (with STRICT=1 a missing server is a failure)
	@$(PY) -m tests.services --install
	@dashboard/build.sh test
	@$(PY) -m pytest --second-look -n $(JOBS) $(ARGS)

test-changed: .venv/.ready .venv/.dashboard ## run the tests nearest to your change: a minute (ARGS='--base HEAD~3 --seconds 300')
	@$(PY) -m tests.services --install
	@$(PY) -m tests.support.changed_tests -n $(JOBS) $(ARGS)

test-all: .venv/.ready .venv/.dashboard .venv/.fuzz ## run the long tests too: every attack in every tier, faults, many seeds, fuzz
	@$(PY) -m tests.services --install
	@$(PY) -m pytest --second-look -n $(JOBS) --long=all $(ARGS)
	@$(PY) -m tests.simulation --seeds 3000 --jobs 2
	@$(PY) -m tests.fuzz.frames --seconds 60

test-sample: .venv/.ready .venv/.dashboard ## run some of the long tests, chosen by a seed (ARGS='--long-seed 7 --long-seconds 300')
	@$(PY) -m tests.services --install
	@$(PY) -m pytest --second-look -n $(JOBS) --long=sample $(ARGS)

fuzz: .venv/.fuzz ## send random bytes to the worker's side of the sandbox (ARGS='--seconds 60')
	@$(PY) -m tests.fuzz.frames $(ARGS)

simulate: .venv/.ready ## run the engine under a virtual clock and faults, 3000 seeds (ARGS='--seeds 500 --first 7' or '--mutants')
	@$(PY) -m tests.simulation --seeds 3000 --jobs 2 $(ARGS)

chaos: .venv/.ready ## harm real deployments: every fault on every broker, the worst with 20 seeds; hours (ARGS='--jobs 2')
	@$(PY) -m tests.services --install
	@mkdir -p .chaos
	@$(PY) -m tests.chaos --fault all --seeds 3 --nastiest 20 --broker all --jobs 3 \
		--out .chaos/runs.jsonl --table .chaos/runs.md $(ARGS)

leaks: .venv/.ready ## kill processes of 10,000 executions at random, search for leaks (ARGS='--tier C --seed 2')
	@$(PY) -m tests.chaos.leaks $(ARGS)

soak: .venv/.plot ## run at half of the highest rate for 30 minutes, and check that nothing grows (ARGS='--minutes 5')
	@$(PY) -m benchmarks.soak $(ARGS)

check: .venv/.ready .venv/.dashboard ## dependencies, format, lint, types, import contracts, vocabulary, names of tests: seconds
	@$(UV) pip check -q --python $(PY)
	@$(BIN)/ruff format --check .
	@$(BIN)/ruff check .
	@$(BIN)/pyright
	@$(BIN)/lint-imports
	@$(PY) -m tests.support.vocabulary
	@$(PY) -m tests.support.mirrored_tests
	@dashboard/build.sh check

bench: .venv/.bench .venv/.babyagi ## measure the speed beside Celery, DBOS, procrastinate and BabyAGI in the same run (ARGS='--pairs 3 --json')
	@$(PY) -m tests.services --install
	@$(PY) -m benchmarks.speed $(ARGS)

docs: .venv/.ready ## build the documentation into site/
	@$(BIN)/mkdocs build -q --strict --site-dir site

UV_COMPILE = $(UV) pip compile -q --universal --python-version 3.11 --generate-hashes --no-annotate --no-header \
	--no-emit-index-url --no-emit-find-links $(ARGS)

lock: $(UV) ## compute locks/ anew from pyproject.toml (ARGS=--upgrade takes the newest versions)
	$(UV_COMPILE) --extra server --extra oidc --extra postgres --extra redis --extra otel --extra agents --group dev \
		pyproject.toml -o locks/dev.txt
	$(UV_COMPILE) --extra server -c locks/dev.txt pyproject.toml -o locks/run.txt
	$(UV_COMPILE) --extra server --extra oidc --extra postgres --extra redis --extra otel -c locks/dev.txt \
		pyproject.toml -o locks/image.txt
	$(UV_COMPILE) -c locks/dev.txt locks/tools.in -o locks/tools.txt
	$(UV_COMPILE) -c locks/dev.txt --group fuzz -o locks/fuzz.txt
	$(UV_COMPILE) -c locks/dev.txt --group plot -o locks/plot.txt
	$(UV_COMPILE) -c locks/dev.txt --group bench -o locks/bench.txt
	$(UV_COMPILE) locks/babyagi.in -o locks/babyagi.txt
	$(UV_COMPILE) --no-deps locks/charts.in -o locks/charts.txt

clean: ## remove the environment and everything that was built or cached
	rm -rf .venv site dist functory/dashboard/static dashboard/node_modules dashboard/.build .fuzz .chaos .pytest_cache .ruff_cache .hypothesis .import_linter_cache *.egg-info
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

# In an environment that has more than run.txt (see .ready) this changes nothing: run.txt is a part of dev.txt.
.venv/.run: $(UV) locks/run.txt pyproject.toml
	@echo "setting up: what Functory needs to run (locks/run.txt)"
	@$(UV) pip install -q --python $(PY) --require-hashes -r locks/run.txt
	@$(UV) pip install -q --python $(PY) --no-deps --no-build-isolation -e .
	@touch $@

.venv/.ready: $(UV) locks/dev.txt pyproject.toml
	@echo "setting up: everything for tests, checks and docs (locks/dev.txt)"
	@$(UV) pip install -q --python $(PY) --require-hashes -r locks/dev.txt
	@$(UV) pip install -q --python $(PY) --no-deps --no-build-isolation -e .
	@touch .venv/.run $@

# What the dashboard is made of. Without node or npm's registry the rest works: the script says so.
DASHBOARD := $(wildcard dashboard/*.* dashboard/src/*.* dashboard/src/*/*.*)

.venv/.dashboard: $(UV) $(DASHBOARD)
	@dashboard/build.sh
	@touch $@

.venv/.fuzz: .venv/.ready locks/fuzz.txt
	@echo "setting up: the fuzzer (locks/fuzz.txt)"
	@$(UV) pip install -q --python $(PY) --require-hashes -r locks/fuzz.txt
	@touch $@

.venv/.plot: .venv/.ready locks/plot.txt
	@echo "setting up: what draws plots (locks/plot.txt)"
	@$(UV) pip install -q --python $(PY) --require-hashes -r locks/plot.txt
	@touch $@

.venv/.bench: .venv/.ready locks/bench.txt
	@echo "setting up: what the benchmark compares with (locks/bench.txt)"
	@$(UV) pip install -q --python $(PY) --require-hashes -r locks/bench.txt
	@touch $@

.venv/.babyagi: .venv/.ready locks/babyagi.txt
	@echo "setting up: the BabyAGI that the benchmark compares with (locks/babyagi.txt)"
	@$(UV) venv -q --clear --python $(PY) .venv/babyagi
	@$(UV) pip install -q --python .venv/babyagi/bin/python --require-hashes -r locks/babyagi.txt
	@touch $@

$(UV): locks/tools.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null || { \
		echo "error: $(PYTHON) is not Python 3.11 or newer ($$($(PYTHON) --version 2>&1 | head -n 1))"; \
		echo "try: make PYTHON=python3.12 $(MAKECMDGOALS)"; exit 1; } >&2
	@$(PYTHON) -c 'import ensurepip, venv' 2>/dev/null || { \
		echo "error: $(PYTHON) cannot make virtual environments: it lacks venv or ensurepip"; \
		echo "try: apt-get install python3-venv   (Debian and Ubuntu)"; exit 1; } >&2
	@echo "setting up: .venv"
	@$(PYTHON) -m venv .venv
	@$(PY) -m pip install -qq --require-hashes -r locks/tools.txt
	@touch $@
