# Two commands need nothing but Python 3.11 or later: `make race` and `make test`.
# Under another Python: make test PYTHON=python3.13 VENV=.venv-3.13
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
PIP := $(BIN)/pip install --quiet --disable-pip-version-check
PYTEST := $(BIN)/pytest --durations=10
LEFT_OUT := alone
# File by file, those named first first: tests that wait for servers and processes leave a core to others.
SIDE_BY_SIDE := -n $(shell expr 2 '*' "$$(nproc)") --dist loadfile --no-loadscope-reorder -m "not ($(LEFT_OUT))"
RACES := tests/node/test_first_race.py $(wildcard tests/component/test_race_*.py)
FIRST := $(RACES) $(wildcard tests/component/test_driver_*.py)
READY_TOOLS := $(VENV)/.ready-tools
SUPPLY := $(VENV)-supply
COMPILE := $(SUPPLY)/bin/uv pip compile --universal --python-version 3.11 --generate-hashes --upgrade \
	--no-strip-extras --no-annotate --quiet --custom-compile-command "make lock"
COMPILE_PROJECT := $(COMPILE) pyproject.toml --extra embedded --extra hosts

# Python up to 3.12 reads this file in the locale's encoding, in which the path of this folder may be no text.
RELATIVE := for pth in $(VENV)/lib/python3*/site-packages/_editable_impl_esbench.pth; do realpath --relative-to="$${pth%/*}" . >"$$pth"; done

.PHONY: race core test test-all test-rest test-commands test-nodes test-alone sanitized lint locked lock sbom docs-outputs docs-reference clean

race: $(READY)  ## race the orders track on an embedded Elasticsearch and print the table
	$(BIN)/esbench race --track=orders

test: $(READY)  ## what a change most likely breaks: units, driver and races over sockets, a race and a compare on a node
	$(PYTEST) $(SIDE_BY_SIDE) $(FIRST) tests/unit

core: $(READY)  ## the core without any feature: it races a server that answers, lists and compares, and says what is not installed
	$(PYTEST) tests/component/test_core_alone.py

test-all: $(READY)  ## all tests, part by part, whatever fails in an earlier one
	$(MAKE) --keep-going test test-rest

test-rest: $(READY)  ## what `make test` leaves out, part by part as well
	$(MAKE) --keep-going test-commands test-nodes test-alone

test-commands: $(READY)  ## the other tests over real sockets
	$(PYTEST) $(SIDE_BY_SIDE) $(filter-out $(FIRST),$(wildcard tests/component/test_*.py))

test-nodes: $(READY)  ## the other races on real nodes, each of which wants a core
	$(PYTEST) -n 2 --dist loadfile $(filter-out $(FIRST),$(wildcard tests/node/test_*.py))

test-alone: $(READY)  ## what measures time, so that nothing may run beside it
	$(PYTEST) -m alone tests/component

sanitized: $(READY)  ## run the tests of the driver with sanitizers in the compiled hot path; needs a compiler with libasan
	.ci/sanitized $(BIN) $(shell grep -lE 'load.(hot|loops|transport|recorder)' tests/unit/load/test_*.py)

lint: $(READY_TOOLS)  ## style, types, what bandit has to say, and the Dockerfile
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/bandit --quiet --recursive -ll esbench
	$(BIN)/mypy
	if [ -x $(BIN)/hadolint ]; then $(BIN)/hadolint Dockerfile; fi

locked:  ## make .venv anew, of exactly the files whose sha256 is in the lock file; then make test, make lint ...
	$(PYTHON) -m venv --clear $(VENV)
	$(PIP) --require-hashes --only-binary :all: -r .ci/requirements-test.txt
	$(PIP) --no-deps --no-build-isolation -e .
	@$(RELATIVE)
	@touch $(READY) $(READY_TOOLS)

# Extras stay in the lock: pip takes the newest release for `coverage[toml]` where only `coverage` is pinned, and refuses it.
lock: $(SUPPLY)/.ready  ## renew the lock files: the newest versions that pyproject.toml allows, for each Python and system
	$(COMPILE_PROJECT) -o .ci/requirements.txt
	$(COMPILE_PROJECT) -o .ci/requirements-test.txt -c .ci/requirements.txt --extra test --extra lint --extra build
	$(COMPILE) --group supply -o .ci/requirements-supply.txt

sbom: $(READY) $(SUPPLY)/.ready  ## write sbom.json, a CycloneDX bill of the materials in .venv
	$(SUPPLY)/bin/cyclonedx-py environment --pyproject pyproject.toml --output-reproducible -o sbom.json $(BIN)/python

PAGES :=
docs-outputs: $(READY)  ## run the commands whose outputs pages paste, on real nodes, and paste them again; PAGES=docs/duels.md for some
	$(BIN)/python benchmarks/docs_outputs.py $(PAGES)

docs-reference: $(READY)  ## write again what docs/reference has of declarations: options, operation types, reasons, parameters
	$(BIN)/python tests/helpers/reference.py

clean:
	rm -rf .venv .venv-* .mypy_cache .pytest_cache .ruff_cache

$(READY): pyproject.toml hatch_build.py esbench/load/_hot.c
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
		{ echo "esbench needs Python 3.11 or later: make PYTHON=python3.12 ..." >&2; exit 1; }
	$(PYTHON) -m venv $(VENV)
	$(PIP) -e '.[embedded,test]'
	@$(RELATIVE)
	@touch $@

$(READY_TOOLS): $(READY)
	$(PIP) -e '.[lint]'
	@$(RELATIVE)
	@touch $@

$(SUPPLY)/.ready: .ci/requirements-supply.txt
	$(PYTHON) -m venv $(SUPPLY)
	$(SUPPLY)/bin/pip install --quiet --disable-pip-version-check --require-hashes -r $<
	@touch $@
