# SPDX-License-Identifier: Apache-2.0
# tenantry. `make` lists the targets; .ci/need installs what a target lacks.

GO      ?= go
VERSION ?= 0.1.0-dev
COMMIT  := $(shell git rev-parse --short=12 HEAD 2>/dev/null || echo unknown)
LDFLAGS := -s -w -X main.version=$(VERSION) -X main.commit=$(COMMIT)
TOOL    := $(GO) tool -modfile=.ci/tools/go.mod
PLUGINS := $(notdir $(patsubst %/main.go,%,$(wildcard plugins/*/main.go)))
MODULES := $(patsubst %/go.mod,%,$(wildcard plugins/*/go.mod))
PACKAGES ?= ./...

# Without the path of this checkout in them, compiled packages are shared by all
# that is built elsewhere: the copy of .ci/fresh, the release before, the image.
export GOFLAGS := $(strip $(filter-out -trimpath,$(shell $(GO) env GOFLAGS)) -trimpath)

# The race detector watches all Go code but SQLite's, which is C that a program
# translated and several times slower when watched. A test binary ends without
# the whole second for which the detector waits by default.
RACE := -race -gcflags=modernc.org/sqlite/lib=-race=false -gcflags=modernc.org/libc=-race=false
test soak: export GORACE := atexit_sleep_ms=100 $(GORACE)

.DEFAULT_GOAL := help
.PHONY: help demo dev build test check lint-api openapi generate bench bench-events soak release fmt clean

help: ## list the targets
	@awk -F':.*## ' '/^[a-z-]+:.*## /{printf "  make %-13s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

demo: build ## walk the main job before your eyes, against the sandbox
	@bin/tenantry demo

dev: build ## start the sandbox and keep it running
	@bin/tenantry dev

build: ## bin/tenantry and bin/plugins with their catalog
	@$(GO) build -ldflags '$(LDFLAGS)' -o bin/tenantry ./app/tenantry
	@for plugin in $(PLUGINS); do $(GO) -C plugins/$$plugin build -ldflags '-s -w' -o $(CURDIR)/bin/plugins/$$plugin . || exit 1; done
	@rm -f bin/plugins/catalog.json
	@bin/tenantry plugin add --plugin-dir bin/plugins $(addprefix bin/plugins/,$(PLUGINS)) >/dev/null

test: ## all tests, with the race detector, on SQLite and a private PostgreSQL
	@.ci/need gcc postgresql nodejs npm chromium systemd openssl nginx caddy prometheus redis-server pdns-server pdns-backend-lmdb bind9
	@.ci/npm .ci/browser
	@.ci/npm .ci/clients
	@$(GO) run ./.ci/withservers -- $(GO) test $(RACE) -timeout 15m $(PACKAGES)
	@for module in $(if $(filter ./...,$(PACKAGES)),$(MODULES)); do $(GO) -C $$module test -race -timeout 15m ./... || exit 1; done

check: ## vet, lint with gosec, secret scan, generated files fresh, import rules, alert rules, API lint
	@.ci/need gcc protobuf-compiler nodejs npm prometheus
	@for module in . $(MODULES); do $(GO) -C $$module vet ./... || exit 1; done
	@for module in . $(MODULES); do $(GO) -C $$module tool -modfile=$(CURDIR)/.ci/tools/go.mod golangci-lint run || exit 1; done
	@git ls-files -co --exclude-standard -z | $(GO) run ./.ci/secretscan
	@$(GO) test ./.ci/secretscan ./.ci/release
	@.ci/fresh
	@$(GO) test -count=1 ./docs
	@promtool check rules deploy/prometheus/alerts.yaml
	@promtool test rules deploy/prometheus/alerts_test.yaml
	@$(MAKE) --no-print-directory lint-api

lint-api: ## check the OpenAPI document with Spectral and Redocly, and that it breaks no caller
	@.ci/need nodejs npm
	@.ci/npm .ci/api-lint
	@.ci/api-lint/lint docs/openapi.yaml
	@.ci/oasdiff/guard $(BASE)

openapi: ## write docs/openapi.yaml from the code
	@$(GO) run ./app/tenantry openapi > docs/openapi.yaml.new && mv docs/openapi.yaml.new docs/openapi.yaml

generate: openapi ## write all generated files
	@.ci/need protobuf-compiler
	@$(GO) generate ./...
	@for plugin in $(PLUGINS); do $(GO) -C plugins/$$plugin run . describe || exit 1; done | \
		$(GO) run ./app/tenantry reference > docs/configuration.md.new && mv docs/configuration.md.new docs/configuration.md

bench: ## measure, and write docs/performance.md
	@.ci/bench

bench-events: ## measure pages of 10 million events, and write docs/event-pages.md; needs 6 GB of disk
	@.ci/bench-events

soak: ## the long proofs: all crash points, all timings
	@.ci/need gcc postgresql nodejs npm chromium systemd openssl nginx caddy prometheus redis-server pdns-server pdns-backend-lmdb bind9
	@.ci/npm .ci/browser
	@.ci/npm .ci/clients
	@TENANTRY_SOAK=1 $(GO) run ./.ci/withservers -- $(GO) test $(RACE) -timeout 60m -count=1 $(PACKAGES)

release: ## dist: archives for Linux amd64 and arm64, bills of materials, checksums
	@$(GO) run ./.ci/release -version $(VERSION) -commit $(COMMIT)

fmt: ## format the code
	@gofmt -w $$(git ls-files '*.go')

clean: ## remove what was built
	@rm -rf bin dist tenantry-dev .cache
