# Everything runs in .venv, which `make venv` creates; see README.md and docs/ for usage.
.DEFAULT_GOAL := help

# Tests start a hundred Pythons: each would compile all of the package again.
unexport PYTHONDONTWRITEBYTECODE

VENV := .venv
BIN := $(VENV)/bin
NATIVE := CMakeLists.txt $(wildcard native/*.cpp native/*.hpp)
CPP = $(shell find native tests/native -name '*.cpp' -o -name '*.hpp' 2>/dev/null)

.PHONY: help venv demo test test-fast test-slow test-torch test-browser test-native test-lowest test-shapes coverage mutants check format faults bench docs figures notebooks crawl dist clean

help: ## this list
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 14

venv: $(VENV)/.installed ## .venv with the package (editable) and all that the tests need

# The first Python here that is new enough; PYTHON=… on the command line chooses another.
$(BIN)/python:
	@for python in $(or $(PYTHON),python3 python3.14 python3.13 python3.12 python3.11); do \
	  if "$$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then \
	    echo "make: .venv with $$("$$python" --version)"; \
	    "$$python" -m venv $(VENV) && exit 0; \
	    rm -rf $(VENV); \
	    echo "make: $$python cannot make virtual environments (on Debian: apt install python3-venv)" >&2; exit 1; \
	  fi; \
	done; \
	echo "make: Python must be at least 3.11: python3 is $$(python3 --version 2>&1 || true)" >&2; \
	echo "make: install a newer one, or name it: make PYTHON=/path/to/python3.11 $(MAKECMDGOALS)" >&2; exit 1

# Groups need pip 25.1, which compiles to bytecode in one process; here all cores do. Some packages have templates that
# are no Python.
$(VENV)/.installed: pyproject.toml $(NATIVE) | $(BIN)/python
	@echo "make: installing elegans and its tools (builds the native engine)"
	@$(BIN)/python -m pip install --quiet --upgrade "pip>=25.1"
	@$(BIN)/python -m pip install --quiet --no-compile --editable . --group check --group docs
	@$(BIN)/python -m compileall -qq -j 0 $(VENV)/lib || true
	@touch $@

demo: venv ## the success frontier at laptop scale: figure, table and record under results/
	$(BIN)/elegans run success-frontier --scale laptop

# One process per core, up to four (each takes a few GiB). Each starts with its own part of the files, since tests of one
# file share what they compile and train; a process that runs out takes over tests that another has not reached yet.
PYTEST := $(BIN)/pytest --numprocesses=auto --maxprocesses=4 --dist=worksteal

test: venv ## the checks and, in parallel, the fast tests
	@$(MAKE) --no-print-directory --jobs=2 check test-fast

# A fast test compiles programs that run for an instant: XLA's optimisations take longer than they save.
test-fast: venv ## all tests but the slow ones
	JAX_DISABLE_MOST_OPTIMIZATIONS=1 $(PYTEST) -m "not slow"

# Trainings of minutes are worth XLA's optimisations; the other slow tests compile much and train little, and many of
# them wait for servers, browsers and killed processes: one process more than there are cores fills the gaps.
test-slow: venv ## the slow tests: phenomena that need long trainings
	@$(BIN)/python -m pip install --quiet --group native
	cores=$$(getconf _NPROCESSORS_ONLN); JAX_DISABLE_MOST_OPTIMIZATIONS=1 PATH="$(CURDIR)/$(BIN):$$PATH" \
	  $(PYTEST) -m "slow and not trains" --numprocesses=$$((cores < 4 ? cores + 1 : 4))
	$(PYTEST) -m trains tests/studies

# In an environment of its own, which sees what .venv has: the other tests run without PyTorch.
TORCH := build/torch
$(TORCH)/.installed: pyproject.toml | venv
	@$(BIN)/python -m venv --clear --without-pip $(TORCH)
	@$(BIN)/python -c 'import site; print("import site; site.addsitedir(%r)" % site.getsitepackages()[0])' \
	  > "$$($(TORCH)/bin/python -c 'import site; print(site.getsitepackages()[0])')/elegans.pth"
	@$(BIN)/python -m pip --python $(TORCH)/bin/python install --quiet --group bench --group track
	@touch $@

test-torch: venv $(TORCH)/.installed ## the tests that need PyTorch or wandb, which it installs into build/torch
	JAX_DISABLE_MOST_OPTIMIZATIONS=1 $(TORCH)/bin/python -m pytest tests/training/test_torch.py tests/sweeps/test_tracking.py \
	  tests/test_docs.py -k 'torch or tracking'

test-browser: venv ## the pages of the explorer, of phenomena and of the site in a headless Chromium, which must be installed
	$(BIN)/pytest -m browser tests/explore tests/phenomena tests/test_site_in_browser.py

# Leaks are not checked: Python itself does not free everything. The sanitizer's library has to be loaded
# first, and libstdc++ with it, so that it sees exceptions.
SANITIZED := build/sanitized
test-native: venv ## the native tests under the address and undefined-behaviour sanitizers
	@$(BIN)/python -m pip install --quiet --group native
	PATH="$(CURDIR)/$(BIN):$$PATH" cmake -S . -B $(SANITIZED) -G Ninja --log-level=WARNING -DCMAKE_BUILD_TYPE=Release \
	  -DELEGANS_SANITIZE=ON -DELEGANS_WERROR=ON -DPython_EXECUTABLE="$(CURDIR)/$(BIN)/python"
	PATH="$(CURDIR)/$(BIN):$$PATH" cmake --build $(SANITIZED)
	file="$$(ls $(CURDIR)/$(SANITIZED)/_native*.so)"; \
	ELEGANS_NATIVE_FILE="$$file" PYTHONMALLOC=malloc ASAN_OPTIONS=detect_leaks=0 UBSAN_OPTIONS=print_stacktrace=1 \
	LD_PRELOAD="$$(ldd "$$file" | awk '/lib(asan|stdc)/ { print $$3 }' | tr '\n' ' ')" \
	  ELEGANS_NATIVE_CALLS=100000 $(BIN)/python -m pytest tests/native

LOWEST := build/lowest
# Old versions of others warn about each other, which is not an error here.
test-lowest: venv ## the fast tests with the lowest versions that pyproject.toml allows (TESTS=… for some of them)
	@$(BIN)/python -m pip install --quiet --group dist
	$(BIN)/uv venv --quiet --clear --python $(BIN)/python $(LOWEST)
	$(BIN)/uv pip install --quiet --python $(LOWEST)/bin/python --resolution lowest-direct . --group test
	JAX_DISABLE_MOST_OPTIMIZATIONS=1 $(LOWEST)/bin/python -m pytest --numprocesses=auto --maxprocesses=4 --dist=worksteal \
	  --override-ini=filterwarnings=default -m "not slow" $(TESTS)

# Where arrays are made and passed on most, and without what trains: other tests repeat the same calls, which this slows.
SHAPED := analysis boolean certificates groups models tasks
test-shapes: venv ## the tests of arrays, with the shapes and types that annotations state checked in every call
	JAX_DISABLE_MOST_OPTIMIZATIONS=1 $(PYTEST) -m "not slow" \
	  --jaxtyping-packages=$$(printf 'elegans.%s,' $(SHAPED) calculators learners probes random tabular training)shapes.checked \
	  $(addprefix tests/,$(SHAPED))

# Each prints its table, even where a test fails. C++ is measured by its own tests: instrumented kernels are slow, and
# gcov's counts of some branches overflow.
COVERED := build/covered
coverage: venv ## how much of Python and C++ the tests run, line by line (TESTS=… for some of them)
	@$(BIN)/python -m pip install --quiet --group coverage
	@mkdir -p build/coverage
	$(BIN)/coverage erase
	-JAX_DISABLE_MOST_OPTIMIZATIONS=1 $(BIN)/coverage run -m pytest --numprocesses=auto --maxprocesses=4 --dist=worksteal \
	  -m "not slow" $(TESTS)
	-$(BIN)/coverage run -m pytest --numprocesses=auto --maxprocesses=4 --dist=worksteal -m slow $(or $(TESTS),tests/studies)
	PATH="$(CURDIR)/$(BIN):$$PATH" cmake -S . -B $(COVERED) -G Ninja --log-level=WARNING -DCMAKE_BUILD_TYPE=Release \
	  -DELEGANS_COVERAGE=ON -DPython_EXECUTABLE="$(CURDIR)/$(BIN)/python"
	PATH="$(CURDIR)/$(BIN):$$PATH" cmake --build $(COVERED)
	find $(COVERED) -name '*.gcda' -delete
	-ELEGANS_NATIVE_FILE="$$(ls $(CURDIR)/$(COVERED)/_native*.so)" $(BIN)/python -m pytest tests/native
	-$(BIN)/coverage combine --quiet
	-$(BIN)/coverage report
	-$(BIN)/gcovr --root . --filter native/ --object-directory $(COVERED) --merge-mode-functions=merge-use-line-min \
	  --exclude-throw-branches --gcov-ignore-parse-errors=negative_hits.warn_once_per_file

mutants: venv ## a mutation check of the lab's statistics and of the rules of claims: a sample with a fixed seed
	@$(BIN)/python -m pip install --quiet --group mutants
	$(BIN)/python -m benchmarks.mutants

# actionlint is no Python package that can be installed without its own downloads: .github/workflows/checks.yml has it.
check: venv ## formatting, lint, types, the layers of imports, the workflows
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/clang-format --dry-run --Werror $(CPP)
	$(BIN)/check-jsonschema --quiet --builtin-schema vendor.github-workflows .github/workflows/*.yml
	$(BIN)/zizmor --quiet --offline --pedantic .github
	@if command -v actionlint; then actionlint; else echo "make: no actionlint here, which looks further into workflows"; fi

format: venv ## format the sources
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .
	$(BIN)/clang-format -i $(CPP)

faults: venv ## 1,000 kills, lost stores and exceptions, signals, full disks, clocks: no row lost, doubled or changed
	$(BIN)/python -m benchmarks faults

bench: venv ## speed side by side with peers, into benchmarks/results and docs/performance.md
	@$(BIN)/python -m pip install --quiet --group bench
	$(BIN)/python -m benchmarks

docs: venv ## the site, into site/
	$(BIN)/mkdocs build --strict

crawl: docs ## the built site in a headless Chromium: width, contrast, keyboard, console (PAGES=… for some of its pages)
	$(BIN)/python docs/make/crawl.py site $(PAGES)

figures: venv ## the figures of the site, drawn from the committed evidence
	$(BIN)/python docs/make/figures.py

notebooks: venv ## the notebooks, executed, with their outputs
	$(BIN)/python docs/make/notebooks.py

dist: venv ## a release in dist/ (sdist and wheels), checked, and each of its files tried in an empty environment
	@$(BIN)/python -m pip install --quiet --group dist
	.ci/dist $(BIN)/python

clean: ## remove what was built and installed (not results/)
	rm -rf $(VENV) build dist site .mypy_cache .pytest_cache .ruff_cache .hypothesis .import_linter_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
