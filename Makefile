# Carillon: what people and machines run. `make` alone lists the targets.
SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help
.PHONY: help build package run test test-quick test-swift test-swift-quick test-fuzz test-sql test-clients test-release test-package test-image test-instructions conformance sanitize fuzz storm resume churn soak hub-chaos lint format docs bench clean

tools := deploy/development
# On a terminal too: SwiftPM takes colour for another build, and would begin anew.
plain := --no-color-diagnostics

# Pure values and machines, the loops, and what the command and the pages say. Skipped are a suite that needs PostgreSQL, and one that takes minutes.
quick := '^(Bytes|Clock|Digests|JSON|HTTP|WebSocket|Pusher|Sync|Care|Metrics|Notifications|Reminding|CarillonClient|HubEngine|Reactor|Identity|Operations)Tests[.]|^CarillonTests[.](Pages|Layer|Tidy|TypeName|TypeSize|PageNames|Settings|SettingsTable|SettingsTogether|SettingValues|ApplicationSettings|Help|Log|LimitLog|HubMetrics)Tests/'

help: ## List these targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-18s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

build: ## Build the release: .build/release/carillon
	@$(tools)/packages build
	$(tools)/release

package: ## Build a Debian package, .build/carillon_VERSION_ARCHITECTURE.deb
	@$(tools)/packages build package
	$(tools)/release
	@deploy/debian/package

run: ## Build, and start a hub with a private PostgreSQL and a small demonstration, on 127.0.0.1:6001
	@$(tools)/packages build run
	$(tools)/release
	@exec .build/release/carillon dev

test: ## All tests below, and lint: prints what failed and a summary; all output is in .build/test
	@$(tools)/steps lint test-swift test-fuzz test-sql test-clients test-release test-package test-instructions

test-quick: ## Less than five minutes: lint, Swift tests that need no PostgreSQL, SQL tests
	@$(tools)/steps lint test-swift-quick test-sql

test-swift-quick:
	@$(tools)/packages build
	swift build $(plain) --build-tests
	swift test $(plain) --skip-build --filter $(quick) --skip '[.](Differential|Mutant|Hub|Death)Tests/'

test-swift: ## Swift tests, against private PostgreSQL clusters where they need one
	@$(tools)/packages build run redis
	swift build $(plain) --build-tests
	@# All suites run in one process: more descriptors than the 1,024 of a login.
	ulimit -S -n 8192 || true; swift test $(plain) --skip-build

test-fuzz: ## Some seconds of fuzzing for each parser
	@$(tools)/packages build
	Tests/Fuzz/run --seconds 8

test-sql: ## SQL tests, in a private cluster
	@$(tools)/packages run
	sql/embed/generate --check
	$(tools)/with-cluster sql/tests/run

test-clients: ## Third-party clients (Pysher, the pusher package, websockets) judge development hubs
	@$(tools)/packages build run redis test
	swift build $(plain) --product carillon
	swift build $(plain) --product loadtest
	swift build $(plain) --product ClientDevice
	CARILLON=$(CURDIR)/.build/debug/carillon Tests/ThirdParty/run

test-release: ## The release build, whole and stripped, runs where there is no Swift toolchain
	@$(tools)/packages build release
	$(tools)/release
	Tests/release
	Tests/outside resolve
	Tests/apple

test-package: ## The Debian package installs on a clean system and sends an event; needs root
	@$(tools)/packages build package
	$(tools)/release
	Tests/package || [ $$? -eq 77 ]

test-image: ## The container file's image: its user, its health check, an event, its size; needs root. WHOLE=1 compiles in it
	@$(tools)/packages build run image
	$(if $(WHOLE),,$(tools)/release)
	Tests/image $(if $(WHOLE),whole) || [ $$? -eq 77 ]

test-instructions: ## Count the release build's instructions by callgrind, and hold them against loadtest/thresholds
	@$(tools)/packages build run instructions
	$(tools)/release carillon loadtest
	loadtest/instructions

