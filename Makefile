# `make demo` and `make test` need python3 (3.11 or newer), git and make; the rest is put into .venv.
# Another interpreter: make test PYTHON=python3.12

PYTHON ?= python3

VENV := .venv
BIN := $(VENV)/bin
INSTALL := -m pip --disable-pip-version-check install --quiet

# Pyright's wrapper would ask the network for a newer release at every run.
export PYRIGHT_PYTHON_IGNORE_WARNINGS := 1

.DEFAULT_GOAL := help
.PHONY: help environment demo examples gallery test test-full docs docs-test far far-full lint format bench soak
.PHONY: bench-check lock clean check-python

help:
	@echo 'make demo     train a small network on handwritten digits'
	@echo 'make examples run the other examples, about four minutes'
	@echo 'make gallery  run all examples, and renew the pictures of the gallery page'
	@echo 'make test     check style and types, then run the tests'
	@echo 'make test-full exhaustive tables and many more random inputs, under 25 minutes'
	@echo 'make soak     search for faults for MINUTES=60, and write what is found into build/soak'
	@echo 'make docs     build the site into build/site'
	@echo 'make docs-test build the site, run all examples of pages and docstrings, open pages in Chromium'
	@echo 'make far      compile programs for TPU and GPU, which need not be there, under 12 minutes'
	@echo 'make far-full the same in all element types, and for 256 chips'
	@echo 'make lint     check style and types only'
	@echo 'make format   put the code into the project style'
	@echo 'make bench    compare speed with JAX'
	@echo 'make bench-check compare a part of it with benchmarks/baseline.json'
	@echo 'make lock     pin the newest versions that pyproject.toml allows in requirements.lock'
	@echo 'make clean    remove everything that these targets made'

demo: environment
	$(BIN)/python examples/digits.py
	$(BIN)/python examples/train_digits.py

gallery: export MINIXLA_PICTURES := docs/images/gallery
gallery: demo examples

examples: environment
	$(BIN)/python examples/mlp.py
	$(BIN)/python examples/plain_numpy.py
	$(BIN)/python examples/data_parallel.py
	$(BIN)/python examples/sharded_mlp.py
	$(BIN)/python examples/multi_process.py
	$(BIN)/python examples/char_transformer.py
	$(BIN)/python examples/meta.py
	$(BIN)/python examples/optax_equinox.py
	$(BIN)/python examples/optax_orbit.py
	$(BIN)/python examples/flax_digits.py
	$(BIN)/python examples/diffrax_fit.py
	$(BIN)/python examples/custom_operations.py
	$(BIN)/python examples/transformer.py
	$(BIN)/python examples/variational_autoencoder.py
	$(BIN)/python examples/neural_ode.py
	$(BIN)/python examples/gaussian_process.py
	$(BIN)/python examples/hamiltonian_monte_carlo.py
	$(BIN)/python examples/kmeans.py
	$(BIN)/python examples/fft_denoising.py

# Each of two workers would run OpenBLAS with a thread per core: they wait for each other, and a
# small matrix product takes ten times as long.
PYTEST := OPENBLAS_NUM_THREADS=1 $(BIN)/python -m pytest -n 2 --no-loadscope-reorder

test: lint
	$(PYTEST) --dist loadfile

test-full: environment
	$(PYTEST) --dist load --full

# Continues where it stopped. Continuous integration does not run it.
MINUTES ?= 60
soak: environment
	$(BIN)/python -m tests.soak --minutes $(MINUTES)

# Apart from the environment, without the half of a gigabyte of adapters that graphs as JSON need not.
EXPLORER := $(CURDIR)/build/explorer
EXPLORER_PINS := tests/browser/requirements.txt

# Warnings are errors.
docs: environment
	$(BIN)/python -m sphinx --quiet --fail-on-warning --keep-going -b html -d build/doctrees docs build/site
	@echo 'build/site/index.html'

