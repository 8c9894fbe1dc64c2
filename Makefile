# Every target prepares .venv itself. ARGS is passed on: make test ARGS="-k rename -x -n 0"
PYTHON_ENV := .venv/bin
ARGS ?=
# ARGS may select no test of a kind: pytest then exits with 5.
OR_NONE = $(if $(ARGS),|| [ $$? -eq 5 ])
# The tests on Spark. Collecting them from all of tests/ takes half a minute.
SPARKED := tests/spark tests/documentation tests/iceberg/test_spark_irc.py tests/iceberg/test_spark_vended.py
# Tests that run again on Spark Connect: reading, writing, SQL.
CONNECTED := tests/spark/test_reading.py tests/spark/test_dense_vectors.py tests/spark/test_writing.py tests/spark/statements/test_statements.py

# Tests that need neither Spark nor a server and take less than a minute. V2 is left out: compatibility mode has root
# tables and manifest tables. -k in ARGS replaces the selection.
QUICK := tests/contract tests/lifecycle tests/versions tests/store -k 'not v2'

# If this is set, each of the many processes that tests start compiles the modules again.
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
.PHONY: help setup demo tour docs quick test spark check bench bench-lance-spark jars rck release-check soak clean

help: ## show this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-17s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

demo: setup ## a Spark pipeline into a new catalog, in ./demo-output
	@$(PYTHON_ENV)/python demo/pipeline_demo.py $(ARGS)

tour: setup ## the catalog alone, without Spark, in ./demo-output
	@$(PYTHON_ENV)/python demo/catalog_demo.py $(ARGS)

quick: setup ## the fast tests, without Spark and servers: less than a minute
	$(PYTHON_ENV)/python -m pytest -n 3 --dist worksteal -q -m 'not soak and not spark and not s3 and not interop and not concurrency' $(QUICK) $(ARGS)

# Tests without Spark wait for disks and processes: four workers keep two cores busy.
test: setup ## the tests, without the long ones: less than 20 minutes on two cores
	-@$(PYTHON_ENV)/python scripts/fetch-jars iceberg-open-api
	$(PYTHON_ENV)/python -m pytest -n 4 --dist worksteal -m 'not soak and not spark' $(ARGS) $(OR_NONE)
	$(PYTHON_ENV)/python -m pytest -n 2 --dist loadfile -m 'spark and not soak' $(SPARKED) $(ARGS) $(OR_NONE)
	PENNON_TEST_SPARK=connect $(PYTHON_ENV)/python -m pytest -m 'spark and not soak' -k 'not managed' $(CONNECTED) $(ARGS) $(OR_NONE)

spark: setup ## the tests on Spark alone: about 10 minutes
	$(PYTHON_ENV)/python -m pytest -m 'spark and not soak' $(SPARKED) $(ARGS) $(OR_NONE)

check: setup ## lint, formatting, types, direction of imports: a minute
	$(PYTHON_ENV)/ruff check
	$(PYTHON_ENV)/ruff format --check
	$(PYTHON_ENV)/mypy
	$(PYTHON_ENV)/lint-imports

docs: setup ## the documentation site, in build/site
	NO_MKDOCS_2_WARNING=1 $(PYTHON_ENV)/mkdocs build --strict --quiet $(ARGS)

bench: setup ## the benchmarks, next to other clients: about half an hour
	$(PYTHON_ENV)/python benchmarks/catalog.py $(ARGS)
	$(PYTHON_ENV)/python benchmarks/versions.py $(filter --quick --strict,$(ARGS))
	$(PYTHON_ENV)/python benchmarks/rows.py $(filter --quick --strict,$(ARGS))
	$(PYTHON_ENV)/python benchmarks/cli.py $(filter --strict,$(ARGS))
	$(PYTHON_ENV)/python benchmarks/cold.py $(filter --quick --strict,$(ARGS))
	$(PYTHON_ENV)/python benchmarks/remote.py $(filter --quick --strict,$(ARGS))
	$(PYTHON_ENV)/python benchmarks/concurrency.py $(filter --quick --strict,$(ARGS))
	$(PYTHON_ENV)/python benchmarks/server.py $(filter --quick --strict,$(ARGS))
	$(PYTHON_ENV)/python benchmarks/spark.py $(filter --quick --strict,$(ARGS))
	$(PYTHON_ENV)/python benchmarks/tpch.py $(filter --quick --strict,$(ARGS))

bench-lance-spark: setup ## Pennon and lance-spark on Spark 3.5, as ratios to Parquet in each: minutes
	$(PYTHON_ENV)/python benchmarks/lance_spark.py $(filter --quick --strict,$(ARGS))

jars: setup ## fetch the jars that benchmarks and long tests compare with: minutes
	$(PYTHON_ENV)/python scripts/fetch-jars

rck: setup ## Apache's compatibility kit against the server, where Maven can fetch it
	$(PYTHON_ENV)/python scripts/run-rck $(ARGS)

release-check: setup ## build a release in ./dist, and install and check it: a quarter of an hour
	$(PYTHON_ENV)/python scripts/release-check $(ARGS)

soak: setup ## the long tests: hours
	-$(PYTHON_ENV)/python scripts/fetch-jars
	$(PYTHON_ENV)/python -m pytest -m soak --timeout 3600 $(ARGS) $(OR_NONE)
	PENNON_TEST_SPARK=connect $(PYTHON_ENV)/python -m pytest -m 'spark and not soak' tests/spark/sql tests/spark/statements $(ARGS) $(OR_NONE)

clean: ## remove the environment, caches and outputs
	rm -rf .venv .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache build dist demo-output
	find src tests benchmarks demo -name __pycache__ -type d -prune -exec rm -rf {} + 2>/dev/null || true

setup:
	@scripts/setup
