# The front door. meson and ninja do the work; `make help` lists what there is.

BUILD        ?= build
PREFIX       ?= /usr/local
DESTDIR      ?=
FUZZ_SECONDS ?= 60
# FUZZ_LONGER='fuzz_wire=600': targets that get another time.
FUZZ_LONGER  ?=
MESON        ?= meson
NINJA        ?= ninja

# WERROR=1: a warning ends the build (as in .ci/run). TESTS='run limits': only the test files whose names contain one of these words.
WERROR ?=
TESTS  ?=
# APPARMOR=yes or no: load the profile, or do not, without asking.
APPARMOR ?=
# POWER='--fs ext4 --seed 1': options of tests/power/run.
POWER ?=
# BENCH='--runs 50 --output FILE': options of tests/bench/page.
BENCH ?=

SANITIZE = -Db_sanitize=address,undefined -Db_lundef=false --buildtype=debugoptimized
# The suite with sanitizers waits more for the compiler than for what it made: little is optimized, and of debug information there are lines
# and functions, unless CFLAGS has other wishes. The weakened build is for a few attacks.
SUITE_SANITIZE = $(SANITIZE) -Doptimization=1 $(if $(CFLAGS),,-Dc_args=-g1)
WEAK           = -Dtest_hooks=true -Doptimization=1
werror   = $(if $(filter-out 0,$(WERROR)),-Dwerror=true)

# $(call configure,DIR,OPTIONS): sets a build directory up once.
configure = command -v $(MESON) >/dev/null || { echo "meson is missing; scripts/deps build installs what the build needs" >&2; exit 1; }; \
	if [ ! -f $(1)/build.ninja ]; then $(MESON) setup --prefix=$(PREFIX) $(2) $(1); fi
# The plain build takes WERROR at any time. The sanitizers' does not: with them gcc warns of things that cannot happen.
configure_plain = $(call configure,$(BUILD),$(werror)) $(if $(werror),&& $(MESON) configure $(BUILD) $(werror))

# The unit tests are left out of a build directory that was set up before cmocka was installed.
with_tests = $(MESON) introspect --tests $(1) | grep -q '"name"' || $(MESON) setup --reconfigure $(1) >/dev/null

# The unit tests are not part of the default target (meson 0.63 and later know them by this name).
build_tests = if $(NINJA) -C $(1) -t query meson-test-prereq >/dev/null 2>&1; then $(NINJA) -C $(1) all meson-test-prereq; else $(NINJA) -C $(1); fi

.PHONY: all build build-weak build-asan build-fuzz demo test test-asan test-power bench lint format fuzz install clean help
.DEFAULT_GOAL := all

all: build ## build the cordon command and libcordon into build/ (the default)

build:
	@$(configure_plain)
	@$(NINJA) -C $(BUILD)

# What the tests need besides; nothing is installed.
build-weak: PARTS ?= $(BUILD)
build-weak: # with the other programs of the build beside it; protections can be switched off one by one, to see that the attacks notice
	@$(call configure,build-weak,$(WEAK))
	@$(NINJA) -C build-weak src/cordon
	@for part in cordon-gate cordon-broker cordon-unpack; do ln -sf $(abspath $(PARTS))/src/$$part build-weak/src/$$part; done

build-asan:
	@$(call configure,build-asan,$(SUITE_SANITIZE))
	@$(call with_tests,build-asan)
	@$(call build_tests,build-asan)

build-fuzz:
	@export CC=clang; $(call configure,build-fuzz,-Dfuzz=true $(SANITIZE))
	@$(NINJA) -C build-fuzz build.ninja >/dev/null # or what was added since is not among the targets
	@$(NINJA) -C build-fuzz $$($(NINJA) -C build-fuzz -t targets all | sed -n 's|^\(tests/fuzz/[^.:/]*\): .*|\1|p')

demo: ## a narrated tour: installs what is missing, builds, and runs it (about ten seconds)
	@scripts/deps build demo
	@$(MAKE) --no-print-directory build
	@scripts/demo $(BUILD)/src/cordon

test: ## install what the tests need, build, run the whole suite (SAN=1: with ASan and UBSan)
ifneq ($(filter-out 0,$(SAN)),)
	@$(MAKE) --no-print-directory test-asan
else
	@scripts/deps build demo test
	@$(configure_plain)
	@$(call with_tests,$(BUILD))
	@$(call build_tests,$(BUILD))
	@$(MAKE) --no-print-directory build-weak
	@CORDON_WEAKENED=$(CURDIR)/build-weak/src/cordon tests/run-suite $(BUILD) $(TESTS)
endif

test-asan: ## the whole suite again, built with AddressSanitizer and UndefinedBehaviorSanitizer
	@scripts/deps build demo test
	@$(MAKE) --no-print-directory build-asan
	@$(MAKE) --no-print-directory build-weak PARTS=build-asan
	@CORDON_WEAKENED=$(CURDIR)/build-weak/src/cordon tests/run-suite build-asan $(TESTS)

test-power: ## power loss at 500 points of commits and layers, in an emulated guest (about five minutes)
	@scripts/deps build power
	@$(configure_plain)
	@$(NINJA) -C $(BUILD) src/libcordon-static.a
	@tests/power/run $(POWER) $(BUILD)

bench: ## everything against bubblewrap, crun, runc, firejail, nspawn, runsc, podman and docker, into docs/benchmarks.md; the gate on its corpora (about half an hour)
	@scripts/deps build bench
	@$(MAKE) --no-print-directory build
	@$(NINJA) -C $(BUILD) tests/gate/gate-check tests/bench/gate-bench tests/bench/audit-bench tests/bench/floor >/dev/null
	@tests/bench/page $(BENCH) $(BUILD)
	@printf '\nThe gate, on the corpus that its rules were written with, and on what was held out:\n'
	@tests/gate/measure --check $(BUILD)/tests/gate/gate-check tests/gate/corpus
	@tests/gate/measure --check $(BUILD)/tests/gate/gate-check tests/gate/heldout

lint: ## formatting, shellcheck, banned functions, file sizes
	@scripts/deps lint
	@scripts/lint

format: ## put the C files into the project's form
	@scripts/deps lint
	@scripts/lint --fix

fuzz: ## each libFuzzer target for FUZZ_SECONDS (60)
	@scripts/deps build fuzz
	@$(MAKE) --no-print-directory build-fuzz
	@scripts/fuzz build-fuzz $(FUZZ_SECONDS) $(FUZZ_LONGER)

install: build ## install below PREFIX (/usr/local) and DESTDIR; offers the AppArmor profile where it is needed
	@$(MESON) configure $(BUILD) -Dprefix=$(PREFIX)
	@$(NINJA) -C $(BUILD)
	@DESTDIR=$(DESTDIR) $(MESON) install -C $(BUILD) --no-rebuild --quiet
	@if [ -z "$(DESTDIR)" ] && [ "$$(id -u)" = 0 ]; then ldconfig; fi
	@echo "installed below $(DESTDIR)$(PREFIX)"
	@APPARMOR=$(APPARMOR) DESTDIR=$(DESTDIR) deploy/apparmor/offer $(PREFIX)/bin/cordon

clean: ## remove every build directory
	rm -rf build build-asan build-weak build-fuzz

help: ## this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-10s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)
	@echo "  variables: PREFIX=$(PREFIX) DESTDIR=$(DESTDIR) BUILD=$(BUILD) WERROR=1 SAN=1 TESTS='word …' FUZZ_SECONDS=$(FUZZ_SECONDS) FUZZ_LONGER='TARGET=SECONDS …'"