conformance: ## Autobahn's WebSocket suite, or CASES of it ('6.* 12.1.1'); needs a Python 2.7 (PYTHON2), else status 77
	@$(tools)/packages build conformance
	swift build $(plain) --product EchoServer
	@set -f; Tests/ThirdParty/conformance $(CASES)

sanitize: ## The Swift tests under the sanitizer KIND (thread, address), TARGETS one by one: half an hour; a build of its own
	@$(tools)/packages build run redis
	$(tools)/sanitize $(or $(KIND),thread) $(TARGETS)

fuzz: ## Fuzz each parser for SECONDS (default 60), two at a time; PARSERS="json pusher" names some
	@$(tools)/packages build
	Tests/Fuzz/run --seconds $(or $(SECONDS),60) $(PARSERS)

storm: ## Storms of devices over the debug build, for MINUTES (default 10)
	@$(tools)/packages build run redis test
	swift build $(plain) --product carillon
	CARILLON=$(CURDIR)/.build/debug/carillon Tests/ThirdParty/storm --minutes $${MINUTES:-10}

resume: ## DEVICES (default 200) resume for SECONDS (default 300) on a bad network while hub and PostgreSQL fall; SEED repeats
	@$(tools)/packages build run redis test
	swift build $(plain) --product carillon
	CARILLON=$(CURDIR)/.build/debug/carillon Tests/ThirdParty/resume --seconds $(or $(SECONDS),300) \
	    --devices $(or $(DEVICES),200) $(if $(SEED),--seed $(SEED))

churn: ## CLIENTS (default 5000) come to channels and go for SECONDS (default 120), counts exact and memory flat; SEED repeats
	@$(tools)/packages build run redis test
	swift build $(plain) --product carillon
	CARILLON=$(CURDIR)/.build/debug/carillon Tests/ThirdParty/churn --seconds $(or $(SECONDS),120) \
	    --clients $(or $(CLIENTS),5000) $(if $(SEED),--seed $(SEED))

soak: ## Random faults for MINUTES (default 30) over two hubs: invariants, memory, descriptors; JSON at the end; SEED repeats
	@$(tools)/packages build run redis test
	swift build $(plain) --product carillon
	CARILLON=$(CURDIR)/.build/debug/carillon Tests/ThirdParty/soak --minutes $(or $(MINUTES),30) \
	    $(if $(DEVICES),--devices $(DEVICES)) $(if $(SEED),--seed $(SEED))

hub-chaos: ## Blows to three hubs, Redis, sentinels, PostgreSQL and ways for MINUTES (default 10) under CLIENTS (3000); SEED repeats
	@$(tools)/packages build run redis test
	swift build $(plain) --product carillon
	swift build $(plain) --product loadtest
	CARILLON=$(CURDIR)/.build/debug/carillon Tests/ThirdParty/hub_chaos --minutes $(or $(MINUTES),10) \
	    $(if $(CLIENTS),--clients $(CLIENTS)) $(if $(SEED),--seed $(SEED))

lint: ## Check the format of the Swift sources and the shell scripts
	swift format lint --strict --recursive --parallel Package.swift Sources Tests loadtest
	@for script in .ci/run $(tools)/* sql/tests/run sql/embed/generate loadtest/{bench,instructions,servers} Tests/Fuzz/run Tests/{apple,image,outside,package,release} deploy/debian/{package,postinst,postrm,prerm} \
	    Tests/ThirdParty/{churn,conformance,hub_chaos,month,resume,run,soak,storm}; do bash -n "$$script"; done

format: ## Format the Swift sources in place
	swift format --in-place --recursive --parallel Package.swift Sources Tests loadtest

docs: ## The Swift client's documentation, by DocC, for any web server: .build/docs
	@$(tools)/packages build
	swift package $(plain) --allow-writing-to-directory .build/docs generate-documentation --target CarillonClient \
	    --warnings-as-errors --transform-for-static-hosting --output-path .build/docs

bench: ## Measure the release build beside a C sender and Nchan (8 minutes; `loadtest/bench` for all of it)
	@$(tools)/packages build run bench
	$(tools)/release carillon corehub loadtest
	loadtest/bench short

clean: ## Remove what was built; the demonstration in .carillon stays
	rm -rf .build .build-* .venv
