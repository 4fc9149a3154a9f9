# Everything starts from a fresh clone with Python >= 3.11 and make; each target makes the environment it needs.
PYTHON ?= python3
VENV := .venv
SIM_VENV := .venv-sim
BIN := $(VENV)/bin
SIM_BIN := $(SIM_VENV)/bin
PYTEST_WORKERS ?= 2

.PHONY: help study test test-sim lab docs readme check clean
.DEFAULT_GOAL := help

help:
	@echo "make study     set up and regenerate every table and figure (quick profile; FULL=1 for the full one)"
	@echo "make test      set up and run the checks and tests"
	@echo "make test-sim  set up robosuite and test the simulated benchmark (renders: needs libosmesa6 or EGL)"
	@echo "make lab       open the notebooks in JupyterLab"
	@echo "make docs      build the documentation site into _docs/"

$(VENV)/.ready: pyproject.toml constraints/core.txt
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "tempoloc_nb needs Python 3.11 or newer; set PYTHON=")'
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install -q --disable-pip-version-check -c constraints/core.txt -e '.[dev]'
	touch $@

$(SIM_VENV)/.ready: pyproject.toml constraints/sim.txt
	$(PYTHON) -m venv $(SIM_VENV)
	$(SIM_BIN)/python -m pip install -q --disable-pip-version-check -c constraints/sim.txt -e '.[sim]' pytest hypothesis
	touch $@

study: $(VENV)/.ready
	$(BIN)/tempoloc study --profile $(if $(FULL),full,quick)

check: $(VENV)/.ready
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/python tests/sync.py

test: check
	$(BIN)/python -m pytest -n $(PYTEST_WORKERS) --ignore=tests/sim
	$(BIN)/nbdev-test --n-workers $(PYTEST_WORKERS) --do-print  # not the studies (.notest): make study runs them

test-sim: $(SIM_VENV)/.ready
	$(SIM_BIN)/python -m pytest tests/sim

lab: $(VENV)/.ready
	$(BIN)/python -m pip install -q --disable-pip-version-check -c constraints/core.txt -e '.[lab]'
	$(BIN)/jupyter lab nbs

docs: $(VENV)/.ready
	$(BIN)/python -m pip install -q --disable-pip-version-check -c constraints/core.txt -e '.[docs]'
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict
	cp -r figures LICENSE CITATION.cff CHANGELOG.md _docs/
	sed -i.bak 's|"\.\./\(figures/\|CITATION\|CHANGELOG\)|"\1|g' _docs/index.html && rm _docs/index.html.bak

readme: $(VENV)/.ready
	$(BIN)/python tests/sync.py --write

clean:
	rm -rf $(VENV) $(SIM_VENV) runs _docs
