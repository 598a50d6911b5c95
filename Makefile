# The two commands: `make run` and `make test`. Everything else: `make help`.

# Where `make run` listens. Unset: 6379, or the next free port.
PORT ?=
MODULE := target/release/libredis_rl.so

# Another toolchain than that of rust-toolchain.toml, where it must be: see scripts/toolchain.
TOOLCHAIN := $(shell scripts/toolchain)
ifneq ($(TOOLCHAIN),)
export RUSTUP_TOOLCHAIN := $(TOOLCHAIN)
endif

# Tests wait for their servers most of the time.
export RUST_TEST_THREADS ?= $(shell expr 2 \* $$(nproc))

.DEFAULT_GOAL := help
.PHONY: help setup build run test test-timing test-matrix test-monitoring test-examples dist fuzz memcheck bench bench-core instructions pictures \
	lint doc

help: ## Show this list
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:[^#]*## /\t/' | expand -t 18

setup: ## Install redis-server and libclang where they are missing
	@scripts/setup

build: setup ## Build the release module: target/release/libredis_rl.so
	cargo build --release

run: build ## Start redis-server with the module in the foreground (PORT=6379)
	@scripts/run $(MODULE) $(PORT)

test: setup ## Run the tests of the limiter, the module, the simulator and the benchmark
	cargo test -- --skip timing::
	cargo test -p rl-sim
	cargo test -p rl-bench
	@$(MAKE) --no-print-directory test-timing

test-timing: build ## Run the tests of how long something takes, one at a time, with the release module
	@scripts/test-timing $(MODULE)

test-matrix: build ## Run the integration tests on each supported server, from package registries
	@scripts/test-matrix $(MODULE) $(if $(OTHERS),others)

test-monitoring: build ## Try what monitoring/ holds on a real Prometheus
	@scripts/monitoring-test $(MODULE)

test-examples: build ## Run the tests of examples/ (EXAMPLES="clients fastapi express go spring")
	@scripts/test-examples $(MODULE) $(EXAMPLES)

dist: build ## Pack the library for a release: target/dist/*.tar.gz with checksums
	@scripts/dist $(MODULE)

fuzz: setup ## Fuzz the parser and the decoders (SECONDS_EACH=20)
	@scripts/fuzz $(or $(SECONDS_EACH),20)

memcheck: setup ## Run a part of the integration tests under valgrind
	@scripts/memcheck

bench: build ## Measure against SET, redis-cell and Lua, on three servers; writes docs/benchmarks.md (QUICK=1: a minute, only printed)
	cargo build --release -p rl-bench
	cargo build --release -p redis-cell # By itself, or it is linked with a libstd that the server does not find.
	scripts/servers target/servers >/dev/null
	target/release/rl-bench $(if $(QUICK),--quick,--report docs)

bench-core: setup ## Measure the limiter without a server
	cargo bench -p rl-core --bench core

instructions: setup ## Count the instructions of the hot path; over 5 % more than recorded is an error
	@scripts/instructions

pictures: setup ## Draw the pictures in docs from the real implementation
	cargo run --release -q -p rl-bench --bin rl-admits -- docs/admits.svg

lint: setup ## Check format and lints; warnings are errors
	cargo fmt --all -- --check
	cargo clippy --workspace --all-targets -- -D warnings

doc: setup ## Check the documentation of the code
	RUSTDOCFLAGS='-D warnings -A rustdoc::private_intra_doc_links' cargo doc --no-deps --document-private-items -p rl-core -p redis-rl -p rl-sim -p rl-testkit
