# Everything a contributor runs; `make help` lists it. `make demo` and `make test` start from a bare checkout: they need
# make and Python 3.11 or later with its venv module, and build .venv themselves. Environments of other programs
# (validators, engines, peers, other versions of Python) are one table: tools/environments.py.
PYTHON ?= python3
BIN := .venv/bin
RUN := $(BIN)/python -m
CORE := .venv/.installed
# The extras whose code the tests run. torch and ray are large: their tests skip, saying so, unless installed.
EXTRAS ?= dev,web,mcp,plots,measure,hub,data,prices,traces,postgres,docs
comma := ,
DEV := $(CORE)-$(subst $(comma),-,$(EXTRAS))
# One process a core, eight at most; WORKERS=0 runs one test after the other. ARGS='-k roofline -x' goes on to the program.
WORKERS ?= logical
PARALLEL := --numprocesses $(WORKERS) --maxprocesses 8 --dist loadscope --no-loadscope-reorder
# Tests start Tonnage some hundred times; without byte code each start compiles it anew, and pytest rewrites every test.
export PYTHONDONTWRITEBYTECODE :=
.DELETE_ON_ERROR:
.PHONY: help venv demo test lint format types coverage mutate compat wheel recipes size first-run stable data release integrity golden browser gpu bench laws contract fuzz attack export-matrix startable corpus audit export-validators handoff engines accuracy peers docs clean

help:  ## list the targets
	@sed -n 's/^\([a-z -]*\):.*## \(.*\)/  make \1\t\2/p' $(firstword $(MAKEFILE_LIST)) | expand -t 34
$(BIN)/python:
	@PYTHON='$(PYTHON)' tools/venv.sh $(MAKECMDGOALS)
# What is fetched is what .ci says, to the byte (tools/lock.sh); a checkout has no hash, so it goes in without its needs.
# Other extras than the usual are no part of that: what they need beyond it is taken as pyproject.toml says.
PIP := $(RUN) pip install --quiet --disable-pip-version-check
$(CORE): pyproject.toml .ci/core.txt | $(BIN)/python
	$(PIP) --require-hashes -r .ci/core.txt && $(PIP) --no-build-isolation --no-deps -e . && touch $@
$(DEV): pyproject.toml tools/accuracy/pyproject.toml .ci/constraints.txt | $(BIN)/python
	$(PIP) --require-hashes -r .ci/constraints.txt
	$(PIP) --no-build-isolation $(if $(filter file,$(origin EXTRAS)),--no-deps) -e '.[$(EXTRAS)]' -e tools/accuracy
	touch $(CORE) $@
venv: $(DEV)  ## the environment the tests use, in .venv
demo: $(CORE)  ## plan the serving of a 70B chat model
	$(BIN)/tonnage plan examples/chat-70b.yaml
test: $(DEV)  ## all tests, offline and without an accelerator, on all cores; sweeps are sampled
	@$(RUN) compileall -q src && $(BIN)/tonnage simulate examples/simulate-chat-8b.yaml >/dev/null # compiled once, not once a worker
	$(RUN) pytest $(PARALLEL) $(ARGS)
lint: $(DEV)  ## ruff's rules and format, and which layer imports which
	$(BIN)/ruff check . && $(BIN)/ruff format --check . && $(BIN)/lint-imports
format: $(DEV)  ## rewrite to the project's format
	$(BIN)/ruff check --fix . && $(BIN)/ruff format .
types: $(DEV)  ## mypy, strict
	$(BIN)/mypy
coverage compat wheel: $(DEV)  ## lines of physics and simulation that the tests run; other versions of Python and NumPy; the wheel, twice the same
	BIN=$(BIN) PYTHON=$(PYTHON) PARALLEL='$(PARALLEL)' tools/$@.sh $(ARGS)
mutate: $(DEV)  ## formulas changed one at a time: the share that the tests notice; ARGS='--mutants 0' tries them all
	$(RUN) tools.mutation $(ARGS)
integrity golden browser: $(DEV)  ## every row of the catalogue; whole plans (ARGS=--update-golden rewrites them); the page in a browser
	$(RUN) pytest tests/$@ $(ARGS)
bench: $(DEV)  ## how fast Tonnage itself is
	$(RUN) tools.benchmarks $(ARGS)
laws: $(DEV)  ## laws that no plan or prediction may break, swept over the catalogue
	$(RUN) tools.benchmarks.laws $(ARGS)
	TONNAGE_SWEEPS=full $(RUN) pytest $(PARALLEL) tests/property tests/core tests/questions tests/docs/test_request_files.py
