# Hindcast. `make` alone lists the targets. Every target sets up what is missing first.
.DEFAULT_GOAL := help
SHELL := /bin/sh
.SHELLFLAGS := -ec
MAKEFLAGS += --no-print-directory

PYTHON ?= $(shell setup/find-python.sh)
JUDGE ?= offline-baseline

# Temporary files stay in the checkout, those of the JVMs too.
export TMPDIR := $(CURDIR)/out/tmp
export HINDCAST_SCRATCH := $(TMPDIR)
export SPARK_SUBMIT_OPTS := -Djava.io.tmpdir=$(TMPDIR) -XX:-UsePerfData
export SPARK_LAUNCHER_OPTS := -XX:-UsePerfData
unexport PYTHONDONTWRITEBYTECODE
unexport PYTHONPATH

JOBS := .venv/bin/python
QUIETLY_OFFLINE := $(JOBS) setup/no_network.py

.PHONY: help setup setup-local-llm setup-object-store setup-s3a setup-browser package lock demo test test-slow test-faults test-ops test-cluster test-browser test-faults-full test-ops-full lint audit bench bench-quick bench-table bench-plot bench-night bench-propensity bench-demo bench-cards bench-judging bench-reports bench-peers bench-ingest bench-estimators bench-pages bench-skills clean distclean

help: ## list the targets
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## */  make \1\t/' | expand -t 26

setup: ## make both environments and fetch the Delta jars (demo and test do it by themselves)
	@command -v $(PYTHON) >/dev/null || { echo "setup: Python 3.11, 3.12 or 3.13 is needed, but there is no $(PYTHON): install it, or name one: make $(firstword $(MAKECMDGOALS)) PYTHON=/path/to/python3.12" >&2; exit 1; }
	@mkdir -p $(TMPDIR)
	@$(PYTHON) setup
	@$(JOBS) -m jobs.core.class_data

setup-local-llm: ## also install the small local model (JUDGE=local)
	@mkdir -p $(TMPDIR)
	@$(PYTHON) setup --local-llm

lock: setup ## resolve pyproject.toml anew into requirements/
	@setup/lock.sh

demo: setup ## simulate a log, run a night, an A/B forecast and its outcome; JUDGE=local for a small model
	@[ "$(JUDGE)" != local ] || $(PYTHON) setup --local-llm
	@$(QUIETLY_OFFLINE) $(JOBS) setup/demo.py --judge $(JUDGE)

test: setup ## all quick tests (12 minutes at most), without a network
	@$(QUIETLY_OFFLINE) setup/test.sh

test-slow: test-faults test-ops test-cluster test-browser ## the four below

test-faults test-ops test-cluster test-browser: test-%: setup
	@$(QUIETLY_OFFLINE) setup/test.sh $*

test-faults-full: setup ## the same with more kills
	@FAULT_KILLS=20 $(QUIETLY_OFFLINE) setup/test.sh faults

test-ops-full: setup ## test-ops with five nights backfilled, 30 kills and five full disks (an hour)
	@OPS_FULL=1 $(QUIETLY_OFFLINE) setup/test.sh ops

test-cluster: setup-object-store

test-browser: setup-browser

setup-browser:
	@setup/browser.sh

setup-object-store:
	@mkdir -p $(TMPDIR)
	@$(PYTHON) setup --object-store

setup-s3a: ## also fetch the jars with which Spark itself opens s3a:// (0.6 GiB; the steps do without)
	@mkdir -p $(TMPDIR)
	@$(PYTHON) setup --s3a

package: setup ## write dist/: code and packages that executors of a Spark cluster are sent
	@$(JOBS) -m jobs package --out dist

test-faults: ## processes killed, full disks, broken files
test-ops: ## scheduler, backfills and launches on this machine
test-cluster: ## a standalone Spark master and workers
test-browser: ## the report in Debian's chromium

lint: setup ## style and structure
	@.venv/bin/ruff check .
	@$(JOBS) setup/structure.py
	@.venv/bin/hadolint docker/*.Dockerfile
	@$(JOBS) setup/compose.py

audit: ## look every locked package up in a database of known vulnerabilities; says so where it cannot
	@mkdir -p $(TMPDIR)
	@if $(PYTHON) setup --audit; then .venv-audit/bin/python setup/audit.py; else echo "audit: nothing could be looked up (see above)"; fi

bench: setup ## every published figure, one line each: about 45 minutes on two idle cores, 15 GB
	@$(QUIETLY_OFFLINE) $(JOBS) -m benchmarks

bench-quick: setup ## the figures that fit into ten minutes
	@$(QUIETLY_OFFLINE) $(JOBS) -m benchmarks --quick

bench-table bench-plot: bench-%: setup
	@$(JOBS) -m benchmarks --$*

bench-table: ## the table of the last run again
bench-plot: ## draw the history of all runs

bench-night bench-propensity bench-demo bench-cards bench-judging bench-reports bench-peers bench-ingest bench-estimators bench-pages bench-skills: bench-%: setup
	@$(QUIETLY_OFFLINE) $(JOBS) -m benchmarks $*

bench-night: ## a night against full-window re-scans in DuckDB and Polars
bench-propensity: ## propensity fit against plain EM in numpy
bench-demo: ## three DAG runs, their longest steps, JVM start-ups
bench-cards: ## pages and cards, against FAISS called directly
bench-judging: ## judging against a bare loop, memory at 100,000 pages, a cached second run
bench-reports: ## the report at 6,000 pages and 10,000 resamples, and its bootstrap against a plain loop
bench-ingest: ## ingestion against DuckDB, UBI events a second, cost of contracts and checks
bench-estimators: ## estimators of examination and relevance against planted truth and real logs
bench-pages: ## bias, coverage and drops of the truth of Logs pages
bench-peers: ## the benchmarks' own peers against the shared ones
bench-skills: ## what discovered skills bring and cost, on planted and public corpora

image: ## build the jobs image without a Docker engine (root, buildah, debootstrap; 20 GiB)
	@setup/image.sh

clean: ## remove what runs and tests wrote
	@rm -rf out .pytest_cache .hypothesis .ruff_cache build *.egg-info

distclean: clean ## and the environments
	@rm -rf .venv .venv-airflow .venv-object-store .venv-audit .tools .jars .jars-s3a .cache dist
