# Two commands do everything on a fresh machine: `make demo` and `make test`.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
# Files in their order: the ones with few tests, put last otherwise, are those with the longest.
PYTEST := $(BIN)/pytest --numprocesses auto --dist loadfile --no-loadscope-reorder

.PHONY: demo test quick lint bench fuzz kills docs clean

demo: $(VENV)/runtime
	$(BIN)/sparsemble demo

test: lint
	$(PYTEST)

quick: lint
	$(PYTEST) -m 'not slow'

lint: $(VENV)/dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

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

clean:
	rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache .hypothesis
