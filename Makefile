# baton: one Makefile, GNU make. `make help` lists the targets; CONTRIBUTING.md explains the usual ones.
#
# Sources are found by folder, so a new file needs no edit here. Each variant (VARIANT=...) has its own
# objects under $(BUILD)/obj/<variant>; headers are tracked by the compiler (-MMD).
#
#   variant   daemons in        unit tests in          what it is
#   default   build/            -                      what is installed: optimised, hardened
#   hooks     build/hooks/      build/test/            the same with -DBATON_TEST_HOOKS
#   asan      build/asan/       build/asan/test/       AddressSanitizer + UBSan, with hooks
#   tsan      build/tsan/       -                      ThreadSanitizer, with hooks
#   cover     build/cover/      build/cover/test/      gcov, with hooks

VERSION := 0.1.0

SHELL := /bin/bash
MAKEFLAGS += --no-builtin-rules --no-print-directory
.SUFFIXES:
.DELETE_ON_ERROR:
.DEFAULT_GOAL := all

BUILD   ?= build
VARIANT ?= default
PREFIX  ?= /usr/local
DESTDIR ?=
WERROR  ?= -Werror
K       ?=
V       ?=
Q       := $(if $(V),,@)

CC      := $(if $(filter default,$(origin CC)),gcc,$(CC))
AR      := $(if $(filter default,$(origin AR)),ar,$(AR))
LD      := $(if $(filter default,$(origin LD)),ld,$(LD))
OBJCOPY ?= objcopy
PKG_CONFIG ?= pkg-config

OBJ     := $(BUILD)/obj/$(VARIANT)
BIN     := $(if $(filter default,$(VARIANT)),$(BUILD),$(BUILD)/$(VARIANT))
TESTBIN := $(if $(filter hooks,$(VARIANT)),$(BUILD),$(BUILD)/$(VARIANT))/test

# ---- flags --------------------------------------------------------------------------------------

WARNINGS := -Wall -Wextra -Wshadow -Wstrict-prototypes -Wmissing-prototypes -Wpointer-arith \
            -Wformat=2 -Wconversion -Wno-sign-conversion $(WERROR)
HARDENING := -fstack-protector-strong -U_FORTIFY_SOURCE -D_FORTIFY_SOURCE=2 -fcf-protection
# What these two guess depends on what the optimiser knows; instrumented code makes them cry wolf.
QUIET := -Wno-format-truncation -Wno-maybe-uninitialized
SANITIZE_COMMON := -O1 -fno-omit-frame-pointer -U_FORTIFY_SOURCE $(QUIET)

FLAGS_default := -O2 $(HARDENING)
FLAGS_hooks   := -O2 $(HARDENING) -DBATON_TEST_HOOKS
FLAGS_asan    := $(SANITIZE_COMMON) -fsanitize=address,undefined -fno-sanitize-recover=undefined \
                 -DBATON_TEST_HOOKS
FLAGS_tsan    := $(SANITIZE_COMMON) -fsanitize=thread -DBATON_TEST_HOOKS
FLAGS_cover   := -O0 --coverage -fprofile-update=atomic $(QUIET) -DBATON_TEST_HOOKS
FLAGS_VARIANT := $(FLAGS_$(VARIANT))
ifeq ($(strip $(FLAGS_VARIANT)),)
$(error unknown VARIANT '$(VARIANT)': use default, hooks, asan, tsan or cover)
endif

# Assertions stay on in every variant: NDEBUG is never defined.
PROJECT_CFLAGS := -std=gnu11 -g -fPIE $(WARNINGS) $(FLAGS_VARIANT)
PROJECT_CPPFLAGS := -D_GNU_SOURCE -DBATON_VERSION='"$(VERSION)"' -I.
PROJECT_LDFLAGS := -pie -Wl,-z,relro,-z,now -Wl,-z,noexecstack -Wl,--as-needed \
                   $(filter -fsanitize=% --coverage,$(FLAGS_VARIANT))

