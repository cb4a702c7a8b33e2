# Everything a developer or a first-time user types. `make help` lists the targets.
PYTHON ?= python3
VENV ?= .venv
ARGS ?=

BIN := $(abspath $(VENV))/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check
CONSTRAINTS := requirements/constraints.txt
TORCH := $(shell sed -n 's/^\(torch==[^ ;]*\).*/\1/p' $(CONSTRAINTS))

# Members are found by glob; the test kit is the only one that serving does not need.
PYPROJECTS := $(sort $(wildcard core/*/pyproject.toml plugins/*/pyproject.toml plugins-*/*/pyproject.toml csrc/*/pyproject.toml))
MEMBERS := $(patsubst %/pyproject.toml,%,$(PYPROJECTS))
RUNTIME := $(filter-out core/infer-testkit,$(MEMBERS))
SOURCES := $(addsuffix /src,$(MEMBERS))
# Packages with a manifest.py; that of infer_api defines the types of all others.
MANIFESTS := $(wildcard $(addsuffix /src/*/manifest.py,$(MEMBERS)))
PLUGIN_PACKAGES := $(filter-out infer_api,$(sort $(notdir $(patsubst %/manifest.py,%,$(MANIFESTS)))))

# Stamps: a target is instant until a pyproject.toml or a requirements file changes.
MADE := $(VENV)/.infer-venv
SERVES := $(VENV)/.infer-runtime
TESTS := $(VENV)/.infer-dev

empty :=
space := $(empty) $(empty)

.DEFAULT_GOAL := help
.PHONY: help install serve test test-slow lint types docs build manifests clean

help: ## list the targets
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/  make \1|\2/p' Makefile | while IFS='|' read -r name text; do printf '%-18s %s\n' "$$name" "$$text"; done

$(MADE): $(CONSTRAINTS)
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
		{ echo "infer needs Python 3.11 or newer; $(PYTHON) is $$($(PYTHON) -V 2>&1). Try: make PYTHON=python3.12 ..." >&2; exit 1; }
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV) || \
		{ echo "could not create $(VENV); on Debian and Ubuntu: apt install python3-venv" >&2; exit 1; }
	$(PIP) install --quiet --upgrade pip
	$(PIP) install --quiet -c $(CONSTRAINTS) hatchling editables
	$(PIP) install --quiet -c $(CONSTRAINTS) $(TORCH)
	@touch $@

$(SERVES): $(MADE) pyproject.toml $(PYPROJECTS)
	$(PIP) install --quiet -c $(CONSTRAINTS) --no-build-isolation $(addprefix -e ./,$(RUNTIME)) -e .
	@touch $@

$(TESTS): $(SERVES) requirements/dev.txt
	$(PIP) install --quiet -c $(CONSTRAINTS) --no-build-isolation $(addprefix -e ./,$(filter-out $(RUNTIME),$(MEMBERS))) -r requirements/dev.txt
	@touch $@

install: $(TESTS) ## create the environment with everything for development

serve: $(SERVES) ## fetch the default model and start the server (ARGS="--port 9000" passes flags)
	$(BIN)/infer pull smollm2
	exec $(BIN)/infer serve $(ARGS)

test: $(TESTS) ## run the test suite (ARGS="-k words" selects)
	$(BIN)/python -m pytest $(ARGS)

test-slow: $(TESTS) ## run the slow tests too
	$(BIN)/python -m pytest -m "not gpu and not perf" $(ARGS)

lint: $(TESTS) ## check style, imports, spelling and markdown
	PATH="$(BIN):$$PATH" $(BIN)/pre-commit run --all-files --show-diff-on-failure

types: $(TESTS) ## check types
	MYPYPATH=$(subst $(space),:,$(SOURCES)) $(BIN)/mypy $(SOURCES)

docs: $(TESTS) ## regenerate the reference pages and build the site into site/
	$(BIN)/python tests/tools/write_reference.py
	$(PIP) install --quiet -c $(CONSTRAINTS) -r requirements/docs.txt
	$(BIN)/mkdocs build --strict --site-dir site

build: $(MADE) ## build a wheel of every distribution into dist/
	$(PIP) wheel --quiet --no-deps --no-build-isolation --wheel-dir dist $(addprefix ./,$(MEMBERS)) .
	@ls dist

manifests: $(TESTS) ## rewrite the generated data: option schema, every infer-plugin.json, the catalog
	$(BIN)/python tests/tools/write_schema.py
	$(BIN)/python -m infer_api.manifest $(PLUGIN_PACKAGES)
	$(BIN)/python tests/tools/write_catalog.py

clean: ## remove built things and caches (the environment stays)
	rm -rf dist site .pytest_cache .mypy_cache .ruff_cache .import_linter_cache .hypothesis
	find core plugins* tests docs src -name __pycache__ -type d -prune -exec rm -rf {} +
