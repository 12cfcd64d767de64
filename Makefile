# Two commands need nothing but Python 3.11 or later: `make race` and `make test`.
# Under another Python: make test PYTHON=python3.13 VENV=.venv-3.13
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready

.PHONY: race test test-without-nodes lint clean

race: $(READY)  ## race the orders track on an embedded Elasticsearch and print the table
	$(BIN)/esbench race --track=orders

# Side by side, file by file: first what needs no node, then the races on real nodes. What measures time runs alone.
test: test-without-nodes  ## run all tests, the races on a real node included
	$(BIN)/pytest -n 2 --dist loadfile -m node tests/node
	$(BIN)/pytest -m alone tests/component

test-without-nodes: $(READY)  ## run the tests that need no node and may run side by side
	$(BIN)/pytest -n logical --dist loadfile -m "not node and not alone"

lint: $(READY)  ## style and types
	$(BIN)/pip install --quiet --disable-pip-version-check -e '.[lint]'
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy

clean:
	rm -rf .venv .venv-* .mypy_cache .pytest_cache .ruff_cache

$(READY): pyproject.toml hatch_build.py esbench/load/_hot.c
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
		{ echo "esbench needs Python 3.11 or later: make PYTHON=python3.12 ..." >&2; exit 1; }
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --disable-pip-version-check -e '.[embedded,test]'
	@touch $@