docs-test: environment
	@if ! cmp -s $(EXPLORER_PINS) $(EXPLORER)/stamp; then \
	  echo 'installing Model Explorer into build/explorer' && rm -rf $(EXPLORER) && \
	  $(BIN)/python $(INSTALL) --no-deps --target $(EXPLORER) -r $(EXPLORER_PINS) && \
	  cp $(EXPLORER_PINS) $(EXPLORER)/stamp || \
	  echo 'make docs-test: Model Explorer cannot be had: it is not opened' >&2; \
	fi
	MINIXLA_EXPLORER=$(EXPLORER) $(PYTEST) --dist loadfile --docs

# Apart from the environment, where JAX would look for devices at every start.
FAR := $(CURDIR)/build/far
FAR_PACKAGES := "import tomllib; print(*tomllib.load(open('pyproject.toml', 'rb'))['project']['optional-dependencies']['far'])"

far far-full: environment
	@packages="$$($(BIN)/python -c $(FAR_PACKAGES))"; \
	if [ "$$(cat $(FAR)/stamp 2>/dev/null)" != "$$packages" ]; then \
	  echo 'installing the extra far into build/far' && rm -rf $(FAR) && \
	  $(BIN)/python $(INSTALL) --no-deps --target $(FAR) $$packages && \
	  echo "$$packages" >$(FAR)/stamp || \
	  { echo 'make far: its packages cannot be had: nothing is compiled for TPU and GPU' >&2; exit 0; }; \
	fi; \
	MINIXLA_FAR=$(FAR) $(PYTEST) --dist load --far $(if $(filter far-full,$@),--full)

# What users read.
PROSE := minixla minixla_ops benchmarks examples $(wildcard *.md docs/*.md)

lint: environment
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/codespell $(PROSE)
	$(BIN)/python -m tests.language
	$(BIN)/pyright --threads 2

format: environment
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

bench: environment
	$(BIN)/python -m benchmarks

# Ratios to JAX in under ten minutes. Make a baseline on a quiet machine, one for each processor:
# python -m benchmarks $(BENCH_CHECKED) --quick --repeat 3 --json benchmarks/baseline.json
BENCH_CHECKED := memory tracing jax_code calls steps programs linear_algebra

bench-check: environment
	$(BIN)/python -m benchmarks $(BENCH_CHECKED) --quick --compare benchmarks/baseline.json

check-python:
	@command -v '$(PYTHON)' >/dev/null || { \
	  echo "minixla needs Python 3.11 or newer, and there is no '$(PYTHON)' here;" \
	    "name one with: make PYTHON=/path/to/python3" >&2; exit 1; }
	@'$(PYTHON)' -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
	  echo "minixla needs Python 3.11 or newer, and '$(PYTHON)' is $$('$(PYTHON)' --version 2>&1);" \
	    "name another with: make PYTHON=python3.11" >&2; exit 1; }

KERNELS := $(wildcard minixla/engine/kernels/*.cc)

# The stamp holds what the environment was made from, and is written last: whatever differs, or a
# run that broke off, makes a new one. The folder counts, since an editable install names it.
environment: check-python
	@key="$$({ '$(PYTHON)' --version; pwd; cat requirements.lock pyproject.toml setup.py $(KERNELS); } | cksum)"; \
	if [ "$$(cat $(VENV)/stamp 2>/dev/null)" != "$$key" ]; then \
	  echo 'installing requirements.lock into $(VENV)' && \
	  '$(PYTHON)' -m venv --clear $(VENV) && \
	  $(BIN)/python $(INSTALL) -r requirements.lock && \
	  $(BIN)/python $(INSTALL) --no-deps --no-build-isolation --editable . && \
	  echo "$$key" >$(VENV)/stamp; \
	fi

lock: check-python
	rm -rf build/lock
	'$(PYTHON)' -m venv build/lock
	build/lock/bin/python $(INSTALL) --upgrade setuptools
	build/lock/bin/python $(INSTALL) --editable '.[dev]'
	{ echo '# All that `make test` and `make demo` install, pinned. Made by `make lock`.'; \
	  build/lock/bin/python -m pip freeze --all --exclude-editable --exclude pip; } >build/requirements.lock
	mv build/requirements.lock requirements.lock

clean:
	rm -rf $(VENV) build dist out *.egg-info .hypothesis .pytest_cache .ruff_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
