# Everything a contributor runs. Each target sets up what it needs inside this folder, in .venv.

PYTHON3 ?= python3
BIN := .venv/bin
PYTEST = $(BIN)/python -m pytest --junit-xml=test-output/$(1).xml
# Tests with servers wait longer than they compute, so two processors are busy only with this many tests at a time. A
# process takes up to a gigabyte, and its servers as much.
ASIDE := -n 6 --dist worksteal
QUICK := -m 'not thorough'
# Hundreds of processes are started: each begins a second sooner with compiled modules. Installing makes none.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: help setup demo browser test test-fast thorough adapters layers evaluations doors security faults without-extensions without check lock histories bench bench-cluster certify power compose-images \
    compose-test cluster cluster-down cluster-test cluster-faults chart-test editor-test editor-try clean

help:  ## Show this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-14s %s\n", $$1, $$2}' Makefile

setup: .venv/.ready  ## Install the project and its tools into .venv

demo: .venv/.product  ## Evaluate the sample pitch decks on this machine: no key, no server needed
	@$(BIN)/python scripts/demo.py

browser: .venv/.ready  ## Install a Chromium for the tests of the page, where there is none
	@for name in chromium chromium-browser google-chrome google-chrome-stable; do \
	    command -v $$name >/dev/null && exit 0; \
	done; $(BIN)/playwright install chromium

# What goes on while a workflow is replayed: the tests of these subjects run a second time, with no workflow in memory,
# so that every task replays its history. (All histories of all tests are replayed once they are done.) One of them waits
# half a minute for histories to be deleted, which no memory changes.
REPLAYED := approvals approval_policy cancellation delegation long_conversations python_tools tool_context

