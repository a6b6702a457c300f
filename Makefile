# Every target sets up what it needs. `make help` lists them.
PYTHON  ?= python3
VENV    := .venv
BIN     := $(VENV)/bin
BENCH   := .venv-bench
# PECOS wants older libraries than ours, so it has an environment of its own; it needs no torch for linear models.
PECOS   := .venv-pecos
# hierarchicalsoftmax brings its own plotting and command-line libraries.
HSM     := .venv-hierarchicalsoftmax
PEERS   := pecos=$(CURDIR)/$(PECOS)/bin/python
INSTALL := install -q --disable-pip-version-check -c constraints.txt
export MPLBACKEND := Agg
export OMP_NUM_THREADS := 1

.DEFAULT_GOAL := help

help:  ## show this list
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | awk -F ':.*## ' '{sub(/:.*/, "", $$1); printf "  make %-12s %s\n", $$1, $$2}'

$(BIN)/python:
	$(PYTHON) -m venv $(VENV)

$(VENV)/.installed: pyproject.toml constraints.txt | $(BIN)/python
	$(BIN)/pip $(INSTALL) -e '.[web]'
	@touch $@

$(VENV)/.installed-dev: pyproject.toml constraints.txt | $(BIN)/python
	$(BIN)/pip $(INSTALL) -e '.[dev]'
	@touch $@ $(VENV)/.installed

$(VENV)/.installed-docs: pyproject.toml constraints.txt | $(BIN)/python
	$(BIN)/pip $(INSTALL) -e '.[docs]'
	@touch $@ $(VENV)/.installed

$(BENCH)/.installed: pyproject.toml constraints.txt
	$(PYTHON) -m venv $(BENCH)
	$(BENCH)/bin/pip $(INSTALL) -e '.[bench]'
	@touch $@

$(PECOS)/.installed:
	$(PYTHON) -m venv $(PECOS)
	$(PECOS)/bin/pip install -q --disable-pip-version-check --no-deps libpecos
	$(PECOS)/bin/pip install -q --disable-pip-version-check 'numpy<2' 'scipy<1.14' 'scikit-learn<1.6' tqdm pandas pyarrow
	@touch $@

$(HSM)/.installed: constraints.txt
	$(PYTHON) -m venv $(HSM)
	$(HSM)/bin/pip $(INSTALL) hierarchicalsoftmax==1.4.4 torch
	@touch $@

demo: $(VENV)/.installed  ## install, fetch WordNet, encode it, show codes and write demo/
	$(BIN)/vpunn demo --out demo

test: $(VENV)/.installed-dev  ## install what tests need; lint, types, doctests, tests
	$(BIN)/ruff check src tests benchmarks
	$(BIN)/ruff format --check src tests benchmarks
	$(BIN)/mypy
	$(BIN)/pytest -n 2 --dist worksteal

browser:  ## a Chromium for the tests of the explorer, from the system's packages unless there is one
	@command -v "$${VPUNN_BROWSER:-chromium}" >/dev/null || \
	  { apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq chromium >/dev/null; }
	@command -v "$${VPUNN_BROWSER:-chromium}"

test-slow: $(VENV)/.installed-dev  ## the tests that take minutes
	$(BIN)/pytest -m slow

# Lines and branches of numba's kernels are machine code, which no tracer sees; their twins in the tests are what covers them.
coverage: $(VENV)/.installed-dev  ## lines and branches that the tests run, by file; a slow run in one process
	$(BIN)/pip $(INSTALL) coverage
	$(BIN)/coverage run --branch --source=vpunn -m pytest -q -p no:xdist $(TESTS)
	$(BIN)/coverage report --skip-covered --sort=cover --omit='*kernel*'