# pkg-config is asked once and only when something is compiled or linked.
ask = $(if $(filter undefined,$(origin ASKED_$(1))),$(eval ASKED_$(1) := $$(shell $(PKG_CONFIG) $(2))))$(ASKED_$(1))
PACKAGES_COMMON := libmicrohttpd
PACKAGES_COORDINATOR := rdkafka libmicrohttpd jansson sqlite3
PACKAGES_AGENT := rdkafka libmicrohttpd jansson libcurl lmdb libxxhash zlib
PACKAGES_PRODUCER := rdkafka
PACKAGES_ALL := $(sort $(PACKAGES_COORDINATOR) $(PACKAGES_AGENT))
EXTERNAL_CFLAGS = $(call ask,CFLAGS,--cflags $(PACKAGES_ALL))
LIBS_COORDINATOR = $(call ask,COORDINATOR,--libs $(PACKAGES_COORDINATOR)) -lm
LIBS_AGENT = $(call ask,AGENT,--libs $(PACKAGES_AGENT)) -lm -ldl
LIBS_PRODUCER = $(call ask,PRODUCER,--libs $(PACKAGES_PRODUCER))
LIBS_COMMON = $(call ask,COMMON,--libs $(PACKAGES_COMMON)) -lm
LIBS_API = $(call ask,API,--libs jansson) -lm
LIBS_CRITERION = $(call ask,CRITERION,--libs criterion)

COMPILE = $(CC) $(PROJECT_CPPFLAGS) $(CPPFLAGS) $(PROJECT_CFLAGS) $(EXTERNAL_CFLAGS) $(CFLAGS) -MMD -MP
LINK = $(CC) $(PROJECT_LDFLAGS) $(LDFLAGS)

# ---- sources ------------------------------------------------------------------------------------

# common/, api/ and the daemons' folders become archives: a binary takes from them only what it calls, so the
# link of a core's tests shows what the core needs.
objects = $(patsubst %.c,$(OBJ)/%.o,$(wildcard $(1)))

