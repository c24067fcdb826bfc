# Every target works from a clean clone. "make help" lists them.

GO    ?= go
NODES ?= 1

# What the tests in virtual time need: it makes the Kafka client use locks
# that a synctest bubble can see.
TAGS := synctests

LINT_VERSION := v2.15.0
LINT := $(shell command -v golangci-lint 2>/dev/null)
ifneq ($(LINT),)
ifeq ($(findstring version $(LINT_VERSION:v%=%) ,$(shell $(LINT) version 2>/dev/null)),)
LINT :=
endif
endif
# Otherwise its own copy, whose name tells its version.
LINT := $(or $(LINT),$(CURDIR)/bin/golangci-lint-$(LINT_VERSION))

.PHONY: help
help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-10s %s\n", $$1, $$2 }' $(firstword $(MAKEFILE_LIST))

.PHONY: run
run: ## show ax at work, with nothing installed but Go: make run ARGS="--help"
	$(GO) run ./cmd/ax demo $(ARGS)

.PHONY: test
test: ## everything: setup, lint, all tests, on a real Kafka too
	@.ci/stage setup .ci/setup.sh
	@.ci/stage lint $(MAKE) --no-print-directory lint
	@.ci/stage unit $(MAKE) --no-print-directory unit
	@.ci/stage rig $(MAKE) --no-print-directory rig
	@.ci/stage real $(MAKE) --no-print-directory real
	@.ci/stage sabotage internal/soak/sabotage.sh
	@.ci/stage soak-classic $(MAKE) --no-print-directory soak ARGS="--for 3m --seed 18 --scenario workers --protocol classic"
	@.ci/stage soak-consumer $(MAKE) --no-print-directory soak ARGS="--for 3m --seed 18 --scenario workers --protocol consumer"

.PHONY: unit
unit: ## the tests that need nothing but Go, the examples among them
	$(GO) test -race -tags $(TAGS) -timeout 20m ./... # a busy machine takes twice the five minutes of package consumer

.PHONY: examples
examples: ## the tests of the example programs
	$(GO) test -race -tags $(TAGS) -count=1 ./examples/... ./deploy

.PHONY: rig
rig: ## the tests of the rig, which starts a real Kafka for the others
	CI=1 $(GO) test -C internal/rig -race -count=1 -timeout 15m ./... # CI: what is missing fails and is not skipped

# Rules for users, which bind only who has one.
ACL := -acl -set allow.everyone.if.no.acl.found=true

# A test fills the disk of one broker. To mount one takes root; for others that
# test fails, and says so.
OWN_DISK := $(if $(filter 0,$(shell id -u)),-own-disk 3)

.PHONY: real
real: bin/rig ## the tests against a real Kafka of three nodes
	exec bin/rig -nodes 3 $(ACL) $(OWN_DISK) -- sh -ec ' \
		$(GO) test -C $(CURDIR) -race -tags kafka -count=1 -parallel 8 -timeout 15m ./internal/e2e/...; \
		$(GO) test -C $(CURDIR) -tags kafka -count=1 -run TestSimAgrees ./cmd/ax'

.PHONY: soak
soak: bin/rig ## faults on real processes and brokers, then a judgement: make soak ARGS="--for 2m --seed 7"
	$(GO) build -tags axskew -o bin/soak ./internal/soak
	exec bin/rig -nodes 3 -provider java -proxy -- bin/soak $(ARGS)

.PHONY: kafka
kafka: bin/rig ## start a real Kafka and print its address: make kafka NODES=3
	@exec bin/rig -nodes $(NODES)

# Built and not "go run", which would not pass SIGTERM on to the rig.
.PHONY: bin/rig
bin/rig:
	@$(GO) build -C internal/rig -o $(CURDIR)/bin/rig .

.PHONY: lint
lint: $(LINT) ## formatting, vet and golangci-lint
	@unformatted="$$(gofmt -l .)"; if [ -n "$$unformatted" ]; then \
		echo "not formatted, run make fmt:"; echo "$$unformatted"; exit 1; fi
	$(GO) vet -tags synctests,kafka ./...
	$(GO) vet -tags axskew ./...
	$(GO) vet -C internal/rig ./...
	$(LINT) run ./...
	cd internal/rig && $(LINT) run --config $(CURDIR)/.golangci.yml ./...

$(CURDIR)/bin/golangci-lint-$(LINT_VERSION):
	GOBIN=$(CURDIR)/bin $(GO) install github.com/golangci/golangci-lint/v2/cmd/golangci-lint@$(LINT_VERSION)
	mv $(CURDIR)/bin/golangci-lint $@

.PHONY: fmt
fmt: ## format all Go files
	gofmt -w .

.PHONY: cover
cover: ## coverage of the library by the tests that need nothing but Go
	$(GO) test -tags $(TAGS) -coverprofile=coverage.out \
		-coverpkg=$$($(GO) list ./... | grep -v -e /examples/ -e /fakekafka -e /storetest -e /e2e | paste -s -d, -) ./...
	$(GO) tool cover -func=coverage.out | tail -n 1

.PHONY: fuzz
fuzz: ## fuzz the decoders for a short time: make fuzz FUZZTIME=5m
	$(GO) test -run '^$$' -fuzz '^FuzzDecode$$' -fuzztime $(or $(FUZZTIME),20s) .
	$(GO) test -run '^$$' -fuzz '^FuzzParse$$' -fuzztime $(or $(FUZZTIME),20s) ./spec

.PHONY: setup
setup: ## install what the tests need beside Go, where that can be done
	.ci/setup.sh
