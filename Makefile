# The workshop: every gate of .ci/run can be called from here by its name.

SHELL      := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help

# A go.work of yours, around or inside this checkout, does not take part in the gates.
export GOWORK := off

BIN       := $(CURDIR)/.tools
FIND      := find . \( -name .git -o -name .tools -o -name dist -o -name testdata \) -prune -o
MODULES   := $(patsubst %/go.mod,%,$(sort $(shell $(FIND) -name go.mod -print)))
MODULE    := $(shell sed -n "s/^module //p" go.mod)
CONTRIB   := $(filter ./contrib/%,$(MODULES))
# Modules with tests only: of lendingtest, the pages, the client behind gateways and the documents, from outside.
TESTS     := $(filter ./tests/%,$(MODULES))
GO_VERSIONS := 1.26.8 1.27.4
FUZZTIME  ?= 10s
MAX_LINES := 450
comma     := ,
# Of tools/go.mod. The gates need these; benchstat and pkgsite are built when a target needs them.
TOOLS     := github.com/golangci/golangci-lint/v2/cmd/golangci-lint golang.org/x/exp/cmd/apidiff golang.org/x/vuln/cmd/govulncheck \
             ./check

# $(call in-modules,modules,command) runs the command in each module and fails after the last one.
in-modules = failed=0; for m in $(1); do echo "-- $$m"; (cd $$m && $(2)) || failed=1; done; exit $$failed

.PHONY: help
help:
	@awk -F ':.*## ' '/^##@/ {print substr($$0, 4) ":"} /^[a-z-]+:.*## / {printf "  %-13s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

##@ Use

.PHONY: demo test cover race contrib fuzz bench flaky mutants gateways
demo: ## README's demonstration on the embedded service
	go run ./examples/quickstart

test: ## Run the tests
	go test ./...

# Six at a time, since tests that run beside others wait for most of their time. At a load of 50 on two cores
# contrib/postgres, which takes 2 minutes alone, exceeded the default of 10 minutes.
timed = -parallel 6 -timeout 20m
# vet spends a tenth less processor time if it collects garbage less often.
vet = GOGC=400 go vet ./...
# vet looks at the same code in the gates readme and lint.
raced = go test -race -vet=off -shuffle=on $(timed)

# $(call covered,command) runs the tests with command and holds the floors. The run of the root under the race detector
# would take half as long again; the modules under contrib count only statements of their own, which are few.
covered = mkdir -p $(BIN) && profile=$(BIN)/cover-$$(go list -m | tr / -).out && $(1) -coverpkg=./... -coverprofile=$$profile && \
  awk -v module="$(MODULE)" -f $(CURDIR)/tools/coverage.awk $(CURDIR)/tools/coverage.txt $$profile

cover: ## README's command, and the root's coverage floors of tools/coverage.txt
	@$(call covered,go test ./... $(timed))