OBJ_COMMON           := $(call objects,common/*.c common/hash/*.c)
OBJ_API              := $(call objects,api/*.c)
OBJ_COORDINATOR_CORE := $(call objects,coordinator/core/*.c)
OBJ_COORDINATOR      := $(filter-out %/main.o,$(call objects,coordinator/*.c))
OBJ_AGENT_CORE       := $(call objects,agent/core/*.c)
OBJ_AGENT            := $(filter-out %/main.o,$(call objects,agent/*.c))
OBJ_PRODUCER         := $(call objects,producer/*.c)
OBJ_AGENT_LOGIC      := $(call objects,agent/logic*.c)

# Files that the coordinator serves from its own binary. api/openapi.json becomes the bytes between the symbols
# embed_api_openapi_json and embed_api_openapi_json_end (extern const unsigned char ...[]), and so on.
EMBEDDED := $(wildcard api/openapi.json coordinator/web/*)
OBJ_COORDINATOR += $(patsubst %,$(OBJ)/embed/%.o,$(EMBEDDED))

ARCHIVES := common api coordinator_core coordinator agent_core agent producer
archive = $(patsubst %,$(OBJ)/lib%.a,$(1))
LIB_COMMON := $(call archive,common)
LIB_CORES := $(call archive,coordinator_core agent_core)
LIB_COORDINATOR := $(call archive,coordinator coordinator_core api common)
LIB_AGENT := $(call archive,agent agent_core api common)

DAEMONS := $(if $(wildcard coordinator/main.c),$(BIN)/baton-coordinator) \
           $(if $(wildcard agent/main.c),$(BIN)/baton-agent)

# An example plugin <name>.c says its version in a line `#define PLUGIN_VERSION "x.y.z"`, which becomes part of the
# file's name, as the agent's plugin folder wants it.
PLUGIN_SOURCES := $(wildcard examples/plugin/*.c)
plugin_version = $(shell sed -n 's/^\#define PLUGIN_VERSION "\([a-z0-9._-]*\)".*/\1/p' $(1))
plugin_file = $(BUILD)/plugins/$(basename $(notdir $(1)))-$(call plugin_version,$(1)).so
PLUGINS := $(foreach source,$(PLUGIN_SOURCES),$(call plugin_file,$(source)))

# What producers link with. Other versions of this library keep its binary interface while the number after .so is the same.
PARTITIONER_ABI := 0
PARTITIONER := $(BUILD)/lib/libbaton-partitioner
PARTITIONER_SHARED := $(PARTITIONER).so.$(VERSION)
PARTITIONER_FILES := $(PARTITIONER).a $(PARTITIONER_SHARED)
# Programs that show how things are used: examples/producer/send.c becomes build/examples/send.
EXAMPLES := $(patsubst examples/producer/%.c,$(BUILD)/examples/%,$(wildcard examples/producer/*.c))
# The same for Java; not part of `all`, which needs no Java.
PARTITIONER_JAR := $(BUILD)/lib/baton-partitioner-$(VERSION).jar

.PHONY: all daemons plugins producer FORCE
all: daemons plugins producer ## build the daemons, the example plugins and the producers' library (default)
daemons: $(DAEMONS)
plugins: $(PLUGINS)
producer: $(PARTITIONER_FILES) $(EXAMPLES)

# ---- rules --------------------------------------------------------------------------------------

# Rewritten only when the flags, or the list of sources, are no longer what they were.
update_if_changed = mkdir -p $(@D); printf '%s\n' $(1) | cmp -s - $@ || printf '%s\n' $(1) > $@
quoted = '$(subst ','\'',$(1))'
$(OBJ)/flags: FORCE
	@$(call update_if_changed,$(call quoted,$(CC) $(PROJECT_CPPFLAGS) $(CPPFLAGS) $(PROJECT_CFLAGS) \
	    $(CFLAGS) $(PROJECT_LDFLAGS) $(LDFLAGS)))
$(OBJ)/sources: FORCE
	@$(call update_if_changed,$(sort $(OBJ_COMMON) $(OBJ_API) $(OBJ_COORDINATOR_CORE) $(OBJ_COORDINATOR) \
	    $(OBJ_AGENT_CORE) $(OBJ_AGENT) $(OBJ_PRODUCER)))

$(OBJ)/%.o: %.c $(OBJ)/flags
	@mkdir -p $(@D)
	@$(if $(V),,echo "  CC      $< [$(VARIANT)]")
	$(Q)$(COMPILE) -c -o $@ $<

symbol = embed_$(subst -,_,$(subst .,_,$(subst /,_,$(1))))
$(OBJ)/embed/%.o: % $(OBJ)/flags
	@mkdir -p $(@D)
	@printf '%s\n' '.section .rodata' '.global $(call symbol,$<), $(call symbol,$<)_end' '$(call symbol,$<):' \
	    '.incbin "$<"' '$(call symbol,$<)_end:' '.byte 0' '.section .note.GNU-stack,"",@progbits' | \
	    $(CC) -c -x assembler -o $@ -

define archive_rule
$(call archive,$(1)): $$(OBJ_$(2)) $$(OBJ)/sources
	@rm -f $$@
	$$(Q)$$(AR) rcs $$@ $$(filter %.o,$$^)
endef
upper = $(subst producer,PRODUCER,$(subst agent,AGENT,$(subst coordinator,COORDINATOR,$(subst core,CORE,$(subst api,API,$(subst common,COMMON,$(1)))))))
$(foreach name,$(ARCHIVES),$(eval $(call archive_rule,$(name),$(call upper,$(name)))))

# What ThreadSanitizer needs to see of librdkafka's threads and locks.
TSAN_OBJECT := $(if $(filter tsan,$(VARIANT)),$(OBJ)/tests/tsan/c11_threads.o)

link_daemon = @mkdir -p $(@D); $(if $(V),,echo "  LINK    $@";) $(LINK) -o $@ $(filter %.o %.a,$^) $(1)
$(BIN)/baton-coordinator: $(OBJ)/coordinator/main.o $(TSAN_OBJECT) $(LIB_COORDINATOR)
	$(call link_daemon,$(LIBS_COORDINATOR))
$(BIN)/baton-agent: $(OBJ)/agent/main.o $(TSAN_OBJECT) $(LIB_AGENT)
	$(call link_daemon,$(LIBS_AGENT))

define plugin_rule
$(call plugin_file,$(1)): $(1) $$(OBJ)/flags
	@test -n '$(call plugin_version,$(1))' || \
	    { echo '$(1): no line #define PLUGIN_VERSION "x.y.z"' >&2; exit 1; }
	@mkdir -p $$(@D) $(OBJ)/$(dir $(1))
	@$$(if $$(V),,echo "  PLUGIN  $$@")
	$$(Q)$$(COMPILE) -MF $(OBJ)/$(1:.c=.d) -MT $$@ -fPIC -shared $$(filter-out -pie,$$(PROJECT_LDFLAGS)) $$(LDFLAGS) -o $$@ $$<
-include $(OBJ)/$(1:.c=.d)
endef
$(foreach source,$(PLUGIN_SOURCES),$(eval $(call plugin_rule,$(source))))

# The producers' library shows its users the functions of its header and nothing else: what it takes of common/ is hidden, in the
# static library as well, where a name such as murmur2 might meet the user's own.
PIC_CFLAGS = $(filter-out -fPIE,$(PROJECT_CFLAGS)) -fPIC -fvisibility=hidden
OBJ_PARTITIONER := $(patsubst %.c,$(OBJ)/pic/%.o,$(wildcard producer/*.c) $(addprefix common/hash/,key_map.c linhash.c murmur2.c crc32.c))
$(OBJ)/pic/%.o: %.c $(OBJ)/flags
	@mkdir -p $(@D)
	@$(if $(V),,echo "  CC      $< [$(VARIANT), pic]")
	$(Q)$(CC) $(PROJECT_CPPFLAGS) $(CPPFLAGS) $(PIC_CFLAGS) $(EXTERNAL_CFLAGS) $(CFLAGS) -MMD -MP -c -o $@ $<
$(PARTITIONER).a: $(OBJ_PARTITIONER)
	@mkdir -p $(@D); rm -f $@
	@$(if $(V),,echo "  LIB     $@")
	$(Q)$(LD) -r -o $(OBJ)/partitioner.o $^
	$(Q)$(OBJCOPY) --localize-hidden $(OBJ)/partitioner.o
	$(Q)$(AR) rcs $@ $(OBJ)/partitioner.o
$(PARTITIONER_SHARED): $(OBJ_PARTITIONER)
	@mkdir -p $(@D)
	@$(if $(V),,echo "  LIB     $@")
	$(Q)$(CC) -shared -Wl,-soname,$(notdir $(PARTITIONER)).so.$(PARTITIONER_ABI) $(filter-out -pie,$(PROJECT_LDFLAGS)) $(LDFLAGS) \
	    -o $@ $^ $(LIBS_PRODUCER)
$(PARTITIONER_JAR): $(shell find producer/java -name '*.java') scripts/jar.sh scripts/kafka-pom.xml
	@$(if $(V),,echo "  JAR     $@")
	$(Q)scripts/jar.sh $@ producer/java
$(EXAMPLES): $(BUILD)/examples/%: $(OBJ)/examples/producer/%.o $(PARTITIONER).a
	$(call link_daemon,$(LIBS_PRODUCER))

# ---- small programs of the tests ----------------------------------------------------------------

# tests/bench/bench_*.c measure parts of the agent; tests/tools/*.c are run by scripts and tests.
BENCHES := $(patsubst tests/bench/%.c,$(BUILD)/bench/%,$(wildcard tests/bench/bench_*.c))
TOOLS := $(patsubst tests/tools/%.c,$(BUILD)/tools/%,$(wildcard tests/tools/*.c))
# tests/tsan/race_*.c keep the threads of one part busy, for ThreadSanitizer: Criterion does not run under it.
RACES := $(patsubst tests/tsan/%.c,$(TESTBIN)/%,$(wildcard tests/tsan/race_*.c))

.PHONY: benches tools races
benches: $(BENCHES)
tools: $(TOOLS)
races: $(RACES)
$(RACES): $(TESTBIN)/%: $(OBJ)/tests/tsan/%.o $(TSAN_OBJECT) $(LIB_AGENT)
	$(call link_daemon,$(LIBS_AGENT))
$(BENCHES): $(BUILD)/bench/%: $(OBJ)/tests/bench/%.o $(LIB_AGENT)
	$(call link_daemon,$(LIBS_AGENT))
$(TOOLS): $(BUILD)/tools/%: $(OBJ)/tests/tools/%.o $(call archive,api common)
	$(call link_daemon,$(LIBS_AGENT))

# ---- unit tests and simulator -------------------------------------------------------------------

# One binary per folder of tests/unit that holds a test_*.c: tests/unit/agent/core -> unit-agent-core. The tests
# of common/hash are part of unit-common.
UNIT_FOLDERS := $(filter-out common/hash,$(sort $(patsubst tests/unit/%/,%,$(dir $(wildcard \
    tests/unit/*/test_*.c tests/unit/*/*/test_*.c)))) $(if $(wildcard tests/unit/common/hash/test_*.c),common))
