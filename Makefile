# The one front door. Needs Python 3.11+ and make; everything else comes from the locked requirements.
SHELL := /bin/bash
.DEFAULT_GOAL := help

VENV := .venv
BIN := $(VENV)/bin
PYTHON ?= $(shell for p in python3 python3.13 python3.12 python3.11; do \
	$$p -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && echo $$p && break; done)
SYNC = @$(if $(PYTHON),,$(error Python 3.11 or newer is needed))$(PYTHON) requirements/sync.py
PORT ?= 9092
DATA ?= ./data
# What the commands that `run` prints need to find a broker that is not on Kafka's port.
AT = $(if $(filter-out 9092,$(PORT)), -b 127.0.0.1:$(PORT))

.PHONY: help
help: ## this list
	@echo 'Begin with make run; docs/quick-start.md continues from there.'
	@awk -F ':.*## ' '/^##—— / {sub(/^##—— /, ""); printf "\n%s\n", $$0} \
		/^[a-z-]+:.*## / && $$1 != "help" {printf "  make %-16s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

##—— environment
.PHONY: venv venv-run venv-load venv-spark venv-docs
venv: ## .venv with all that tests and checks need
	$(SYNC) run dev load

venv-run:
	$(SYNC) run

venv-load: # what a load test needs, and no more: the first one shall not wait for linters
	$(SYNC) run load

venv-spark: ## adds what the Spark validation needs
	$(SYNC) run dev load spark docs

venv-docs: ## adds what the site of the docs needs
	$(SYNC) run dev docs

.PHONY: kernels
kernels: venv-run ## compiles the kernels to the on-disk cache, once
	@$(BIN)/python -m kbroker.kernels.warm

##—— the broker
.PHONY: run
run: venv-run ## the broker on 127.0.0.1, PORT=9092, DATA=./data; the first time it compiles the kernels
	@printf '\n  bootstrap: 127.0.0.1:%s   data: %s   stop: Ctrl-C\n  once it says "kbroker ready", try in another terminal:\n\n' $(PORT) $(DATA)
	@printf '    %s\n' '$(BIN)/kbroker topics create hello --partitions 3$(AT)' \
		'echo "first record" | $(BIN)/kbroker produce hello$(AT)' \
		'$(BIN)/kbroker consume hello --from-beginning$(AT)'
	@printf '\n'
	@exec $(BIN)/kbroker serve --override listeners=PLAINTEXT://127.0.0.1:$(PORT) --override log.dirs=$(DATA) \
		--override group.initial.rebalance.delay.ms=0

##—— tests
.PHONY: peer
peer: venv ## Apache Kafka and its tools for the tests (installs Java if there is none)
	@$(BIN)/python -m tests.peer.prepare

.PHONY: record
record: venv peer kernels ## records Apache Kafka's answers again, in tests/compat/recorded
	@KBROKER_RECORD=1 $(BIN)/python -m pytest -q -m kafka $(addprefix tests/compat/test_,$(addsuffix \
		_beside_kafka.py,$(or $(RECORD),groups transactions acls)))

# `test` is what a change must pass; `test-full` is every test there is. KILLS of each kind in `test`: KBROKER_KILLS.
# KBROKER_CRASHES: deaths of the crash matrix, all: one at each of its places; `test-rest` has a few.
# PLAIN: folders whose fast tests run without compiled kernels.
PLAIN ?= $(addprefix tests/,kernels ipc io purgatory cleaner log metrics net control api http)
REST = slow plain compat kafka crash spark fuzz
.PHONY: test test-fast test-no-kernels test-full test-rest test-long test-crash fuzz fuzz-login
test: venv kernels ## in ten minutes: units, Apache Kafka's recorded answers, real clients, ten kills
	@KBROKER_KILLS=$(or $(KBROKER_KILLS),3) $(BIN)/python -m tests.tiers fast short

test-fast: venv kernels ## in five minutes: units, properties, house rules
	@$(BIN)/python -m tests.tiers fast

test-no-kernels: venv ## fast tests with kernels as plain Python over checked memory; PLAIN=tests/io
	@KBROKER_NO_KERNELS=1 $(BIN)/python -m pytest -q -n 2 --dist loadfile --timeout 600 \
		-m "not (slow or compat or kafka or crash or fuzz or spark)" $(PLAIN)

test-full: venv-spark peer kernels ## every test: also Apache Kafka beside, more kills, the judge, fuzzing
	@KBROKER_CRASHES=$(or $(KBROKER_CRASHES),all) $(BIN)/python -m tests.tiers fast $(REST) long