# A package that neither starts a goroutine nor shares anything has no races: a handful of small ones.
concurrent := ^\s*go |\.Go\(|"sync|"net/http|t\.Parallel\(|RunParallel
# The detector finds nothing new in these tests. Some repeat others: the faults of TestConformance through a proxy and
# with TLS of the caller, and callers in other languages. Some run a single goroutine: they measure memory, or end a
# process of their own. The gate readme runs them.
repeated := ^Test(ConformanceWithOwnTLSAndHeaders|ConformanceThroughProxy|JourneyInPython|JourneyInNode|ValuesCannotEndTheProcess|DecompressedAnswersAreBounded|SweepHoldsAPage|KeptStringsHoldLittle)$$

race: ## Run the tests with the race detector, in a random order
	@folders=$$(go list -f '{{if or .TestGoFiles .XTestGoFiles}}{{.Dir}}{{end}}' ./... | while read -r dir; do \
	  if grep -qE '$(concurrent)' $$dir/*.go; then echo $$dir; fi; done); \
	  echo 'race: left to the gate readme, since they repeat trials or start no goroutine: $(repeated)'; \
	  $(raced) -skip '$(repeated)' $$folders

contrib: ## The same for each module under contrib, and hold their coverage floors
	@$(call in-modules,$(CONTRIB),$(call covered,$(raced) ./...))

fuzz: ## Fuzz each target for FUZZTIME (10s); the tests run the seeds
	@for pkg in $$(go list ./...); do \
	  for target in $$(go test -list '^Fuzz' "$$pkg" | grep '^Fuzz' || true); do \
	    echo "-- $$pkg $$target"; go test -run '^$$' -fuzz "^$$target\$$" -fuzztime $(FUZZTIME) "$$pkg"; \
	  done; \
	done

bench: ## Run the benchmarks COUNT (6) times; OLD=file compares with an earlier .tools/bench.txt
	@mkdir -p $(BIN)
	go test -run '^$$' -bench . -benchmem -count $(or $(COUNT),6) ./... | tee $(BIN)/bench.txt
	@if [ -n "$(OLD)" ]; then go -C tools tool benchstat "$(abspath $(OLD))" $(BIN)/bench.txt; fi

# A busy loop for each processor makes the tests wait. The failure prints the seed of its order, for go test -shuffle.
flaky: ## Repeat the tests of MODULES (all) under load, COUNT (17) times each with 1, 2 and 4 processors; ONLY=regexp chooses tests
	@trap 'kill $$(jobs -p)' EXIT; for i in $$(seq $$(nproc)); do while :; do :; done & done; \
	  $(call in-modules,$(MODULES),LENDING_TEST_LONG=1 go test -count $(or $(COUNT),17) -cpu 1$(comma)2$(comma)4 -shuffle on -parallel 6 -timeout 0 -run '$(ONLY)' ./...)

# A break may be of the guard against a flood: it does not get all of the machine's memory.
mutants: ## Break the code at N (170) random places of the root module, and list the breaks that no test notices; SEED repeats a draw, ONLY=regexp chooses places
	@copy=$$(mktemp -d); trap 'rm -rf $$copy' EXIT; git ls-files -zco --exclude-standard | tar -c --null -T - | tar -x -C $$copy; \
	  ulimit -v 16777216 2>/dev/null || true; go -C tools run ./mutants -n $(or $(N),170) -only '$(ONLY)' $(addprefix -seed ,$(SEED)) $$copy

# Debian has an old caddy only. Its build takes 4 minutes of a processor, too long for CI.
gateways: ## Run the whole of tests/gateways, with caddy too, and write the tables of docs/gateways.md
	@mkdir -p $(BIN); GOBIN=$(BIN) GOFLAGS=-mod=mod go install github.com/caddyserver/caddy/v2/cmd/caddy@v2.10.2 || echo 'caddy cannot be had'
	@cd tests/gateways && PATH=$(BIN):$$PATH LENDING_TEST_GATEWAYS=$(CURDIR)/docs/gateways.md \
	  go test -count=1 -parallel 4 -timeout 60m -v . | grep -vE '^ *(=== |--- (PASS|SKIP))'

##@ Gates

.PHONY: check lint docs api released versions cross axe-peer screenshots openapi-peer gateways-peer vuln tools-test
check: cover race contrib axe-peer openapi-peer gateways-peer tools-test lint docs api released versions cross vuln demo ## Run every gate, stop at the first that fails

# golangci-lint runs vet and staticcheck, at the version and with the checks of their own commands. It spends a third
# less processor time if it collects garbage less often.
lint: tools ## gofmt, go mod tidy, golangci-lint and the ceilings of tools/cycles.txt, in every module
	@failed=0; files=$$($(FIND) -name '*.go' -print | xargs -r gofmt -l); \
	  if [ -n "$$files" ]; then echo "gofmt -w is due in:"; echo "$$files"; failed=1; fi; \
	  $(BIN)/golangci-lint config verify || failed=1; \
	  ($(call in-modules,$(MODULES),go mod tidy -diff && GOGC=400 GOMEMLIMIT=3GiB $(BIN)/golangci-lint run --config $(CURDIR)/.golangci.yml ./... && \
	    $(BIN)/check cycles $(CURDIR)/tools/cycles.txt ./...)) || failed=1; exit $$failed

docs: tools ## Comments name existing declarations, comments and tests are plain, links lead somewhere, no Go file but a test is longer than 450 lines
	@failed=0; files=$$($(FIND) -name '*.go' -not -name '*_test.go' -print | xargs -r wc -l | awk '$$2 != "total" && $$1 > $(MAX_LINES)'); \
	  if [ -n "$$files" ]; then echo "longer than $(MAX_LINES) lines:"; echo "$$files"; failed=1; fi; \
	  $(FIND) -name '*.md' -print | sed 's,^\./,,' | xargs -r $(BIN)/check links || failed=1; \
	  $(BIN)/check words || failed=1; \
	  ($(call in-modules,$(MODULES),$(BIN)/check comments $$(go list ./... | grep -v /internal/test/))) || failed=1; exit $$failed

api: tools ## No exported name that was released goes or changes, unless CHANGELOG.md says what callers do, and no store of a release; REF=v1.2.0 compares with that version
	@tools/api.sh $(BIN)/apidiff $(REF)

released: proxy ## An empty module gets every module of the last commit offline, and runs README's programs
	@tools/released.sh

# The behavior of net/http, encoding/json, crypto and testing/synctest differs between versions of Go, and shows here. A
# database keeps the same with each version, and the simulations make the same decisions.
versioned := . ./guarantees ./idempotency/... ./webhook ./internal/...
slow := ^Test(Conformance|NoValueIsShown|FewOrdersNeedAPerson|RestoredStoreDoesNothingTwice|SuccessOfEveryRoute|StoreHangs|TransportThatRepeats|ValuesCannotEnd|ClosedConnections|KeysOverHTTP2|NoErrorOfAForeign|MutationTakesNoLeftover|ClientSpeaksHTTP2)
simulated := ^Test(NoValueIsShown|FewOrdersNeedAPerson|RestoredStoreDoesNothingTwice)

versions: ## Run vet with the other Go version that is supported, and the tests of what depends on the version
	@for v in $(GO_VERSIONS); do export GOTOOLCHAIN=go$$v; echo "-- go$$v"; \
	  if [ "$$(GOTOOLCHAIN=local go env GOVERSION)" = go$$v ]; then echo "the one of this machine: gates readme, race and contrib"; continue; fi; \
	  if ! go version; then echo "versions: SKIPPED, go$$v cannot be had"; continue; fi; \
	  echo 'versions: left out, since simulations decide the same with each version: $(simulated)'; \
	  go test -vet=off $(timed) -skip '$(simulated)' $(versioned) || exit 1; \
	  ($(call in-modules,. $(CONTRIB) $(TESTS),$(vet))) || exit 1; done

# Integers of the machine's size count bytes, pages and tries. Faults on the wire, clocks and programs do not know them.
sized := . ./guarantees ./idempotency/... ./webhook ./lendingtest ./probe $(addprefix ./internal/,base64json jsonplan jsonsplit verdict)

# For darwin and windows vet compiles what a program imports, and checks the types of programs and tests; the programs
# that users install are linked. The one function of contrib/river knows no system, and River takes a minute for each.
cross: ## Run the tests of what counts on 32 bits, where linux/386 runs, and compile the library and its tests for it, darwin and windows
	@echo "-- linux/386"; export CGO_ENABLED=0 GOOS=linux GOARCH=386; mkdir -p $(BIN); go build -o $(BIN)/runs386 ./cmd/lending-ops; \
	  status=0; $(BIN)/runs386 >$(BIN)/runs386.out 2>&1 || status=$$?; $(vet); \
	  if [ $$status != 126 ]; then echo 'cross: left out, since faults and programs do not depend on the size of an integer: $(slow)'; \
	    go test -vet=off -skip '$(slow)' $(sized); else \
	    echo "cross: tests on 32 bits SKIPPED, this machine does not run linux/386 programs: $$(cat $(BIN)/runs386.out)"; fi
	@for os in darwin windows; do echo "-- $$os"; export CGO_ENABLED=0 GOOS=$$os; go build -o $(BIN)/cross/ ./cmd/...; \
	  ($(call in-modules,. $(filter-out ./contrib/river,$(CONTRIB)),$(vet))) || exit 1; done

axe-peer: ## Run tests/browser, and judge the pages with axe-core in chromium; says so and goes on without when npm cannot be had
	@tools/axe.sh $(BIN)/axe

screenshots: ## Write pictures of the pages to dist/screenshots, light and dark, at three widths; needs chromium
	@mkdir -p dist/screenshots; cd tests/browser && LENDING_TEST_SCREENSHOTS=$(CURDIR)/dist/screenshots \
	  go test -count=1 -run 'Test(Page|OpsPage|PersonSignsIn)$$' .

openapi-peer: ## Run tests/openapi, and generate TypeScript of lendingtest/openapi.yaml; says so and goes on without when npm cannot be had
	@tools/openapi.sh $(BIN)/openapi

gateways-peer: ## Run the short form of tests/gateways at nginx, haproxy and Apache; says which gateway this machine does not have
	@cd tests/gateways && go test -count=1 -parallel 4 -v . 2>&1 | grep -vE '^ *(=== |--- (PASS|SKIP))'

vuln: tools ## Look for known vulnerabilities; says so and goes on when the database cannot be reached
	@$(call in-modules,. $(CONTRIB) $(TESTS),$(CURDIR)/tools/vuln.sh $(BIN)/govulncheck)

# The cache of tests does not know the code of the other modules.
tools-test: ## Run the tests of the tools that are this project's own, and look for locks that fmt can reach from exported types
	go -C tools test -count=1 ./...

##@ Upkeep

.PHONY: tools doc ci proxy golden release version
tools: $(BIN)/.built ## Build the pinned tools into .tools
$(BIN)/.built: tools/go.mod tools/go.sum $(wildcard tools/*/*.go)
	@mkdir -p $(BIN)
	GOBIN=$(BIN) go -C tools install $(TOOLS)
	@touch $@

doc: ## Serve the documentation as pkg.go.dev shows it, on localhost:6060
	GOBIN=$(BIN) go -C tools install golang.org/x/pkgsite/cmd/pkgsite
	$(BIN)/pkgsite -http localhost:6060 .

# The same commit makes the same bytes: no path, build id or version control of this machine goes in.
proxy: ## Add the modules of the last commit, in a version of its own, to dist/goproxy, a file GOPROXY, and write their checksums into dist/NOTES.md
	@tools/proxy.sh

# Tests that use internal/test/released read the stores of every release in each run, and write a release only once.
golden: ## Write the stores of this release, by the tests that read those of all releases; commit them before make release
	@version=$$(sed -n 's,^.*$(MODULE) \(v[0-9]*\.[0-9]*\)\.[0-9]*$$,\1,p' contrib/bolt/go.mod); \
	  for dir in $$(grep -rl --include='*_test.go' --exclude-dir=.tools '"$(MODULE)/internal/test/released"' . | xargs -r -n1 dirname | sort -u); do \
	    if [ ! -d $$dir/testdata/released/$$version ]; then \
	      tests=$$(grep -ohE '^func Test\w*OfEveryRelease\w*' $$dir/*_test.go | sed 's/^func //' | paste -sd'|'); \
	      (cd $$dir && go test -count=1 -run "^($$tests)$$" . -released $$version) || exit 1; fi; done; \
	  if [ -n "$$(git status --porcelain -- '*testdata/released*')" ]; then git status --short -- '*testdata/released*'; echo "golden: commit these stores, then run make release again"; exit 1; fi

release: golden ## Write the same in the version of the release, and the programs of cmd for linux, darwin and windows with checksums
	@tools/proxy.sh release
	@for target in linux/amd64 linux/arm64 darwin/amd64 darwin/arm64 windows/amd64; do \
	  export CGO_ENABLED=0 GOOS=$${target%/*} GOARCH=$${target#*/}; \
	  for program in cmd/*/; do \
	    name=$$(basename $$program)-$$GOOS-$$GOARCH; if [ $$GOOS = windows ]; then name=$$name.exe; fi; \
	    go build -trimpath -buildvcs=false -ldflags '-s -w -buildid=' -o dist/$$name ./$$program; done; done
	@cd dist && sha256sum lending-* | tee SHA256SUMS
	@echo "when dist/NOTES.md is right: xargs -n1 git tag <dist/TAGS"

version: ## Have the modules require VERSION of each other, the version to release next
	@for m in $(CONTRIB) $(TESTS); do (cd $$m && \
	  go mod edit $$(go mod edit -json | sed -n 's,.*"Path": "\($(MODULE)[^"]*\)".*,\1,p' | sort -u | \
	    grep -Fxv "$$(sed -n 's/^module //p' go.mod)" | sed 's,.*,-require=&@$(VERSION),') && go mod tidy); done

ci: ## Run what CI runs, and list every failure at the end
	.ci/run
