# The front door. Everything is built by Bazel; each target sees to what it needs first.
#
# SPDX-License-Identifier: Apache-2.0

SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c

BAZEL ?= bazel
CONFIG ?=
ARGS ?=

config = $(if $(CONFIG),--config=$(CONFIG))

.PHONY: help
help:
	@echo 'make demo [ARGS=--json]                     what weir does to a chain of services'
	@echo 'make weirctl                                bazel-bin/cmd/weirctl/weirctl, which checks policies'
	@echo 'make check [CONFIG=asan|tsan|valgrind]      all tests; with tsan and valgrind those tagged so'
	@echo 'make coverage                               all tests, and which lines ran; each that did not has its reason'
	@echo 'make docs                                   doc/policy.md and its schema, of the comments of policy.proto;'
	@echo '                                            doc/html/index.html, of the comments of the headers'
	@echo 'make model [ARGS=breaker]                   every interleaving of the models in test/model'
	@echo 'make bench [ARGS="--json --quick PART"]     what weir costs (PART: decisions, calls, policy)'
	@echo 'make fuzz [ARGS=seconds]                    lets libFuzzer look for new failures'
	@echo 'make lint [ARGS=format]                     format, headers, layers, static analysis'
	@echo 'make format                                 formats the C files'
	@echo 'make clean                                  removes what was built'

.PHONY: demo
demo: setup-build
	@$(BAZEL) build --config=opt //examples/demo:demo >&2
	@bazel-bin/examples/demo/demo $(ARGS)

.PHONY: weirctl
weirctl: setup-build
	@$(BAZEL) build --config=opt //cmd/weirctl >&2

.PHONY: setup-build
setup-build:
	@bazel/setup.sh build

.PHONY: check
check: setup-check
	@BAZEL='$(BAZEL)' bazel/test.sh $(config)

.PHONY: setup-check
setup-check:
	@bazel/setup.sh build check

.PHONY: coverage
coverage: setup-coverage
	@BAZEL='$(BAZEL)' test/coverage/run

.PHONY: setup-coverage
setup-coverage:
	@bazel/setup.sh build check coverage

.PHONY: docs
docs: setup-docs
	@$(BAZEL) build //doc/policy:page //doc/policy:schema >&2
	@install -m 644 bazel-bin/doc/policy/policy.md bazel-bin/doc/policy/policy.schema.json doc/
	@doc/doxygen/run html doc

.PHONY: setup-docs
setup-docs:
	@bazel/setup.sh build check docs

.PHONY: model
model: setup-model
	@test/model/check $(ARGS)

.PHONY: setup-model
setup-model:
	@bazel/setup.sh model

.PHONY: bench
bench: setup-bench
	@$(BAZEL) build --config=opt //bench/... >&2
	@bazel-bin/bench/bench $(ARGS)

.PHONY: setup-bench
setup-bench:
	@bazel/setup.sh build bench

.PHONY: fuzz
fuzz: setup-fuzz
	@BAZEL='$(BAZEL)' test/fuzz/run $(ARGS)

.PHONY: setup-fuzz
setup-fuzz:
	@bazel/setup.sh build check fuzz

.PHONY: lint
lint: setup-lint
	@BAZEL='$(BAZEL)' CONFIG='$(CONFIG)' test/lint/run $(ARGS)

.PHONY: format
format: setup-lint
	@git ls-files -co --exclude-standard -- '*.c' '*.h' | xargs -r clang-format -i

.PHONY: setup-lint
setup-lint:
	@bazel/setup.sh build lint

.PHONY: clean
clean:
	@$(BAZEL) clean
