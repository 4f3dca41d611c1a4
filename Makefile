# Two commands do everything on a fresh machine: `make demo` and `make test`.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
OLDEST := .venv-oldest
OLDEST_EXTRAS := export,tensorboard,search,serve,sklearn,dask,ray,tables
# One process more than processors, as some tests wait for other processes. Files in their order: the
# ones with few tests, put last otherwise, are those with the longest.
WORKERS := $(shell $(PYTHON) -c 'import os; print(os.cpu_count() + 1)')
# Compiled modules are kept even where an environment asks for none: tests start many processes.
export PYTHONDONTWRITEBYTECODE :=
PYTEST := $(BIN)/pytest --numprocesses $(WORKERS) --dist loadfile --no-loadscope-reorder

.PHONY: demo test quick thorough lint oldest bench fuzz kills docs clean

demo: $(VENV)/runtime
	$(BIN)/sparsemble demo

test: lint
	$(PYTEST) -m 'not thorough'

quick: lint
	$(PYTEST) -m 'not slow and not thorough' --numprocesses auto

# All tests, also those that show more of what another one shows.
thorough: lint
	$(PYTEST)

lint: $(VENV)/dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	MYPY_NUM_WORKERS=auto $(BIN)/mypy
	$(BIN)/lint-imports

# The tests of the library with the oldest versions of everything that may be installed.
oldest: $(OLDEST)/installed
	$(OLDEST)/bin/sparsemble --help >/dev/null
	$(OLDEST)/bin/pytest -m 'not thorough' --numprocesses auto --dist loadfile tests \
	  --ignore tests/docs --ignore tests/paper --ignore tests/end_to_end \
	  --ignore tests/test_benchmarks.py

bench: $(VENV)/dev
	$(BIN)/python benchmarks/run.py

# Ten minutes of spoiled ensembles, run folders, recipes and inputs.
fuzz: $(VENV)/dev
	cd tests && ../$(BIN)/python -m fuzz --seconds 600

# Short runs, killed at every file operation and resumed.
kills: $(VENV)/dev
	$(BIN)/python tests/end_to_end/kill_everywhere.py

docs: $(VENV)/dev
	$(BIN)/mkdocs serve --open

$(VENV)/runtime: pyproject.toml constraints.txt
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --disable-pip-version-check -c constraints.txt -e .
	touch $@

$(VENV)/dev: pyproject.toml constraints.txt
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[dev]'
	touch $@ $(VENV)/runtime

$(OLDEST)/installed: pyproject.toml constraints-oldest.txt
	test -x $(OLDEST)/bin/python || $(PYTHON) -m venv $(OLDEST)
	$(OLDEST)/bin/pip install --quiet --disable-pip-version-check -c constraints-oldest.txt \
	  -e '.[$(OLDEST_EXTRAS)]' \
	  httpx httpx2 hypothesis pandas polars posteriors pytest pytest-xdist torchmetrics
	touch $@

clean:
	rm -rf $(VENV) $(OLDEST) .mypy_cache .ruff_cache .pytest_cache .hypothesis
