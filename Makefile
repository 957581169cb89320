.DEFAULT_GOAL := help
.PHONY: help setup format lint unit test test-oldest fuzz fuzz-pipeline workloads soak demo bench bench-tpch bench-large \
  bench-memory bench-check check ci docs clean

PYTHON ?= python3
BIN := .venv/bin
STAMP := .venv/.installed

help:        ## list the commands
	@awk -F ':.*## ' '/^[a-z-]+:.*## /{printf "  %-12s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

setup: $(STAMP)  ## install everything into .venv, at the pinned versions

$(STAMP): pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
	  || { echo 'Python 3.11 or newer is needed: make PYTHON=/path/to/python3.11 ...' >&2; exit 1; }
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[dev]'
	@touch $@

format: setup  ## rewrite the code in the house format
	$(BIN)/ruff format
	$(BIN)/ruff check --fix

lint: setup  ## format, lint, types, layers: no writing
	$(BIN)/ruff format --check
	$(BIN)/ruff check
	$(BIN)/mypy
	$(BIN)/lint-imports

unit: setup  ## the fast lane, no services
	$(BIN)/pytest -n auto -m unit

# Two runs: pure and PostgreSQL tests share the cores, Spark tests share one JVM.
test: setup  ## every lane
	$(BIN)/pytest -n auto --dist loadscope -m "unit or postgres"
	$(BIN)/pytest -m "spark or end_to_end"

# Capture, and every pitfall of sources, on the oldest supported server.
OLDEST ?= /usr/lib/postgresql/15/bin
PITFALLS := $(foreach n,08 09 10 11 12 13 14 15 16 17 45 47 51 52 53 54 55 56,test_p$(n) or)

test-oldest: setup  ## capture and sources on PostgreSQL 15, where it is installed
	@if [ -x $(OLDEST)/initdb ]; then \
	  PGTRICKLE_TEST_BINDIR=$(OLDEST) $(BIN)/pytest -n auto --dist loadscope tests/capture tests/service \
	    -k "capture or $(PITFALLS) test_sources or test_guard or test_watch or test_schema_changes \
	     or test_control or test_durability or test_buffer_sizes or test_restored or test_replaced_files"; \
	else echo "PostgreSQL 15 is not in $(OLDEST): not tested."; fi

# CASES=n cases of SEED=s, or one CASE=n of it, or a kept FILE=path.
FUZZ = $(BIN)/python -m tests.fuzz.run $(if $(CASES),--cases $(CASES)) $(if $(SEED),--seed $(SEED)) \
  $(if $(CASE),--case $(CASE)) $(if $(FILE),--file $(FILE))

fuzz: setup  ## random cases on DuckDB: CASES=n SEED=s, or CASE=n SEED=s, or FILE=path
	$(FUZZ)

fuzz-pipeline: setup  ## the same through PostgreSQL and Spark, or ENGINE=duckdb
	$(FUZZ) --pipeline $(if $(ENGINE),--engine $(ENGINE))

workloads: setup  ## TPC-H and Nexmark on Spark, ten cycles, beside PostgreSQL's own answers
	$(BIN)/python -m tests.workloads --cycles $(or $(CYCLES),10) $(QUERIES)

# TRANSACTIONS=n SEED=s, ENGINE=spark; minutes to hours.
soak: setup  ## 8 writers, refreshes all the while, connections killed: nothing lost, nothing twice
	$(BIN)/python -m tests.soak --transactions $(or $(TRANSACTIONS),200000) \
	  $(if $(SEED),--seed $(SEED)) $(if $(ENGINE),--engine $(ENGINE))

demo: setup  ## a small shop whose stream tables maintain themselves, on an embedded server
	$(BIN)/pgtrickle demo

bench: setup  ## time refreshes and capture beside what a user would do instead
	$(BIN)/python -m benchmarks.refresh_latency
	$(BIN)/python -m benchmarks.capture_overhead
	$(BIN)/python -m benchmarks.idle_tables

# SCALE, SHARE, QUERIES, ROUNDS; OUTPUT=file keeps the results.
bench-tpch: setup  ## TPC-H beside REFRESH MATERIALIZED VIEW, Spark in full and DuckDB
	$(BIN)/python -m benchmarks.tpch --scale $(or $(SCALE),0.1) --share $(or $(SHARE),0.001) \
	  --rounds $(or $(ROUNDS),5) $(if $(OUTPUT),--output $(OUTPUT)) $(QUERIES)

bench-check: setup  ## fail if a ratio of RESULTS=file fell below its recorded floor
	$(BIN)/python -m benchmarks.check $(RESULTS)

# SCALE=n of TPC-H; JDBC_JAR=path of the PostgreSQL driver, or JDBC_PACKAGE=org.postgresql:...
bench-large: setup  ## the first load of lineitem beside Spark's JDBC reader
	$(BIN)/python -m benchmarks.large $(if $(SCALE),--scale $(SCALE)) \
	  $(if $(JDBC_JAR),--jdbc-jar $(JDBC_JAR)) $(if $(JDBC_PACKAGE),--jdbc-package $(JDBC_PACKAGE))

# SCALE=n of TPC-H, CHANGES=n, HEAP=2g.
bench-memory: setup  ## a first load of 6 M rows and a delta of 5 M, with a heap of 2 GiB
	$(BIN)/python -m benchmarks.memory $(if $(SCALE),--scale $(SCALE)) \
	  $(if $(CHANGES),--changes $(CHANGES)) $(if $(HEAP),--heap $(HEAP))

check: lint unit  ## what to run before each commit

ci: lint test test-oldest  ## what CI runs, exactly

docs: setup  ## regenerate the pages that come from code
	$(BIN)/python -m tools.generate_docs

clean:       ## remove the environment and every cache
	rm -rf .venv .mypy_cache .ruff_cache .pytest_cache .import_linter_cache .hypothesis build dist
	find src tests -name __pycache__ -type d -prune -exec rm -rf {} +
