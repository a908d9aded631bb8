# Everything here works in a fresh clone on a Debian machine: what is missing is installed first.
SHELL := /bin/bash
.DEFAULT_GOAL := help
BIN := .venv/bin
# How many run tests side by side, each with a cluster of its own. The tests wait for Slurm more than they work.
WORKERS ?= 2

.PHONY: help
help:  ## this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-16s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

.PHONY: requirements
requirements:
	@bash .ci/requirements

.PHONY: demo
demo: requirements  ## a real Slurm cluster on this machine; a rank of a GPU job is killed, and the job resumes
	@bash examples/demo

.PHONY: test
test: requirements  ## the whole suite that needs no Docker: unit tests, then the real cluster
	$(BIN)/python -m pytest -m "not docker and not framework and not bench and not long" \
	  --numprocesses $(WORKERS) --dist loadfile --no-loadscope-reorder \
	  --cov=slurmkit --cov-report=term:skip-covered $(PYTEST)

.PHONY: test-unit
test-unit: requirements  ## only what needs no Slurm
	$(BIN)/python -m pytest tests/unit -m "not cluster" $(PYTEST)

.PHONY: test-frameworks
test-frameworks: requirements frameworks  ## the ranks of PyTorch, Lightning and JAX, and the examples that use them
	.venv-frameworks/bin/python -m pytest -m framework tests/framework $(PYTEST)

.PHONY: frameworks
frameworks:  ## .venv-frameworks: slurmkit with PyTorch, Lightning and JAX
	@bash .ci/frameworks

.PHONY: test-docker
test-docker: requirements  ## real hosts and networks, and the cluster suite on another Slurm, in containers: SLURM=24.11
	@bash docker/engine
	$(BIN)/python -m pytest -m docker --timeout 3600 --slurm-docker $(or $(SLURM),24.11) \
	  --numprocesses $(WORKERS) --dist loadfile --no-loadscope-reorder tests/docker $(PYTEST)

.PHONY: test-long
test-long: requirements  ## the long kill tests and storms, on the real cluster
	$(BIN)/python -m pytest -m long --timeout 3600 $(PYTEST)

.PHONY: storm
storm: requirements  ## a training under a long storm of faults, and a table of them: SEED=1 FAULTS=100
	STORM_SEED=$(SEED) STORM_FAULTS=$(FAULTS) $(BIN)/python -m pytest -m long -s \
	  tests/cluster/test_storm.py -k long_storm $(PYTEST)

.PHONY: lint
lint: requirements  ## style, layers, shell scripts
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/lint-imports --no-logo
	$(BIN)/shellcheck .ci/run .ci/requirements .ci/frameworks .ci/docker examples/demo docker/entrypoint \
	  docker/database docker/base-image docker/pip-install docker/engine docker/pyslurm

.PHONY: types
types: requirements  ## mypy --strict on code and tests
	$(BIN)/mypy

.PHONY: docs
docs: requirements  ## the manual as HTML in docs/_build
	$(BIN)/sphinx-build -W --keep-going -q -b html docs docs/_build/html

.PHONY: bench
bench: requirements frameworks  ## start-up, submit and launch side by side: a table of ratios
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[bench]'
	$(BIN)/python -m tests.bench $(BENCH)

.PHONY: wheel
wheel: requirements  ## the wheel, in dist/
	$(BIN)/python -m build --wheel --outdir dist .

.PHONY: clean
clean:  ## what builds and tests leave behind
	rm -rf .venv .venv-frameworks dist build docs/_build .coverage .coverage.* .hypothesis .mypy_cache .pytest_cache .ruff_cache