fuzz: $(VENV)/.installed-dev  ## edit saved models at random and use what loads, and send servers what strangers send: refused or right, never a crash (COUNT=5000)
	$(BIN)/python tests/hostile/fuzz.py --count $(or $(COUNT),5000) --seed $(or $(SEED),0)
	$(BIN)/python tests/hostile/kills.py $$(mktemp -d) 100
	$(BIN)/python tests/hostile/servers.py $$(mktemp -d) $(or $(COUNT),5000) $(or $(SEED),0)

test-floor:  ## the core's tests on the lowest versions that pyproject.toml declares, in .venv-floor
	$(PYTHON) -m venv .venv-floor && $(PYTHON) tools/floors.py > .venv-floor/floors.txt
	.venv-floor/bin/pip install -q --disable-pip-version-check -c .venv-floor/floors.txt -e . 'pytest>=8,<9' 'pytest-xdist>=3.5' 'hypothesis>=6.100' networkx sympy 'pyparsing<3.3'
	.venv-floor/bin/pytest -n 2 --dist worksteal tests/tree tests/codes tests/io tests/metrics tests/network tests/regress tests/hipan tests/hipaq tests/structure tests/cli

# On the PATH, or kept by pyenv and not switched on. Extras without torch: its wheels for other versions are gigabytes
# (`make test` has it; make test-all EXTRAS=dev takes everything everywhere).
test-all:  ## the suite on every Python from 3.11 on that this machine has; says which it has not
	@for v in $(or $(VERSIONS),3.11 3.12 3.13 3.14); do \
	  found=; \
	  for p in python$$v "$${PYENV_ROOT:-$$HOME/.pyenv}"/versions/$$v.*/bin/python; do \
	    if [ -z "$$found" ] && "$$p" -c '' 2> /dev/null; then found=$$p; fi; \
	  done; \
	  if [ -n "$$found" ]; then \
	    echo "Python $$v: $$found" && "$$found" -m venv .venv-$$v && \
	    .venv-$$v/bin/pip $(INSTALL) -e '.[$(or $(EXTRAS),test)]' && \
	    .venv-$$v/bin/pytest -n 2 --dist worksteal || exit 1; \
	  else echo "Python $$v was not found on this machine: not tested"; fi; \
	done
.PHONY: coverage fuzz test-floor test-all

