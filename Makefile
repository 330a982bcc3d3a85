# Every target does its own set-up: a virtual environment per project, the packages, the model.
# It needs Python 3.11 or newer and pip. `make` alone lists the targets.
#
#   make test PYTHON=python3.12        which Python makes the environments
#   make demo TORCH="torch==2.13.*"    what to ask pip for first: another torch, an index (see pasta/docs/footguns.md)
#   make test ARGS=-x                  more arguments for pytest, `pasta demo` or `pasta bench`

SHELL := /bin/bash
.DEFAULT_GOAL := help

PYTHON ?=
TORCH ?=
ARGS ?=

PASTA := .venv/pasta
SIREN := .venv/siren
BESIDE := tests/structured tests/eval tests/judge tests/train tests/models tests/data tests/cli# of PASTA: they follow Siren's, so that both halves take as long
# Siren is a project of its own; what concerns it runs only where its folder is.
HAS_SIREN := $(wildcard siren/pyproject.toml)
SIREN_READY := $(if $(HAS_SIREN),$(SIREN)/.ready)

.PHONY: help demo test test-wheels lint format bench bench-gpu dist clean

help: ## List the targets
	@grep -E '^[a-z-]+:.*## ' Makefile | awk -F ':.*## ' '{ printf "  make %-11s %s\n", $$1, $$2 }'

demo: $(PASTA)/.ready ## Watch a model decode several parts of one answer at once
	@$(PASTA)/bin/pasta demo $(ARGS)

# Two cores: what is quick runs beside PASTA's tests, and is shown after them; what failed is named once more at the end,
# where it is not lost among the lines of the other half.
test: $(PASTA)/.ready $(SIREN_READY) ## Run the tests of both projects, and try their wheels
	@$(PASTA)/bin/pasta models default >/dev/null
	@export OMP_NUM_THREADS=$${OMP_NUM_THREADS:-1}; set -o pipefail; failed=; \
	first=$(PASTA)/first.log; beside=$(PASTA)/beside.log; \
	{ code=0; $(if $(HAS_SIREN),echo "== siren"; (cd siren && ../$(SIREN)/bin/python -m pytest -q $(ARGS)) || code=1;) \
	  echo "== wheels"; $(PASTA)/bin/python pasta/scripts/try_wheels.py || code=1; \
	  echo "== pasta: $(BESIDE)"; (cd pasta && ../$(PASTA)/bin/python -m pytest -q $(ARGS) $(BESIDE)) || code=1; \
	  exit $$code; } >$$beside 2>&1 & other=$$!; \
	echo "== pasta"; (cd pasta && ../$(PASTA)/bin/python -m pytest -q $(ARGS) $(BESIDE:%=--ignore=%)) 2>&1 | tee $$first \
	    || failed="$$failed pasta"; \
	wait $$other || failed="$$failed beside"; cat $$beside; \
	if [ -n "$$failed" ]; then \
	    echo; echo "failed:$$failed"; grep -hE '^(FAILED|ERROR) |Timeout|Killed|^error: ' $$first $$beside | tail -n 60; exit 1; \
	fi

test-wheels: $(PASTA)/.ready ## Build the wheels, install them in new environments, and use them there
	@$(PASTA)/bin/python pasta/scripts/try_wheels.py

lint: $(PASTA)/.ready $(SIREN_READY) ## Check style, types, imports and spelling
	@failed=; \
	for project in pasta $(if $(HAS_SIREN),siren); do \
	    echo "== $$project"; \
	    bin=$$PWD/.venv/$$project/bin; \
	    (cd $$project && $$bin/ruff check . && $$bin/ruff format --check . && $$bin/mypy \
	        && { ! grep -q importlinter pyproject.toml || $$bin/lint-imports --no-logo; }) || failed="$$failed $$project"; \
	done; \
	$(PASTA)/bin/codespell --skip pasta/docs/samples.md $$(git ls-files '*.md' '*.py' '*.toml' '*.yml' Makefile) || failed="$$failed spelling"; \
	if [ -n "$$failed" ]; then echo "failed:$$failed"; exit 1; fi

format: $(PASTA)/.ready ## Format the code
	@$(PASTA)/bin/ruff check --fix pasta $(if $(HAS_SIREN),siren); $(PASTA)/bin/ruff format pasta $(if $(HAS_SIREN),siren)

bench: $(PASTA)/.ready ## Measure the engine on the default model
	@$(PASTA)/bin/pasta bench $(ARGS)

bench-gpu: $(PASTA)/.ready ## Measure the engine on a CUDA device
	@$(PASTA)/bin/pasta bench --device cuda $(ARGS)

dist: $(PASTA)/.ready ## Build the wheels and source archives into dist/
	@for project in pasta $(if $(HAS_SIREN),siren); do $(PASTA)/bin/python -m build --outdir dist $$project || exit 1; done

clean: ## Delete the environments and what was built; the model cache stays
	rm -rf .venv dist build pasta/dist siren/dist .pytest_cache .mypy_cache .ruff_cache
	find pasta siren -name __pycache__ -type d -prune -exec rm -rf {} + 2>/dev/null || true

# --------------------------------------------------------------------------------------------------------------------
# Set-up. `.ready` is written last, so that an interrupted install is taken up again, and a changed pyproject installs.

$(PASTA)/.ready: pasta/pyproject.toml
	@$(call install,pasta,[torch$(COMMA)dev],$(TORCH))

$(SIREN)/.ready: siren/pyproject.toml
	@$(call install,siren,[dev],)

COMMA := ,

# The first Python that is new enough and can make environments; PYTHON= is taken at its word or refused.
define find_python
suits='import sys, venv, ensurepip; sys.exit(sys.version_info < (3, 11))'; python=; \
for candidate in $(if $(PYTHON),"$(PYTHON)",python3 python3.13 python3.12 python3.11); do \
    if "$$candidate" -c "$$suits" >/dev/null 2>&1; then python=$$candidate; break; fi; \
done; \
if [ -z "$$python" ]; then \
    echo "error: no Python 3.11 or newer with venv found$(if $(PYTHON), as $(PYTHON))" \
         "(install one, or name it: make $(MAKECMDGOALS) PYTHON=/path/to/python3; Debian and Ubuntu also need python3-venv)" >&2; \
    exit 1; \
fi
endef

# $(1) project, $(2) its extras, $(3) what to install first. Of pip's lines only the large downloads are shown.
define install
set -o pipefail -o noglob; venv=.venv/$(1); \
if ! "$$venv/bin/python" -m pip --version >/dev/null 2>&1; then \
    $(find_python); \
    echo "making $$venv with $$("$$python" --version)"; \
    "$$python" -m venv --clear "$$venv" || exit 1; \
fi; \
echo "installing $(1) into $$venv (the first time takes a while)"; \
for request in $(if $(3),'$(3)') '-e ./$(1)$(2)'; do \
    "$$venv/bin/python" -m pip install --disable-pip-version-check --prefer-binary $$request \
        | { grep --line-buffered -oE '(Downloading|Processing) .*\([0-9.]+ [MG]B\)' || true; } || exit 1; \
done; \
touch "$$venv/.ready"
endef