test-long: venv-spark peer kernels ## tests of minutes each: moves to clusters and back, Connect, Spark clusters
	@$(BIN)/python -m tests.tiers long

test-rest: venv-spark peer kernels # what `make test` leaves out
	@$(BIN)/python -m tests.tiers --after-short $(REST)

test-crash: venv-spark peer kernels ## the crash tests with 20 kills of each kind and process
	@KBROKER_KILLS=$(or $(KBROKER_KILLS),20) KBROKER_CRASHES=$(or $(KBROKER_CRASHES),all) $(BIN)/python -m tests.tiers crash

# FUZZ names targets of the guided search, and holds its options, for instance FUZZ='logs schemas --store'; all: FUZZ=--help
fuzz: venv kernels ## only fuzzing; KBROKER_FUZZ_SECONDS=3600: for an hour; MINUTES=60: the search guided by coverage
	@$(if $(or $(MINUTES),$(FUZZ)),$(BIN)/python -m tests.fuzz.guided --minutes $(or $(MINUTES),1) $(FUZZ), \
		$(if $(KBROKER_FUZZ_SECONDS),KBROKER_FUZZ_SECONDS=$(KBROKER_FUZZ_SECONDS)) $(BIN)/python -m tests.tiers fuzz)

fuzz-login: venv kernels ## REQUESTS=1000000 fuzzed requests before and after a login
	@KBROKER_FUZZ_REQUESTS=$(or $(REQUESTS),1000000) KBROKER_FUZZ_SECONDS=36000 $(BIN)/python -m pytest -q -s -m fuzz tests/fuzz/test_login.py

.PHONY: chaos
chaos: venv ## TESTS=tests/crash/test_share_retries.py SECONDS=600 SEED=1: tests in a loop, processes pause
	@$(BIN)/python -m tests.chaos --seconds $(or $(SECONDS),600) $(if $(SEED),--seed $(SEED)) $(CHAOS) $(or $(TESTS),$(error TESTS= is missing))

# MUTANTS holds further options, for instance MUTANTS='--only kbroker/io/replication'; all: MUTANTS=--help
.PHONY: mutants
mutants: venv ## COUNT=500 SEED=1 small changes of the code, one at a time: which of them the fast tests detect
	@$(BIN)/python -m tests.mutants --count $(or $(COUNT),500) --seed $(SEED) $(MUTANTS)

# The module ends with 1 for a vulnerable package, with 3 if neither PyPI's advisory service nor OSV can be asked.
.PHONY: venv-audit audit
venv-audit: ## adds what the audit needs
	$(SYNC) run dev audit

audit: venv-audit ## known vulnerabilities of all locked packages, by pip-audit; needs PyPI or OSV
	@$(BIN)/python -m release.audit

# ATTACKS selects them by words of their names; --kafka among them: also beside Apache Kafka.
.PHONY: attack-waits
attack-waits: venv peer kernels ## how long steady clients wait beside each attack: ATTACKS='--kafka OffsetCommit'
	@$(BIN)/python -m tests.attack.waits $(ATTACKS)

# KILLS: how often; each kill costs two seconds or so.
.PHONY: crash-streams
crash-streams: venv peer kernels ## Kafka Streams, exactly once, under KILLS=100 kill -9 of the broker's children and itself
	@KBROKER_STREAMS_KILLS=$(or $(KILLS),100) $(BIN)/python -m pytest -q -s -m crash tests/crash/test_streams.py

.PHONY: crash-backup
crash-backup: venv kernels ## KILLS=100 interruptions of backups to a folder, by hard links and to a bucket
	@KBROKER_KILLS=$(or $(KILLS),100) $(BIN)/python -m pytest -q -s -m crash --timeout 7200 tests/crash/test_backup.py \
		tests/crash/test_backup_places.py

.PHONY: crash-stops
crash-stops: venv kernels ## STOPS=200 stops at any moment of a start: by SIGTERM or Ctrl-C, to one process or to all
	@KBROKER_STOPS=$(or $(STOPS),200) $(BIN)/python -m pytest -q -s -m crash --timeout 7200 tests/crash/test_stops.py

.PHONY: crash-matrix
crash-matrix: venv kernels ## the broker dies at every named step, 300 times (KBROKER_CRASHES, KBROKER_CRASH_SEED)
	@KBROKER_CRASHES=$(or $(KBROKER_CRASHES),300) KBROKER_FLIPS=$(or $(KBROKER_FLIPS),100) $(BIN)/python -m pytest -q -s \
		tests/crash/test_crash_matrix.py tests/crash/test_flipped_bytes.py

