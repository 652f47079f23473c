# SPDX-License-Identifier: Apache-2.0
# tenantry. `make` lists the targets. .ci/need checks for the Debian packages of a target.

GO      ?= go
VERSION ?= 0.1.0-dev
COMMIT  := $(shell git rev-parse --short=12 HEAD 2>/dev/null || echo unknown)
LDFLAGS := -s -w -X main.version=$(VERSION) -X main.commit=$(COMMIT)
PLUGINS := $(notdir $(patsubst %/main.go,%,$(wildcard plugins/*/main.go)))
MODULES := $(patsubst %/go.mod,%,$(wildcard plugins/*/go.mod))
# The packages whose tests take longest begin first.
PACKAGES ?= ./app/e2e ./plugins/template ./plugins/mail-microsoft365 ./plugins/conformance ./adapters/queue ./adapters/bunstore ./...

# All builds share the compiled packages, because these contain no path of this folder and
# no C code. So it does not matter whether gcc is installed. Only the race detector needs C.
export GOFLAGS := $(strip $(filter-out -trimpath,$(shell $(GO) env GOFLAGS)) -trimpath)
export CGO_ENABLED := 0

# Tests find the programs that they start in this folder.
export TENANTRY_TEST_BIN := $(CURDIR)/bin/test

# The race detector checks only code in the process of a test. `make race` therefore leaves out
# app/e2e and plugins/template, whose tests start programs. The detector does not check SQLite,
# which is C code that was translated to Go, because that would take most of the time.
# UNWATCHED are the tests of other packages that `make race` leaves out:
#  - the tests of built plugins. TestContract runs the same suite in one process, with the detector.
#  - the benchmarks.
#  - the fuzzing. It compares the memory of its process, and with the detector the process needs
#    more memory with each request. The seeds of the fuzzing run with the detector.
#  - the tests of the store on a database in memory, which has only one connection. With the
#    detector, the same tests run on PostgreSQL, and a sample of them on SQLite files.
IN_PROCESS := ./adapters/... ./app/... ./core/... ./plugins/... ./ports/...
RACE := -race $(foreach package,sqlite/lib libc memory,-gcflags=modernc.org/$(package)=-race=false)
UNWATCHED := ^(TestBinary|TestBundledPluginsPass|TestBenchmarks|TestFuzzingRequestsWithoutKey)$$|/^sqlite-memory$$|//^sqlite-memory$$
race soak: export CGO_ENABLED := 1
race soak: export GORACE := atexit_sleep_ms=100 $(GORACE)

# Tests allocate much memory for a short time. With this value, which the service uses too,
# there are a fourth of the garbage collections, and tests need a sixth less processor time.
test race soak: export GOGC := 400

# Long tests run only a sample of their cases. This seed determines the sample. `make soak`
# runs all cases.
test race: export TENANTRY_SEED := $(or $(TENANTRY_SEED),$(shell date +%s))

# gotestsum prints a line for each finished package, the output of failures, and a summary.
# go vet is off, because `make check` runs it. The timeout is so long that only a test that
# hangs reaches it. Tests mostly wait, so four packages run at the same time even with two
# cores. With `make soak`, some packages run for more than an hour.
TIMEOUT := 60m
soak: TIMEOUT := 8h
GOTEST   = $(GO) run ./.ci/withservers -memory -- bin/gotestsum --format standard-quiet --hide-summary skipped -- -p 4 -vet=off -timeout $(TIMEOUT)

.DEFAULT_GOAL := help
.PHONY: help demo dev build test race test-programs check lint lint-api openapi generate bench bench-events soak release fmt clean

help: ## list the targets
	@awk -F':.*## ' '/^[a-z-]+:.*## /{printf "  make %-13s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

demo: ## show the main workflow step by step, against the sandbox
	@LDFLAGS='$(LDFLAGS)' .ci/build bin/demo mail-microsoft365 dns-cloudflare sending-instantly
	@bin/demo/tenantry demo

dev: build ## start the sandbox and keep it running
	@bin/tenantry dev

build: ## bin/tenantry and bin/plugins with their catalog
	@LDFLAGS='$(LDFLAGS)' .ci/build bin $(PLUGINS)

test: ## all tests, on SQLite and a private PostgreSQL
	@.ci/need test
	@.ci/timed "make test" $(MAKE) --no-print-directory test-programs test-run

test-run:
	@echo "Long tests run a sample of their cases, drawn with TENANTRY_SEED=$$TENANTRY_SEED. make soak runs all cases."
	@$(GOTEST) $(PACKAGES)
	@for module in $(if $(filter ./...,$(PACKAGES)),$(MODULES)); do \
		(cd $$module && $(CURDIR)/bin/gotestsum --format standard-quiet -- -timeout $(TIMEOUT) ./...) || exit 1; done

race: ## the tests that run in one process, with the race detector
	@.ci/need race
	@CGO_ENABLED=0 $(MAKE) --no-print-directory test-programs
	@.ci/timed "make race" $(GOTEST) $(RACE) -skip '$(UNWATCHED)' $$($(GO) list $(IN_PROCESS) | grep -vE '/(app/e2e|plugins/template)$$')

# The programs that tests start are built once, before the tests. A program that is up to
# date is not built again.
TESTDATA := $(addprefix ./,$(wildcard adapters/*/testdata/*/main.go app/*/testdata/*/main.go plugins/*/testdata/*/main.go plugins/template/*/main.go))
SOURCES  := $(wildcard $(shell git ls-files -co --exclude-standard -- go.mod go.sum adapters app core migrations plugins ports deploy/container 2>/dev/null))
test-programs: bin/gotestsum bin/oasdiff bin/test/chart bin/test/clients/smoke.js bin/test/image/config.json
	@.ci/npm .ci/browser
	@.ci/npm plugins/template/node
	@.ci/build bin/test/release $(PLUGINS)
	@.ci/previous bin/test/previous
	@$(GO) build -tags failpoints -o bin/test/failpoints/tenantry ./app/tenantry
	@ln -sfn ../release/plugins bin/test/failpoints/plugins
	@$(GO) build -o bin/test/testdata/ $(dir $(TESTDATA))

bin/gotestsum: .ci/tools/go.mod
	@$(GO) -C .ci/tools build -o $(CURDIR)/$@ gotest.tools/gotestsum

bin/oasdiff: .ci/oasdiff/go.mod
	@echo "Building the program that compares two OpenAPI documents."
	@$(GO) -C .ci/oasdiff build -o $(CURDIR)/$@ github.com/oasdiff/oasdiff

bin/test/chart: $(wildcard .ci/chart/*)
	@echo "Building the checker of the Helm chart."
	@$(GO) -C .ci/chart build -o $(CURDIR)/$@ .

bin/test/clients/smoke.js: docs/openapi.yaml $(wildcard .ci/clients/*) adapters/httpapi/pages/examples/verify/verify.ts
	@echo "Generating the Go and TypeScript clients of docs/openapi.yaml."
	@.ci/npm .ci/clients
	@.ci/clients/make docs/openapi.yaml bin/test/clients

bin/test/image/config.json: $(SOURCES)
	@echo "Building the container image's files."
	@$(GO) run ./.ci/image -arg VERSION=9.8.7 -arg COMMIT=abc deploy/container/Containerfile bin/test/image

# The tests of the script .ci/oasdiff/guard. `make test` runs them, and `make check` does not.
GUARD := ^Test(GuardReportsBreakingChanges|GuardAcceptsAListedBreak|GuardComparesWithTheRightCommit)$$

check: lint bin/oasdiff ## vet and lint, secret scan, generated files fresh, import rules, alert rules, API lint
	@git ls-files -co --exclude-standard -z | $(GO) run ./.ci/secretscan
	@$(GO) test ./.ci/secretscan ./.ci/release
	@.ci/fresh
	@$(GO) test -count=1 -skip '$(GUARD)' ./docs
	@promtool check rules deploy/prometheus/alerts.yaml
	@promtool test rules deploy/prometheus/alerts_test.yaml
	@$(MAKE) --no-print-directory lint-api

lint: ## go vet with more analyzers
	@.ci/need check
	@$(GO) -C .ci/tools build -o $(CURDIR)/bin/lint ./lint
	@echo "Checking all packages with go vet and its additional analyzers (.ci/tools/lint)."
	@for module in . $(MODULES); do .ci/progress $(GO) -C $$module vet -v -vettool=$(CURDIR)/bin/lint ./... || exit 1; done

lint-api: bin/oasdiff ## check the OpenAPI document with Spectral and Redocly, and that it breaks no caller
	@.ci/need lint-api
	@.ci/npm .ci/api-lint
	@.ci/api-lint/lint docs/openapi.yaml
	@.ci/oasdiff/guard $(BASE)

openapi: ## write docs/openapi.yaml from the code
	@$(GO) run ./app/tenantry openapi > docs/openapi.yaml.new && mv docs/openapi.yaml.new docs/openapi.yaml

generate: openapi ## write all generated files
	@.ci/need generate
	@$(GO) generate ./...
	@for plugin in $(PLUGINS); do $(GO) -C plugins/$$plugin run . describe || exit 1; done | \
		$(GO) run ./app/tenantry reference > docs/configuration.md.new && mv docs/configuration.md.new docs/configuration.md

bench: test-programs ## measure, and write docs/performance.md
	@.ci/bench

bench-events: ## measure pages of 10 million events of two kinds, and write docs/event-pages.md; needs 8 GB of disk
	@.ci/bench-events

soak: ## all cases of the long tests: all crash points, all histories, mutants of the store, real time; with the race detector
	@.ci/need soak
	@CGO_ENABLED=0 $(MAKE) --no-print-directory test-programs
	@TENANTRY_SOAK=1 $(GOTEST) $(RACE) -count=1 $(PACKAGES)

release: ## dist: archives for Linux amd64 and arm64, bills of materials, checksums
	@$(GO) run ./.ci/release -version $(VERSION) -commit $(COMMIT)

fmt: ## format the code
	@gofmt -w $$(git ls-files '*.go')

clean: ## remove what was built
	@rm -rf bin dist tenantry-dev .cache