UNIT_FOLDERS := $(sort $(UNIT_FOLDERS))
unit_binary = $(TESTBIN)/unit-$(subst /,-,$(1))
UNIT_BINARIES := $(foreach folder,$(UNIT_FOLDERS),$(call unit_binary,$(folder)))

# What each test binary is linked with. The cores' have no library but the C library and Criterion on their line:
# a core that does I/O through one of ours, or an API module that needs jansson, does not link.
UNIT_LINK_common := $(LIB_COMMON)
UNIT_LINK_api := $(call archive,api common)
UNIT_LINK_coordinator := $(LIB_COORDINATOR)
UNIT_LINK_coordinator/core := $(call archive,coordinator_core api common)
UNIT_LINK_agent := $(LIB_AGENT)
UNIT_LINK_agent/core := $(call archive,agent_core api common)
UNIT_LINK_agent/logic := $(OBJ_AGENT_LOGIC) $(call archive,api common)
UNIT_LINK_producer := $(call archive,producer common)
UNIT_LIBS_producer = $(LIBS_PRODUCER)
UNIT_LIBS_common = $(LIBS_COMMON)
UNIT_LIBS_api = $(LIBS_API)
UNIT_LIBS_coordinator = $(LIBS_COORDINATOR)
UNIT_LIBS_coordinator/core = -lm
UNIT_LIBS_agent/core = -lm
UNIT_LIBS_agent = $(LIBS_AGENT)
UNIT_LIBS_agent/logic = $(LIBS_API) -ldl