##—— benchmarks
.PHONY: bench bench-quick bench-metrics bench-security bench-profile venv-bench
venv-bench: venv ## adds what the benchmarks' plots and profiles need
	$(SYNC) run dev bench

# BENCH holds further options, for instance BENCH='--scenario raw_50x1 --target kbroker'; BENCH=--resume goes on with a
# run that was cut.
bench: venv-bench peer kernels ## kbroker beside Apache Kafka in 45 minutes; writes docs/benchmarks.md (needs cc)
	@$(BIN)/python -m bench $(BENCH)

bench-quick: venv-bench peer kernels ## a short selection of that work in about six minutes
	@$(BIN)/python -m bench --quick $(BENCH)

bench-metrics: venv-bench kernels ## what metrics cost: the same requests with and without them, and the verdict
	@$(BIN)/python -m bench.feature_cost metrics $(BENCH)

bench-security: venv-bench kernels ## what an authorizer and the audit log cost: the same, with and without them
	@$(BIN)/python -m bench.feature_cost authorizer audit $(BENCH)

bench-profile: venv-bench peer kernels ## perf and py-spy of the broker: BENCH='--scenario raw_50x1 --target kbroker'
	@$(BIN)/python -m bench --profile --rounds 1 $(BENCH)

##—— the host
# TUNE holds further options, for instance TUNE='--config server.properties --metrics 127.0.0.1:9404'; all: TUNE=--help
.PHONY: tune
tune: venv-run ## checks this host for a broker with its data in ./data; changes nothing (docs/tuning.md)
	@$(BIN)/kbroker tune check $(if $(TUNE),$(TUNE),--dir $(DATA))

##—— load tests
SECONDS ?= 600
SEED ?= 1
.PHONY: load prove
# LOAD holds further options, for instance LOAD='--seconds 30 --shape spike --target host:port'; all: LOAD=--help
load: venv-load kernels ## a minute of load with Locust, on its own broker, or LOAD='--target host:port --seconds 600'
	@$(BIN)/python -m loadtest run $(LOAD)

# PROVE holds further options, for instance PROVE='--broker kafka' or PROVE='--rate 20000'.
prove: venv-load kernels ## load with faults for SECONDS=600 SEED=1, then the verdict; any Kafka: TARGET=host:port
	$(SYNC) run load spark
	@$(BIN)/python -m tests.peer.prepare $(if $(findstring kafka,$(PROVE)),,--java)
	@$(BIN)/python -m loadtest run --judge --faults all --seconds $(SECONDS) --seed $(SEED) \
		$(if $(TARGET),--target $(TARGET)) $(PROVE)

.PHONY: soak
soak: ## `make prove` for HOURS=24 with all faults and 1,000 records a second
	@$(MAKE) --no-print-directory prove SECONDS=$$(($(or $(HOURS),24) * 3600)) SEED=$(SEED) PROVE='$(or $(PROVE),--rate 1000)'

##—— the judge
HISTORY ?= $(error name the run: make judge HISTORY=reports/load-...)
REPORT ?= verdict.html
RECORDS ?= 10000000 30000000 100000000
.PHONY: judge judge-reader spark-scale spark-compare
judge-reader: venv-spark peer ## the judge's reader beside Apache Kafka's DumpLogSegments on LOGS=1000 random segments
	@KBROKER_LOGS=$(or $(LOGS),1000) $(BIN)/python -m pytest -q -m kafka tests/spark_validation/test_beside_kafka.py

# Without SEGMENTS (log directories) or BOOTSTRAP (HOST:PORT) the log is where run.json says.
judge: venv-spark kernels ## the verdict on HISTORY=RUN, from SEGMENTS=DIR or BOOTSTRAP=HOST:PORT; writes REPORT=verdict.html
	@$(BIN)/python -m spark_validation judge --history $(HISTORY) --report $(REPORT) \
		$(if $(SEGMENTS),--segments $(SEGMENTS)) $(if $(BOOTSTRAP),--bootstrap $(BOOTSTRAP))

spark-scale: venv-spark kernels ## judges made-up runs of RECORDS='10000000 100000000'; WORKERS=2: on a cluster; 20 GB of disk
	@$(BIN)/python -m spark_validation.scale $(RECORDS) --folder .cache/scale --workers $(or $(WORKERS),0)

# COMPARE holds options, for instance COMPARE='--bootstrap HOST:PORT --segments DIR --topic T'.
spark-compare: venv-spark kernels ## reads one topic of RECORDS=10000000 through Spark's Kafka connector and from its segments
	@$(BIN)/python -m spark_validation.scale.compare --records $(firstword $(RECORDS)) $(COMPARE)