contract: $(DEV)  ## the HTTP API against its own document, every route and every check, by schemathesis
	$(RUN) tools.contract $(ARGS)
fuzz attack: $(DEV)  ## a million bad inputs for every reader of files; every promise of SECURITY.md tried from outside
	$(RUN) tools.$@ $(ARGS)
export-matrix: $(DEV)  ## every export target against every plan, hostile name and architecture of the catalogue, counted
	TONNAGE_SWEEPS=full $(RUN) pytest $(PARALLEL) tests/export tests/adopt tests/web/test_started.py $(ARGS)
	TONNAGE_SWEEPS=full $(RUN) pytest -q -s tests/export/test_architectures.py -k 'read_back or others'
corpus: $(DEV)  ## questions of every kind asked again, what differs from the kept answers by cause; ARGS=--write keeps new ones
	$(RUN) tools.corpus $(ARGS)
audit: $(DEV)  ## known vulnerabilities of what is installed; asks a server, or reads ADVISORIES=FOLDER
	@mkdir -p build && $(RUN) pip list --format=freeze --exclude-editable --disable-pip-version-check > build/pins.txt
	$(BIN)/python .ci/audit.py build/pins.txt $(if $(ADVISORIES),--advisories $(ADVISORIES),$$(dirname $$($(PYTHON) tools/environments.py audit))/pip-audit)
startable: $(DEV)  ## do answers start: first options of thirty models under three loads, every example's first ten, counted
	$(RUN) tools.startable $(ARGS)
export-validators handoff: $(DEV)  ## exported files read or started by their targets' own programs, a table of results; ARGS='trl axolotl' for these, --again for all
	$(BIN)/python tools/export-validators/check.py $(ARGS)
engines: $(DEV)  ## other engines through our own client: Transformers (1.2 GB), VLLM=1 adds vLLM (3 GB)
	for name in transformers $(if $(VLLM),vllm); do python=$$($(PYTHON) tools/environments.py engines/$$name) && $(RUN) tools.engines.measure $$name $$python || exit 1; done
gpu:  ## what one NVIDIA accelerator does, nine minutes: rows of measurements/own, scored; 3 where there is none
	PYTHONPATH=src:tools/accuracy:. $(if $(wildcard $(BIN)/python),$(BIN)/python,$(PYTHON)) -m tools.own gpu $(ARGS)
accuracy: $(DEV)  ## predicted against measured: rewrites docs/accuracy.md, the tables beside it and docs/peers.md
	$(BIN)/tonnage accuracy measurements/*.csv.gz --markdown docs/accuracy.md --figures src/tonnage/catalog/data/accuracy.csv
	PYTHONPATH=src:tools/accuracy:. $(BIN)/python -m tools.pictures
	$(RUN) tools.peers.page
peers: $(DEV)  ## ask aiconfigurator about the same serving rows and compare
	PYTHON=$(PYTHON) tools/peers/aiconfigurator.sh && $(BIN)/python tools/peers/compare.py
	$(RUN) tools.peers.page
size: $(DEV)  ## megabytes of an installation by distribution; ARGS='--against TREE' beside another checkout
	$(RUN) tools.benchmarks.size $(ARGS)
first-run: $(DEV)  ## seconds from nothing installed to two answers, by uvx with an empty cache
	$(RUN) tools.benchmarks.first_run $(ARGS)
stable: $(DEV)  ## promised names: a break that tools/stable.toml does not list fails; ARGS=--write rewrites the list
	$(RUN) tools.stable $(ARGS)
data: $(DEV)  ## tables with prices fetched now, and what they would change, in build/data; asks servers
	$(RUN) tools.data_release refresh build/data && $(RUN) tools.data_release review build/data
release: stable  ## checks the citation and the container file; SINCE=v0.1.0 prints the release's notes
	bin=$$(dirname $$($(PYTHON) tools/environments.py release)) && $$bin/cffconvert --validate -i CITATION.cff && $$bin/hadolint deploy/Containerfile
	@$(if $(SINCE),$(RUN) tools.release_notes --since $(SINCE) $(ARGS))
recipes: $(DEV)  ## ask the twenty questions of docs/which-gpu.md anew; ARGS='qlora-70b flux' asks these
	$(RUN) tools.recipes $(ARGS)
docs: $(DEV)  ## build the documentation site into site/
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --quiet --site-dir site
clean:  ## remove the environments and everything generated
	rm -rf .venv build dist site .mypy_cache .pytest_cache .ruff_cache .import_linter_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