# These check what they do by the vectors of tests/golden.
GOLDEN_FOLDERS := common producer

define unit_rule
$(call unit_binary,$(1)): $(call objects,tests/unit/$(1)/*.c $(if $(filter common,$(1)),tests/unit/common/hash/*.c) \
        $(if $(filter $(GOLDEN_FOLDERS),$(1)),tests/golden/*.c)) \
        $(UNIT_LINK_$(1))
	@mkdir -p $$(@D)
	@$$(if $$(V),,echo "  LINK    $$@")
	$$(Q)$$(LINK) -o $$@ $$(filter %.o,$$^) -Wl,--start-group $$(filter %.a,$$^) -Wl,--end-group \
	    $$(UNIT_LIBS_$(1)) $$(LIBS_CRITERION)
endef
$(foreach folder,$(UNIT_FOLDERS),$(eval $(call unit_rule,$(folder))))

# The simulator: both cores unchanged over a model of Kafka; no library but the C library.
SIM := $(if $(wildcard tests/sim/*.c),$(TESTBIN)/sim)
$(TESTBIN)/sim: $(call objects,tests/sim/*.c) $(LIB_CORES) $(call archive,api common)
	@mkdir -p $(@D)
	@$(if $(V),,echo "  LINK    $@")
	$(Q)$(LINK) -o $@ $(filter %.o,$^) -Wl,--start-group $(filter %.a,$^) -Wl,--end-group -lm

.PHONY: test-binaries run-unit run-sim
test-binaries: $(UNIT_BINARIES) $(SIM)
# These run what is there and build nothing: one folder that does not compile must not hide the others' results.
run-unit:
	@scripts/run-unit.sh $(if $(SUITE),$(SUITE),unit) $(UNIT_BINARIES)
run-sim:
	@$(if $(SIM),scripts/run-sim.sh $(if $(SUITE),$(SUITE)-sim,sim) $(SIM) $(SIM_ARGS),:)

# `make unit-agent-core` builds and runs one unit test binary; T=pattern narrows it (Criterion's --filter).
unit-%:
	@$(MAKE) VARIANT=hooks $(BUILD)/test/$@
	@$(BUILD)/test/$@ $(if $(T),--filter '$(T)') --verbose=0

# ---- what people call ---------------------------------------------------------------------------

.PHONY: setup demo test check system soak model bench bench-handoff bench-drain bench-expand asan tsan format format-check tidy cover lint kafka-up kafka-down \
    producer-java install clean help hooks

setup: ## install what this machine lacks to build, demonstrate and test
	@scripts/setup.sh build test

# Set-up comes before the build even under -j, so it is a line of the recipe and not a prerequisite.
demo: ## show baton at work on a real broker (DEMO_KAFKA=host:port uses yours)
	@scripts/setup.sh build kafka python
	@$(MAKE) all
	@scripts/demo.sh

test: ## set up, then everything: build, lint, check, asan, system
	@scripts/test.sh

check: ## unit tests and the simulator (no broker)
	@scripts/setup.sh build
	@status=0; $(MAKE) -k VARIANT=hooks test-binaries || status=1; \
	    $(MAKE) VARIANT=hooks run-unit || status=1; $(MAKE) VARIANT=hooks run-sim || status=1; exit $$status

hooks: ## build the daemons with test hooks, as the system tests use them
	@$(MAKE) VARIANT=hooks daemons

system: ## tests on a real broker; K=word runs those whose names hold the word
	@scripts/setup.sh build test
	@$(MAKE) all hooks tools $(PARTITIONER_JAR)
	@scripts/run-system.sh system $(call quoted,$(K))

soak: ## the long matrices; writes build/soak/summary.json; K=word as above
	@scripts/setup.sh build test
	@$(MAKE) all hooks tools
	@scripts/run-system.sh soak $(call quoted,$(K))

model: ## check the model of hand-overs in docs/model, and that its mutants are found; K=word as above
	@scripts/setup.sh build model
	@scripts/model.sh $(call quoted,$(K))

bench: ## measure on this machine; K=word runs those whose names hold the word
	@scripts/setup.sh build test
	@$(MAKE) all benches tools
	@scripts/run-bench.sh $(call quoted,$(K))

bench-handoff: ## measure N=20 hand-overs under RATE=4000 records/s; a JSON line each, also in build/bench/handoff.jsonl
	@scripts/setup.sh build test
	@$(MAKE) all tools
	@mkdir -p $(BUILD)/bench
	@set -o pipefail; scripts/python.sh tests/bench/bench_handoff.py --handoffs $(or $(N),20) --rate $(or $(RATE),4000) \
	    | tee $(BUILD)/bench/handoff.jsonl

bench-drain: ## measure the drain of one of three agents under RATE=4000 records/s; JSON lines, also in build/bench/drain.jsonl
	@scripts/setup.sh build test
	@$(MAKE) all tools
	@mkdir -p $(BUILD)/bench
	@set -o pipefail; scripts/python.sh tests/bench/bench_drain.py --rate $(or $(RATE),4000) | tee $(BUILD)/bench/drain.jsonl

bench-expand: ## latency of what does not move in N=3 rounds of expansions under RATE=4000; also in build/bench/expand.jsonl
	@scripts/setup.sh build test
	@$(MAKE) all tools
	@mkdir -p $(BUILD)/bench
	@set -o pipefail; scripts/python.sh tests/bench/bench_expand.py --rounds $(or $(N),3) --rate $(or $(RATE),4000) \
	    | tee $(BUILD)/bench/expand.jsonl

asan: ## unit tests and simulator under AddressSanitizer and UBSan
	@scripts/setup.sh build
	@status=0; $(MAKE) -k VARIANT=asan test-binaries daemons || status=1; \
	    $(MAKE) VARIANT=asan SUITE=asan run-unit || status=1; $(MAKE) VARIANT=asan SUITE=asan run-sim || status=1; \
	    exit $$status

tsan: ## threads under ThreadSanitizer: of single parts, and the daemons in a smoke run on a real broker
	@scripts/setup.sh build test
	@$(MAKE) VARIANT=tsan daemons races
	@status=0; scripts/run-races.sh $(BUILD)/tsan/test || status=1; \
	    BATON_BUILD=$(BUILD)/tsan scripts/run-system.sh tsan process || status=1; exit $$status

lint: ## include direction, purity of the cores, source rules, scripts
	@scripts/lint.sh

# Pinned to the major version that formatted the tree: others lay it out differently.
CLANG_FORMAT ?= clang-format-14
CLANG_TIDY ?= clang-tidy-14
C_FILES = $(shell git ls-files --cached --others --exclude-standard -- '*.c' '*.h')

format: ## lay out all C files with clang-format
	@scripts/setup.sh format
	@$(CLANG_FORMAT) -i $(C_FILES)

format-check: ## fail when a C file is not laid out so
	@scripts/setup.sh format
	@$(CLANG_FORMAT) --dry-run -Werror $(C_FILES)

tidy: ## clang-tidy over all C files
	@scripts/setup.sh build tidy
	@$(CLANG_TIDY) --quiet $(filter %.c,$(C_FILES)) -- $(PROJECT_CPPFLAGS) -std=gnu11 -DBATON_TEST_HOOKS

cover: ## line coverage of the unit tests, in build/cover/index.html
	@scripts/setup.sh build cover
	@find $(BUILD)/obj/cover -name '*.gcda' -delete 2>/dev/null || true
	@status=0; $(MAKE) -k VARIANT=cover test-binaries || status=1; $(MAKE) -k VARIANT=cover SUITE=cover run-unit run-sim || status=1; \
	    gcovr --root . --exclude tests/ --object-directory $(BUILD)/obj/cover --print-summary \
	    --html-details $(BUILD)/cover/index.html $(BUILD)/obj/cover || status=1; exit $$status

kafka-up: ## start a one-node Kafka on loopback and print its address
	@scripts/setup.sh kafka
	@scripts/kafka.sh up

kafka-down: ## end it (its data stay in build/kafka)
	@scripts/kafka.sh down

producer-java: ## build the producers' Java class, build/lib/baton-partitioner-VERSION.jar
	@scripts/setup.sh java
	@$(MAKE) $(PARTITIONER_JAR)

install: all ## install below $(DESTDIR)$(PREFIX); the jar of producer-java as well when it was built
	install -d $(DESTDIR)$(PREFIX)/bin $(DESTDIR)$(PREFIX)/include/baton $(DESTDIR)$(PREFIX)/lib/baton/plugins \
	    $(DESTDIR)$(PREFIX)/lib/pkgconfig
	$(if $(DAEMONS),install -m 755 $(DAEMONS) $(DESTDIR)$(PREFIX)/bin)
	install -m 644 api/processor.h producer/partitioner.h $(DESTDIR)$(PREFIX)/include/baton
	install -m 644 $(PARTITIONER).a $(DESTDIR)$(PREFIX)/lib
	install -m 755 $(PARTITIONER_SHARED) $(DESTDIR)$(PREFIX)/lib
	ln -sf $(notdir $(PARTITIONER_SHARED)) $(DESTDIR)$(PREFIX)/lib/$(notdir $(PARTITIONER)).so.$(PARTITIONER_ABI)
	ln -sf $(notdir $(PARTITIONER)).so.$(PARTITIONER_ABI) $(DESTDIR)$(PREFIX)/lib/$(notdir $(PARTITIONER)).so
	sed 's|@PREFIX@|$(PREFIX)|; s|@VERSION@|$(VERSION)|' producer/baton-partitioner.pc.in \
	    >$(DESTDIR)$(PREFIX)/lib/pkgconfig/baton-partitioner.pc
	$(if $(wildcard $(PARTITIONER_JAR)),install -D -m 644 -t $(DESTDIR)$(PREFIX)/share/java $(PARTITIONER_JAR))

clean: ## remove build/ (ends the broker of kafka-up first)
	@scripts/kafka.sh down >/dev/null 2>&1 || true
	rm -rf $(BUILD)

help: ## list the targets
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/\1\t\2/p' Makefile | while IFS=$$'\t' read -r name text; do \
	    printf '  %-14s%s\n' "$$name" "$$text"; done

# Headers that each object was built from, as the compiler wrote them down.
-include $(shell find $(OBJ) -name '*.d' 2>/dev/null)