.PHONY: soak-groups
soak-groups: venv-bench peer kernels ## 1,000 groups of 5 members and one of 500, MINUTES=10, beside Apache Kafka
	@$(BIN)/python -m bench.soak_groups --minutes $(or $(MINUTES),10)

##—— checks
.PHONY: check ruff format mypy imports generated site fmt docs
check: ruff format mypy imports generated site ## lint, format, types, import direction, generated files fresh, links of the docs

ruff: venv
	$(BIN)/ruff check

format: venv
	$(BIN)/ruff format --check

mypy: venv
	$(BIN)/mypy

imports: venv
	$(BIN)/lint-imports

generated: venv
	$(BIN)/python -m kbroker.protocol.generate --check
	$(BIN)/python -m docs.generate --check
	$(BIN)/python -m docs.wrap_code --check

# Strict: a link or an anchor that leads nowhere ends the build.
site: venv-docs
	@NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict

fmt: venv ## formats the code, wraps the prose of pages, docstrings and comments
	$(BIN)/ruff check --fix-only
	$(BIN)/ruff format
	$(BIN)/python -m docs.wrap
	$(BIN)/python -m docs.wrap_code

.PHONY: dashboards
dashboards: venv ## writes the dashboards and alerts of tuning/dashboards from their tables
	$(BIN)/python -m docs.generate

docs: venv-docs ## writes the generated pages and files, and builds the site: .cache/site/index.html
	$(BIN)/python -m kbroker.protocol.generate
	$(BIN)/python -m docs.generate
	@NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict
	@echo 'the site: .cache/site/index.html'

# FOLDER: where the broker has its data meanwhile; the overview shows it.
.PHONY: pictures
pictures: venv kernels ## takes the docs' pictures of the console again, with Chromium, in 90 s
	@$(BIN)/python -m tests.http.console.pictures $(FOLDER)

##—— dependencies
# Each later file is held to the versions of the one before, so all of them fit into one environment.
LOCKED_AS = --quiet --universal --python-version 3.11 --generate-hashes --no-emit-index-url --no-emit-find-links \
	--no-annotate --no-header
COMPILE = $(BIN)/uv pip compile pyproject.toml $(LOCKED_AS) --no-emit-package playwright --no-emit-package pyee
COMPILE_ALONE = $(BIN)/uv pip compile - $(LOCKED_AS)
.PHONY: lock
lock: venv ## locks the requirements from pyproject.toml (UPGRADE=1 takes newer versions)
	$(COMPILE) $(if $(UPGRADE),--upgrade) --extra build -o requirements/run.txt
	$(COMPILE) $(if $(UPGRADE),--upgrade) --extra build --extra dev -c requirements/run.txt -o requirements/dev.txt
	$(COMPILE) $(if $(UPGRADE),--upgrade) --extra load -c requirements/dev.txt -o requirements/load.txt
	$(COMPILE) $(if $(UPGRADE),--upgrade) --extra spark -c requirements/load.txt -c requirements/dev.txt -o requirements/spark.txt
	$(COMPILE) $(if $(UPGRADE),--upgrade) --extra bench -c requirements/dev.txt -o requirements/bench.txt
	$(COMPILE) $(if $(UPGRADE),--upgrade) --extra docs -c requirements/load.txt -c requirements/dev.txt -o requirements/docs.txt
	$(COMPILE) $(if $(UPGRADE),--upgrade) --extra java -c requirements/dev.txt -o requirements/java.txt
	@echo uv | $(COMPILE_ALONE) -c requirements/dev.txt -o requirements/uv.txt
	@echo pip-audit | $(COMPILE_ALONE) $(if $(UPGRADE),--upgrade) $(foreach one,dev load spark bench docs,-c requirements/$(one).txt) \
		-o requirements/audit.txt
	$(SYNC) run dev

##—— packages
.PHONY: release
release: venv ## tags this version, once CHANGELOG.md describes it
	@$(BIN)/python -m docs.release

.PHONY: dist
dist: venv-run ## wheels with and without compiled kernels, source archive, bill of materials: dist/
	@$(BIN)/python -m release.dist

# TRY names the ways: wheel, clone, tests (`make test` in a clone, twice; 20 minutes).
.PHONY: try-install
try-install: ## as root: the wheel and a clone in a bare Debian by debootstrap, and how long each takes
	@$(PYTHON) -m release.try_install $(TRY)

.PHONY: clean
clean: ## removes the environment, caches and reports; keeps ./data
	rm -rf $(VENV) .cache .mypy_cache .pytest_cache .ruff_cache .import_linter_cache .hypothesis reports dist build
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