# What decides without a clock, a file or a network: that of the core, and that of extensions.
POLICY := tests/unit/policy $(wildcard tests/unit/extensions/*/policy)

# A stage without a single test fails: pytest exits 5. The tables of policy/ cover all its branches.
test: .venv/.ready  ## Run the tests, the quick ones first; not the thorough ones, and those of clusters, containers and the chart
	$(call PYTEST,unit) -n 3 $(QUICK) tests/unit $(POLICY:%=--ignore=%)
	$(BIN)/python -m coverage run -m pytest --junit-xml=test-output/policy.xml $(POLICY) -q && $(BIN)/python -m coverage report
	$(call PYTEST,replay) tests/replay
	$(call PYTEST,servers) $(ASIDE) $(QUICK) tests/e2e tests/integration tests/security

# PART=2/16 takes the second of sixteen parts, which is what CI does: each commit has one.
PART ?=
thorough: .venv/.ready  ## Run the tests that `make test` leaves out, and tests without a cache; PART=2/16 takes a part
	THOROUGH_PART=$(PART) $(call PYTEST,thorough) $(ASIDE) -m thorough tests/unit tests/security tests/integration tests/e2e
	LLM_DO_TEST_NO_CACHE=1 $(call PYTEST,integration-no-cache) $(ASIDE) $(REPLAYED:%=tests/integration/test_%.py) -k 'not histories_are_gone'

# Unit tests that start many processes, and take most of the time of all of them.
SLOW_UNITS := tests/unit/cli/test_program.py tests/unit/deploy tests/unit/scripts tests/unit/worker_service/test_adapters.py

test-fast: .venv/.ready  ## Run the tests of daily work in less than a minute: units without processes, and stored histories
	$(call PYTEST,fast) -n 2 tests/unit tests/replay $(SLOW_UNITS:%=--ignore=%)

adapters: .venv/.ready  ## Put every odd answer of a model through every form of every protocol; `make test` takes a sample
	EVERY_FORM=1 $(call PYTEST,adapters) $(ASIDE) $(shell grep -l dialects.forms tests/integration/test_*.py)

layers: .venv/.ready  ## Play 10,000 random programs in folders and in layers that are committed; takes some minutes
	LAYER_PROGRAMS=10000 $(call PYTEST,layers) --timeout 3600 tests/unit/extensions/review/test_layer_programs.py

evaluations: .venv/.ready  ## Kill the service 20 times during an evaluation of 200 cases with a judge; takes many minutes
	EVALUATION_SIZE=200x3x20 $(call PYTEST,evaluations) --timeout 7200 -s tests/e2e/extensions/evaluations/test_killed_evaluations.py

doors: .venv/.ready  ## Kill each door for programs before and after every request that it sends to Temporal; takes many minutes
	DOOR_REQUESTS=all $(call PYTEST,doors) -s tests/e2e/test_dying_doors.py

power: .venv/.ready  ## Compare 1,000 made-up versions a line: how often equal ones are called different, and others found
	$(BIN)/python -m benchmarks.evaluations

security: .venv/.ready  ## Attack what docs/concepts/security.md promises, and say how many hostile inputs were tried
	$(call PYTEST,security) $(ASIDE) tests/security

faults: .venv/.ready  ## Plant 60 faults, one at a time, and see the tests find each; takes 5 minutes
	$(BIN)/python -m scripts.planted_faults

without-extensions: .venv/.ready  ## Take all extensions out of a copy, and run the tests of what is left
	$(BIN)/python -m scripts.without_extensions $(if $(QUICK_COPY),--quick)

EXTENSION ?= all
without: .venv/.ready  ## Take one extension out of a copy, EXTENSION=slack, or each by itself, and try the rest
	$(BIN)/python -m scripts.without_extensions $(if $(filter all,$(EXTENSION)),--each,--only $(EXTENSION))

check: .venv/.ready  ## Check format, style, types, layers, conventions and documentation
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/basedpyright
	$(BIN)/lint-imports --no-cache --no-logo
	$(BIN)/python scripts/check_conventions.py
	$(BIN)/python scripts/check_docs.py
	$(BIN)/python scripts/check_packages.py

# A changed requirement in pyproject.toml is taken up, everything else stays at its version. UPGRADE=--upgrade takes the
# newest of everything that pyproject.toml allows, UPGRADE='--upgrade-package NAME' of one.
UPGRADE ?=
lock: .venv/.lock  ## Write the versions and hashes in requirements/ anew, from pyproject.toml
	$(BIN)/python scripts/lock.py $(UPGRADE)

histories: .venv/.ready  ## Record what features without a history of this version do, for tests/replay
	$(BIN)/python -m scripts.record_histories

bench: .venv/.bench  ## Measure speed and memory beside the peers; takes 25 minutes of an idle machine
	$(BIN)/python -m benchmarks

bench-cluster: .venv/.ready  ## Measure the main lines of ours and bare on a Temporal server on PostgreSQL
	$(BIN)/python -m benchmarks --cluster $(BENCH)

# Everything that can die, after every event. EVERY=10 takes every tenth; JOBS runs go on at a time.
EVERY ?= 1
JOBS ?= 4
certify: .venv/.ready  ## Kill a run after every event of its history, in four ways, one with a review, a fork, and an evaluation; takes hours of an idle machine
	$(BIN)/llm-do-temporal certify editor - --workshop tests/support/relay --every $(EVERY) --jobs $(JOBS) \
	    --kill service --kill server --kill two --kill freeze < tests/support/relay/prompt.txt
	$(BIN)/llm-do-temporal certify api_renamer "rename get_price to price_of" --workshop workers --every $(EVERY) --jobs $(JOBS) \
	    --kill service
	$(BIN)/llm-do-temporal certify editor - --workshop tests/support/relay --every $(EVERY) --jobs $(JOBS) --fork-at main@2 \
	    --kill service --kill server < tests/support/relay/prompt.txt
	$(BIN)/llm-do-temporal certify tests/support/exam/workers/pupil.eval.yaml --workshop tests/support/exam --every $(EVERY) \
	    --jobs $(JOBS) --kill service --kill server --kill two --kill freeze

compose-images: .venv/.ready  ## Pull the images that docker-compose.yml names; build them here where there is no registry
	@$(BIN)/python -m tests.compose.local_images

compose-test: compose-images  ## Bring up docker-compose.yml, break it in mid-run, and take it down; needs a Docker engine
	$(call PYTEST,compose) --verbose --timeout 1800 tests/compose/check_stack.py

# Where a cluster is kept (a folder below /var/tmp unless this names one), and whose workers it serves.
CLUSTER ?=
WORKSHOP ?= workers
# How many worker services it has, as WORKERS of docker-compose.yml.
WORKERS ?= 2
cluster: .venv/.ready  ## Run the services of docker-compose.yml without containers, on PostgreSQL, until Ctrl-C
	@$(BIN)/python -m tests.cluster up $(CLUSTER:%=--folder '%') --workshop '$(WORKSHOP)' --workers $(WORKERS)

cluster-down: .venv/.ready  ## End what `make cluster` started, from another terminal
	@$(BIN)/python -m tests.cluster down $(CLUSTER:%=--folder '%')

# The integration tests and the doors on its server, and the deployment of all of it. QUICK=1 takes the part that CI runs, here and of the chart.
CLUSTER_FAULTS := $(wildcard tests/cluster/faults/check_*.py)
ifdef QUICK
CHART_CHECKS := -k 'not any_other and not 3.22'
CLUSTER_TESTS := $(patsubst %,tests/integration/test_%.py,first_worker approvals cancellation long_conversations)
CLUSTER_CHECKS := tests/cluster/check_cluster.py -k 'not nothing_runs_twice'
else
CLUSTER_TESTS := tests/integration tests/e2e/test_doors.py
CLUSTER_CHECKS := tests/cluster/check_cluster.py $(CLUSTER_FAULTS)
endif
cluster-test: .venv/.ready  ## Run the integration tests and a deployment on a Temporal server on PostgreSQL; takes 40 minutes
	$(BIN)/python -m tests.cluster run --server-only $(call PYTEST,cluster-integration) -n 4 --dist worksteal $(CLUSTER_TESTS)
	$(call PYTEST,cluster) --timeout 900 $(CLUSTER_CHECKS)

cluster-faults: .venv/.ready  ## Break a deployment on PostgreSQL in mid-run, in all ways that docs/how-to/operate.md lists
	LONG_CUTS=1 $(call PYTEST,cluster-faults) --timeout 900 $(CLUSTER_FAULTS)

chart-test: .venv/.ready  ## Install, upgrade and remove the Helm chart on a Kubernetes API server, which it builds first
	@$(BIN)/python -m tests.chart build
	$(call PYTEST,chart) --verbose tests/chart/check_*.py $(CHART_CHECKS)

# Its packages come from the registry that npm is set up for, at the versions and hashes of the lock file; none of their scripts is run.
editor-test:  ## Build, test and package the extension for VS Code; needs npm and Node 20
	@mkdir -p test-output
	cd editors/vscode && npm ci --no-progress && JUNIT=$(CURDIR)/test-output/editor.xml npm test && npm run package

editor-try: .venv/.ready editor-test  ## Drive the extension in code-server, a real editor, which it builds first; needs ripgrep, a C++ compiler
	$(BIN)/python -m tests.editor.code_server
	$(call PYTEST,editor-try) -n 2 --verbose --timeout 900 tests/editor/check_*.py

clean:  ## Remove what these targets made in this folder; programs that were built, clusters and images stay
	rm -rf .venv .pytest_cache .ruff_cache .coverage test-output editors/vscode/node_modules editors/vscode/dist editors/vscode/out
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

# What .venv has so far: the product alone, or with the tools of development, and of more. requirements/ has the versions.
INSTALL = @$(PYTHON3) -c 'import sys; sys.exit("Python 3.11 or newer is needed, this is " + sys.version if sys.version_info < (3, 11) else 0)' && \
    $(PYTHON3) scripts/install.py

.venv/.product: pyproject.toml requirements/build.txt requirements/product.txt
	$(INSTALL) product
	@touch $@

.venv/.ready: pyproject.toml requirements/build.txt requirements/dev.txt
	$(INSTALL) dev
	@touch .venv/.product $@

.venv/.bench: .venv/.ready requirements/bench.txt
	$(INSTALL) bench
	@touch $@

.venv/.lock: .venv/.ready requirements/lock.txt
	$(INSTALL) lock
	@touch $@
