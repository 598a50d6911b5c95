# The two commands: `make run` and `make test`. Everything else: `make help`.

# Where `make run` listens. Unset: 6379, or the next free port.
PORT ?=
MODULE := target/release/libredis_rl.so

.DEFAULT_GOAL := help
.PHONY: help setup build run test bench pictures lint doc

help: ## Show this list
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:[^#]*## /\t/' | expand -t 14

setup: ## Install redis-server and libclang where they are missing
	@scripts/setup

build: setup ## Build the release module: target/release/libredis_rl.so
	cargo build --release

run: build ## Start redis-server with the module in the foreground (PORT=6379)
	@scripts/run $(MODULE) $(PORT)

test: setup ## Run every test
	cargo test

bench: setup ## Measure against SET and redis-cell, side by side in one run
	cargo build --release -p redis-rl -p redis-cell -p rl-bench
	target/release/rl-bench

pictures: setup ## Draw the pictures in docs from the real implementation
	cargo run --release -q -p rl-bench --bin rl-admits -- docs/admits.svg

lint: setup ## Check format and lints; warnings are errors
	cargo fmt --all -- --check
	cargo clippy --workspace --all-targets -- -D warnings

doc: setup ## Check the documentation of the code
	RUSTDOCFLAGS='-D warnings -A rustdoc::private_intra_doc_links' cargo doc --no-deps --document-private-items -p rl-core -p redis-rl
