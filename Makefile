# The front door. Everything is built by Bazel; each target sees to what it needs first.
#
# SPDX-License-Identifier: Apache-2.0

SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c

BAZEL ?= bazel
CONFIG ?=
ARGS ?=

config = $(if $(CONFIG),--config=$(CONFIG))

.DEFAULT_GOAL := help

# Where `make install` installs: GNU's names, and the usual ones in capitals. DESTDIR stands before all of them.
PREFIX ?= /usr/local
prefix ?= $(PREFIX)
exec_prefix ?= $(prefix)
bindir ?= $(or $(BINDIR),$(exec_prefix)/bin)
libdir ?= $(or $(LIBDIR),$(exec_prefix)/lib)
includedir ?= $(or $(INCLUDEDIR),$(prefix)/include)
datarootdir ?= $(prefix)/share
mandir ?= $(or $(MANDIR),$(datarootdir)/man)
bashcompletiondir ?= $(datarootdir)/bash-completion/completions
fishcompletiondir ?= $(datarootdir)/fish/vendor_completions.d
zshcompletiondir ?= $(datarootdir)/zsh/site-functions

# By the environment, since a folder's name may hold what a shell reads.
install uninstall: export DESTDIR := $(DESTDIR)
install uninstall: export prefix := $(prefix)
install uninstall: export exec_prefix := $(exec_prefix)
install uninstall: export bindir := $(bindir)
install uninstall: export libdir := $(libdir)
install uninstall: export includedir := $(includedir)
install uninstall: export datarootdir := $(datarootdir)
install uninstall: export mandir := $(mandir)
install uninstall: export bashcompletiondir := $(bashcompletiondir)
install uninstall: export fishcompletiondir := $(fishcompletiondir)
install uninstall: export zshcompletiondir := $(zshcompletiondir)

.PHONY: help
help:
	@echo 'make demo [ARGS=--json]                     what weir does to a chain of services'
	@echo 'make weirctl                                bazel-bin/cmd/weirctl/weirctl, which checks policies'
	@echo 'make check [CONFIG=asan|tsan|valgrind]      all tests; with a sanitizer or valgrind those that it is for'
	@echo 'make coverage                               CONFIG=asan, and which lines ran; each that did not has its reason'
	@echo 'make docs                                   doc/policy.md and its schema, of the comments of policy.proto;'
	@echo '                                            doc/html/index.html, of the comments of the headers'
	@echo 'make model [ARGS=breaker]                   every interleaving of the models in test/model'
	@echo 'make bench [ARGS="--json --quick PART"]     what weir costs (PART: calls, decisions, many, policy)'
	@echo 'make bench ARGS=--plots                     the same, and writes doc/bench/'
	@echo 'make fuzz [ARGS=seconds]                    lets libFuzzer look for new failures'
	@echo 'make soak [ARGS="--json --calls N --seed N"]'
	@echo '                                            a chain over connections that break; every call accounted for'
	@echo 'make lint [ARGS=format]                     format, headers, layers, static analysis'
	@echo 'make format                                 formats the C files'
	@echo 'make build                                  what is installed, into out/build'
	@echo 'make install [PREFIX=/usr/local DESTDIR=]   libraries, headers, weir.pc, CMake package, weirctl, man pages'
	@echo 'make uninstall                              takes that away again: with the same variables'
	@echo 'make check-install                          builds and runs programs with what is installed (in a temporary place)'
	@echo 'make deb                                    Debian packages, into out/deb'
	@echo 'make check-deb                              installs, uses and purges them: as root'
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
	@$(BAZEL) build --config=opt //bench >&2
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

.PHONY: soak
soak: setup-build
	@$(BAZEL) build --config=opt //test/soak:soak >&2
	@GLIBC_TUNABLES=glibc.malloc.tcache_count=0 bazel-bin/test/soak/soak $(ARGS)

.PHONY: lint
lint: setup-lint
	@BAZEL='$(BAZEL)' CONFIG='$(CONFIG)' test/lint/run $(ARGS)

.PHONY: format
format: setup-lint
	@git ls-files -co --exclude-standard -- '*.c' '*.h' | xargs -r clang-format -i

.PHONY: setup-lint
setup-lint:
	@bazel/setup.sh build lint

.PHONY: build
build:
	@BAZEL='$(BAZEL)' packaging/build.sh

.PHONY: install
install:
	@BAZEL='$(BAZEL)' packaging/build.sh --if-changed
	@packaging/install.sh install

.PHONY: uninstall
uninstall:
	@packaging/install.sh uninstall

.PHONY: check-install
check-install: setup-install
	@BAZEL='$(BAZEL)' packaging/build.sh --if-changed
	@BAZEL='$(BAZEL)' test/consumer/run $(ARGS)

.PHONY: setup-install
setup-install:
	@bazel/setup.sh build install

.PHONY: deb
deb: setup-deb
	@BAZEL='$(BAZEL)' packaging/build.sh --if-changed
	@packaging/deb.sh

.PHONY: check-deb
check-deb: deb
	@packaging/check_deb.sh

.PHONY: setup-deb
setup-deb:
	@bazel/setup.sh build deb

.PHONY: clean
clean:
	@$(BAZEL) clean
	@rm -rf out