test-wheel: $(BIN)/python  ## build the wheel, install it alone in an empty environment, run the demo from there
	rm -rf dist .venv-wheel && $(BIN)/pip wheel -q --disable-pip-version-check --no-deps -w dist .
	$(PYTHON) -m venv .venv-wheel && .venv-wheel/bin/pip $(INSTALL) dist/*.whl
	cd dist && ../.venv-wheel/bin/vpunn --help > /dev/null && ../.venv-wheel/bin/vpunn demo --out demo && rm -rf demo

bench: $(BENCH)/.installed $(PECOS)/.installed  ## benchmarks against peers; prints tables, writes benchmarks/results (under 2 hours)
	$(BENCH)/bin/python -m benchmarks.structure
	$(BENCH)/bin/python -m benchmarks.traits
	$(BENCH)/bin/python -m benchmarks.tabular
	$(BENCH)/bin/python -m benchmarks.vapo heads
	$(BENCH)/bin/python -m benchmarks.vapo blackbox --seconds 5
	VPUNN_PEERS="$(PEERS)" $(BENCH)/bin/python -m benchmarks.predict --cases all --budget 200 --hours 1.2

bench-quick: $(BENCH)/.installed $(PECOS)/.installed  ## the classifier beside its peers on the small cases
	VPUNN_PEERS="$(PEERS)" $(BENCH)/bin/python -m benchmarks.predict --cases quick --budget 100

bench-encoders: $(BENCH)/.installed $(PECOS)/.installed  ## WordNet and GO by words and sentence encoders, three splits of ours (hours: texts are encoded once)
	$(BENCH)/bin/python -m benchmarks.predict --cases encoders --seeds 1,2,3 --methods vpunn
.PHONY: bench-encoders

bench-sets: $(BENCH)/.installed $(PECOS)/.installed  ## rows with several labels beside the peers, three splits of three tasks (hours, for one-vs-rest)
	VPUNN_PEERS="$(PEERS),napkinxc=$(CURDIR)/$(BENCH)/bin/python" \
	  $(BENCH)/bin/python -m benchmarks.sets --tasks proteins,go-parents,hypernyms --keep benchmarks/results/sets
.PHONY: bench-sets

bench-genes: $(VENV)/.installed-dev  ## label sets from numbers beside what was published; VPUNN_DATA_DIR has the tables
	$(BIN)/python -m benchmarks.sets.genes
.PHONY: bench-genes

bench-torch: $(BENCH)/.installed $(HSM)/.installed  ## heads, embeddings, attention, ids and bandits beside their flat rivals (under an hour)
	VPUNN_PEERS="hierarchicalsoftmax=$(CURDIR)/$(HSM)/bin/python" $(BENCH)/bin/python -m benchmarks.torch.speed wordnet
	$(BENCH)/bin/python -m benchmarks.torch.speed ncbi
	$(BENCH)/bin/python -m benchmarks.torch.placement
	$(BENCH)/bin/python -m benchmarks.torch.output_layer
	$(BENCH)/bin/python -m benchmarks.torch.embedding
	$(BENCH)/bin/python -m benchmarks.torch.fisher
	$(BENCH)/bin/python -m benchmarks.torch.graph
	$(BENCH)/bin/python -m benchmarks.torch.agents
	$(BENCH)/bin/python -m benchmarks.joint_trees
	$(BENCH)/bin/python -m benchmarks.torch.attention
	$(BENCH)/bin/python -m benchmarks.torch.ids
	$(BENCH)/bin/python -m benchmarks.torch.generate
	$(BENCH)/bin/python -m benchmarks.torch.trainer
	$(BENCH)/bin/python -m benchmarks.torch.sentence
	$(BENCH)/bin/python -m benchmarks.torch.bandit

bench-growth: $(VENV)/.installed-dev  ## how cost grows with size: CPU, memory, exponents; table and plot in benchmarks/results
	$(BIN)/python -m benchmarks.growth
	$(BIN)/python -m benchmarks.growth cluster
.PHONY: bench-growth

.PHONY: screenshot bench-explorer
screenshot: $(VENV)/.installed-dev  ## the documentation's picture of the explorer, from the model of `make demo`
	$(BIN)/vpunn demo --out demo
	$(BIN)/python tools/make_screenshot.py demo/placement docs/explorer.png

bench-explorer: $(BENCH)/.installed  ## the explorer in Chromium on WordNet and NCBI beside plotly, and under load (after make demo)
	$(BENCH)/bin/python -m benchmarks.explorer tour
	$(BENCH)/bin/python -m benchmarks.explorer load demo/placement

reproduce: $(VENV)/.installed-dev  ## the paper's tables beside ours, as reports/*/report.html
	$(BIN)/vpunn reproduce all --out reports

docs: $(VENV)/.installed-docs  ## the documentation as docs/_build/html; offline, warnings are errors, nothing loaded from elsewhere
	$(BIN)/python -m sphinx -q -W --keep-going -b html docs docs/_build/html
	$(BIN)/python docs/check_offline.py docs/_build/html

picture: $(VENV)/.installed  ## the README's picture again
	$(BIN)/python docs/gallery/plot_00_from_tree_to_answer.py docs/picture.png
.PHONY: picture

figures: $(VENV)/.installed-dev  ## the paper's figures from WordNet, GO and Mammalia, as figures/*/index.html
	$(BIN)/vpunn figures --data wordnet --data go --data mammalia --out figures

clean:  ## remove environments and everything generated
	rm -rf $(VENV) $(BENCH) $(PECOS) $(HSM) .venv-wheel dist demo reports figures benchmarks/results docs/_build docs/auto_gallery .pytest_cache .mypy_cache .ruff_cache

.PHONY: help demo browser test test-slow test-wheel bench bench-quick bench-torch reproduce figures docs clean
