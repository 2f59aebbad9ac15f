# The front door. Everything is built by Bazel; each target sees to what it needs first.
#
# SPDX-License-Identifier: Apache-2.0

SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c

BAZEL ?= bazel
CONFIG ?=
ARGS ?=

config = $(if $(CONFIG),--config=$(CONFIG))

.PHONY: help demo check docs model bench fuzz lint format clean
.PHONY: setup-build setup-check setup-docs setup-model setup-bench setup-fuzz setup-lint

help:
	@echo 'make demo [ARGS=--json]                     what weir does to a chain of services'
	@echo 'make weirctl                                bazel-bin/cmd/weirctl/weirctl, which checks policies'
	@echo 'make check [CONFIG=asan|tsan|valgrind]      all tests; with tsan and valgrind those tagged so'
	@echo 'make docs                                   doc/policy.md and its schema, of the comments of policy.proto;'
	@echo '                                            doc/html/index.html, of the comments of the headers'
	@echo 'make model [ARGS=breaker]                   every interleaving of the models in test/model'
	@echo 'make bench [ARGS="--json --quick PART"]     what weir costs (PART: decisions, calls, policy)'
	@echo 'make fuzz [ARGS=seconds]                    lets libFuzzer look for new failures'
	@echo 'make lint                                   format, headers, layers, static analysis'
	@echo 'make format                                 formats the C files'
	@echo 'make clean                                  removes what was built'

demo: setup-build
	@$(BAZEL) build --config=opt //examples/demo:demo >&2
	@bazel-bin/examples/demo/demo $(ARGS)

weirctl: setup-build
	@$(BAZEL) build --config=opt //cmd/weirctl >&2

check: setup-check
	@BAZEL='$(BAZEL)' bazel/test.sh $(config)

docs: setup-docs
	@$(BAZEL) build //doc/policy:page //doc/policy:schema >&2
	@install -m 644 bazel-bin/doc/policy/policy.md bazel-bin/doc/policy/policy.schema.json doc/
	@doc/doxygen/run html doc

model: setup-model
	@test/model/check $(ARGS)

bench: setup-bench
	@$(BAZEL) build --config=opt //bench/... >&2
	@bazel-bin/bench/bench $(ARGS)

fuzz: setup-fuzz
	@BAZEL='$(BAZEL)' test/fuzz/run $(ARGS)

lint: setup-lint
	@BAZEL='$(BAZEL)' test/lint/run

format: setup-lint
	@git ls-files -co --exclude-standard -- '*.c' '*.h' | xargs -r clang-format -i

clean:
	@$(BAZEL) clean

setup-build:
	@bazel/setup.sh build

setup-check:
	@bazel/setup.sh build check

setup-docs:
	@bazel/setup.sh build check docs

setup-model:
	@bazel/setup.sh model

setup-bench:
	@bazel/setup.sh build bench

setup-fuzz:
	@bazel/setup.sh build check fuzz

setup-lint:
	@bazel/setup.sh build lint
