# `make help` lists the targets. scripts/tools installs what some of them need.

GO        ?= go
BIN       := bin
DATA      ?= daybook-data
VERSION   ?= $(shell git describe --tags --match 'v[0-9]*' --always --dirty 2>/dev/null || echo dev)
COMMIT    ?= $(shell git rev-parse --short=12 HEAD 2>/dev/null || echo unknown)
LDFLAGS   := -s -w -X main.version=$(VERSION) -X main.commit=$(COMMIT)
# The compiler writes no tables for debuggers, which takes a fifth less time.
export GOFLAGS := -buildvcs=false -gcflags=all=-dwarf=false
# The program needs no C library. Tests are compiled like it, so that both share what is compiled.
export CGO_ENABLED := 0

STATICCHECK := honnef.co/go/tools/cmd/staticcheck@v0.8.2
GOVULNCHECK := golang.org/x/vuln/cmd/govulncheck@v1.8.0

.DEFAULT_GOAL := help

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## / {printf "  %-13s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

# A lane of `make prove`, a set of `make bench` and a part of `make check` is a variable: lane.NAME, set.NAME, part.NAME.
# choose runs the one that was named, or lists all.
choose = $(if $($(1).$(2)),$($(1).$(2)),@echo '$(3) is one of:'; sed -En 's/^$(1)\.([a-z-]+) +=.* \#\# /  \1\t/p' Makefile | expand -t 18; exit 2)

build: ## build bin/daybook
	$(GO) build -ldflags '$(LDFLAGS)' -o $(BIN)/daybook ./cmd/daybook

# The race detector of Go 1.26 crashes when two goroutines of a testing/synctest bubble run timers at once (a segmentation
# violation in __tsan::TraceSwitchPart): the timers of a bubble share one context. Go 1.27 gives each processor its own.
$(BIN)/daybook-race test-race: export GOTOOLCHAIN := go1.27.4

$(BIN)/daybook-race: FORCE # the race detector needs cgo
	CGO_ENABLED=1 $(GO) build -race -o $@ ./cmd/daybook
FORCE:

run: build ## build and serve on 127.0.0.1:1717, with the data in ./daybook-data
	$(BIN)/daybook serve --data $(DATA) --init

# The lanes. Each package with tests is in one of them: in test, unless PROCESS or PROVE names it; lanes_test.go checks the
# lists. SHORT= runs test and test-process at their full size: some tests are smaller with -short. Size and time of the full
# proofs are flags of their packages (-full).
SHORT := -short

# Packages whose tests start the binary, shells, interpreters or container engines.
PROCESS := ./bench ./bench/demo ./bench/open ./blob/s3 ./client ./client/chunks ./client/daybooktest ./client/files ./client/worker ./cmd/daybook ./deploy ./docs/check ./docs/examples \
  ./internal/load/limits ./internal/load/works ./internal/trace/tracetest ./opsqueue ./runner ./runner/container \
  ./runner/container/enginetest ./runner/program ./runner/sandbox ./runner/sandbox/helper ./runner/script ./runner/wasi
# Packages that attack a server for as long as one lets them.
PROVE := ./proof/cluster ./proof/corruption ./proof/crash ./proof/hostile ./proof/intruder ./proof/limits ./proof/powerfs ./proof/runners ./proof/sim
# Of these, those that measure memory, of which the race detector takes several times as much.
PROVE_MEMORY := ./proof/hostile ./proof/limits
# Packages with goroutines, for the race detector. The server itself has it in prove-short.
RACE := ./api ./api/internal/files ./api/internal/stream ./api/internal/web ./blob ./client ./client/chunks ./client/files ./client/worker ./cluster ./ingest ./ingest/backup ./ingest/registry \
  ./ingest/registry/onlost ./internal/trace ./journal ./opsqueue ./runner ./runner/pool ./runner/script ./runner/slots ./runner/wasi ./runner/webhook ./store/internal/lsm
# Of these, those of which some tests are left out with the race detector, because it makes them too slow.
RACE_PART := ./api ./runner/wasi
with     = DAYBOOK_BINARY=$(CURDIR)/$(BIN)/$(1)
# `make lint` vets. With GOGC the compiler takes a sixth less time; tests and servers run without it.
TEST    := $(GO) test -count=1 -timeout 40m -vet=off -ldflags -w -exec 'env -u GOGC'
build $(BIN)/daybook-race vet lint test test-process prove-short test-race: export GOGC := 400

test: ## tests without processes, for each save; under four minutes on two cores
	$(TEST) $(SHORT) -p 3 $$($(GO) list work | grep -vxF "$$($(GO) list $(PROCESS) $(PROVE) $(RACED))")

# They mostly wait, so four packages run at a time.
test-process: build ## tests with the binary, shells, containers, pages and examples
	$(call with,daybook) $(TEST) $(SHORT) -p 4 $(filter-out $(RACED),$(PROCESS))

prove-short: build $(BIN)/daybook-race ## the proofs at a small size, with the race detector in the server
	$(call with,daybook-race) $(TEST) -p 2 $(filter-out $(PROVE_MEMORY),$(PROVE))
	$(call with,daybook) $(TEST) -p 1 $(PROVE_MEMORY)

test-race: build $(BIN)/daybook-race ## the race detector, for the packages that have goroutines
	$(call with,daybook) CGO_ENABLED=1 $(TEST) -race -short -p 3 $(RACE)
	CGO_ENABLED=1 $(TEST) -race -short -run '^Test(Flush|Queries|Queues)' ./store # the others have one goroutine

vet: # compiles all packages that there are
	$(GO) vet -composites=false work

lint: vet ## gofmt, go.mod files, vet, staticcheck, the picture of the imports, and the client as a module
	@test -z "$$(gofmt -l $$(git ls-files '*.go'))" || { echo "not formatted:"; gofmt -l $$(git ls-files '*.go'); exit 1; }
	$(MAKE) --no-print-directory tidy TIDY=-diff
	$(GO) run $(STATICCHECK) work
	$(GO) test -count=1 -run '^Test(Architecture|ClientModule)$$' .

test-all: RACED = $(filter-out $(RACE_PART),$(RACE))
test-all: lint test test-process prove-short test-race ## all that CI runs; what test-race tests is not tested twice

busy: # keeps the machine busy for BUSY, with a load of about 10, to run tests beside it
	scripts/busy $(or $(BUSY),10m)

with_binary = DAYBOOK_BINARY=$(CURDIR)/$(BIN)/daybook
PROOF       = $(with_binary) DAYBOOK_REPORT=$(CURDIR)/docs/explanation/reliability.md $(GO) test -count=1 -v -timeout 90m

lane.sim          = $(PROOF) ./proof/sim -seeds $(or $(SEEDS),10000) ## SEEDS simulated servers with crashes and faults; 45 minutes
lane.corruption   = $(PROOF) ./proof/corruption -full ## each kind of damage to a journal and a store; 70 minutes
lane.crash        = $(PROOF) ./proof/crash -full ## kills, power cuts, stops, full and read-only disks; 35 minutes
lane.cluster      = $(PROOF) ./proof/cluster -full ## faults of three nodes that share a journal; 20 minutes
lane.cluster-sim  = $(PROOF) ./cluster/internal/node -run TestSeeds -seeds $(or $(SEEDS),10000) ## SEEDS simulated groups of nodes, with their stores; 25 minutes
lane.runner-kills = $(PROOF) ./proof/runners -run TestKills -full ## kills of runners, of their processes and of the server; 5 minutes
lane.runner-soak  = $(with_binary) $(GO) test -count=1 -v -timeout 180m ./proof/runners -run TestSoak -soak $(or $(SOAK),10m) ## memory, descriptors and processes of a runner after SOAK
lane.hostile      = TESTS_NEED_CGROUPS=1 $(PROOF) ./proof/hostile -full ## hundreds of clients that never read, never write, or send a byte a second; 15 minutes
lane.limits       = TESTS_NEED_CGROUPS=1 $(PROOF) ./proof/limits -full ## a server with all that its limits allow in 1 GiB; 40 minutes
lane.fuzz         = scripts/fuzz $(or $(FUZZTIME),30s) ## each fuzz target for FUZZTIME

prove: build ## LANE=NAME: a proof in full, with its report in reliability.md; without a name it lists the lanes
	$(call choose,lane,$(LANE),LANE)

MATRIX := -run '^$$' -bench '^Benchmark(Journal|Store|Ingest|Process)$$'
LAYERS := ./journal ./store ./ingest ./bench

set.short        = $(with_binary) $(GO) test -short -p 1 $(MATRIX) -benchtime 2s $(LAYERS) ## journal, store, engine and server process; a minute
set.matrix       = $(with_binary) $(GO) test -p 1 $(MATRIX) -timeout 120m $(LAYERS) ## the same at all points, up to ten million jobs; 30 minutes, 3 GB of disk
set.compare      = $(GO) build -o $(BIN)/bench-compare ./bench/compare && $(BIN)/bench-compare -base "$(BASE)" $(ARGS) ## the short set here and at commit BASE, by turns; fails if something is slower; 8 minutes
set.open         = $(with_binary) $(GO) run ./bench/open -page docs/explanation/performance.md $(ARGS) && cd bench/peers && GOWORK=off $(GO) run ./latency -in $(CURDIR)/$(BIN)/open-loop.json -out $(CURDIR)/docs/explanation/open-loop.svg ## latency at fixed rates of arrivals; 8 minutes; writes tables of performance.md
set.peers        = cd bench/peers && GOWORK=off $(GO) build -o $(CURDIR)/$(BIN)/bench-peers . && BENCH_PEERS_BIN=$(CURDIR)/$(BIN)/peers $(with_binary) $(CURDIR)/$(BIN)/bench-peers $(ARGS) ## beside other queues (scripts/tools peers); 20 minutes, or 3 with ARGS=-short
set.parts        = $(with_binary) $(GO) test -p 1 -run '^$$' -bench . -skip '^Benchmark(Journal|Store|Ingest|Process|Runner|Nodes|NodesIdle|Access)$$' -timeout 90m $(LAYERS) ./client ## the Worker, creates of bytes, strategies, sweeps
set.runners      = $(with_binary) $(GO) test -p 1 -run '^$$' -bench '^BenchmarkRunner$$' -benchtime 5x -timeout 30m ./bench && $(GO) test -p 1 -run '^$$' -bench . -timeout 30m ./runner/... ## the runner and each kind of handlers; 4 minutes
set.nodes        = $(GO) test -p 1 -run '^$$' -bench . -timeout 30m ./cluster && $(with_binary) $(GO) test -p 1 -run '^$$' -bench '^BenchmarkNodes' -benchtime 5x -timeout 30m ./bench ## three nodes that share a journal, beside one server; a minute
set.access       = $(with_binary) $(GO) test -run '^$$' -bench '^BenchmarkAccess$$' -benchtime 30x -timeout 30m ./bench ## a server with a key, and one with TLS too, beside one without; 4 minutes
set.scale        = $(with_binary) DAYBOOK_SCALE=$(or $(SCALE),10000000) $(GO) test -count=1 -v -run 'TestScale|TestDiskPerJob' -timeout 60m ./bench ## SCALE waiting jobs: memory, disk, claims, restart; 10 minutes
set.join         = $(with_binary) DAYBOOK_JOIN=$(or $(JOIN),10000000) $(GO) test -count=1 -v -run TestJoin -timeout 60m ./bench ## a node joins another one with JOIN jobs, beside claims, also after a kill half-way; 3 minutes, 4 GB of disk
set.sweeps       = $(with_binary) DAYBOOK_SWEEPS=$(or $(SWEEPS),10000000) $(GO) test -count=1 -v -run TestSweeps -timeout 60m ./bench ## cancel, redrive and delete SWEEPS jobs beside claims; an hour
set.check        = DAYBOOK_CHECK_BATCHES=$(or $(CHECK_BATCHES),10000000) $(GO) test -count=1 -v -run TestCheckOfManyBatches -timeout 90m ./store ## memory of a check of CHECK_BATCHES batches; 30 minutes
set.demo         = $(with_binary) $(GO) run ./bench/demo ## a million lines, four Workers, three kills, and the account
set.demo-cluster = $(with_binary) $(GO) run ./bench/demo -cluster ## the same with three nodes, each of which is killed, and one loses its data

bench: build ## SET=NAME: benchmarks; without a name it lists the sets
	$(call choose,set,$(SET),SET)

OURS := github.com/daybookq/daybook
# The tools of packages are built once; they are no part of the program and of no go.mod.
tool        = test -x $(BIN)/$(1) || GOBIN=$(CURDIR)/$(BIN) $(GO) install -trimpath -ldflags '-s -w' $(2)
CYCLONEDX  := github.com/CycloneDX/cyclonedx-gomod/cmd/cyclonedx-gomod@v1.10.0
NFPM       := github.com/goreleaser/nfpm/v2/cmd/nfpm@v2.44.2
HELM       := helm.sh/helm/v3/cmd/helm@v3.22.0

part.cross           = GOOS=windows GOARCH=arm64 $(GO) vet ./cmd/daybook $(OURS)/client && GOOS=darwin GOARCH=arm64 $(GO) vet $$($(GO) list work | grep -v '^$(OURS)/\(proof\|bench\)') ## vet for macOS and Windows
part.peers           = cd bench/peers && export GOWORK=off && $(GO) mod tidy -diff && $(GO) vet ./... && $(GO) run $(STATICCHECK) ./... && BENCH_PEERS_BIN=$(CURDIR)/$(BIN)/peers $(with_binary) $(GO) test -count=1 ./... ## checks and tests of bench/peers
part.issuer          = cd proof/issuer && export GOWORK=off && $(GO) mod tidy -diff && $(GO) vet ./... && $(GO) run $(STATICCHECK) ./... && $(with_binary) $(GO) test -count=1 ./... ## log-ins and tokens with a real issuer of OpenID Connect
part.packages        = $(MAKE) --no-print-directory release SYSTEMS=linux/$$($(GO) env GOARCH) && $(GO) test -count=1 -v -timeout 20m ./deploy -release $(CURDIR)/$(RELEASE) $(ARGS) ## install and start the packages of this machine; build them again (ARGS=-full without the build cache)
part.helm            = $(call tool,helm,$(HELM)); $(GO) test -count=1 -v -run TestChart ./deploy -helm $(CURDIR)/$(BIN)/helm ## lint and render the Helm chart
part.moving          = NPM_CONFIG_REGISTRY=$$(npm config get registry) PATH="$(CURDIR)/$(BIN)/moving/bin:$$PATH" $(GO) test -count=1 -v -timeout 20m -run TestMoving ./docs/check -moving ## the examples of moving.md beside the other queues (scripts/tools moving)
part.vulnerabilities = $(GO) run $(GOVULNCHECK) work ## look the dependencies up in the vulnerability database

check: build ## PART=NAME: what a release needs besides; without a name it lists the parts
	$(call choose,part,$(PART),PART)

release-check: ## all of that, the site, and the proofs in full; hours
	for part in cross issuer peers packages helm; do $(MAKE) check PART=$$part || exit 1; done
	$(MAKE) site
	for lane in sim corruption crash cluster cluster-sim runner-kills hostile limits; do $(MAKE) prove LANE=$$lane || exit 1; done

# The modules require each other in versions that exist only after a release, so tidy sees copies of the go.mod files
# that replace these by folders.
MODULES := . client job mdns

tidy: ## go mod tidy in each module; TIDY=-diff only prints the changes
	@mkdir -p $(BIN)
	@for m in $(MODULES); do \
	  copy=$(CURDIR)/$(BIN)/tidy.mod; cp $$m/go.mod $$copy; rm -f $(BIN)/tidy.sum; \
	  test ! -e $$m/go.sum || cp $$m/go.sum $(BIN)/tidy.sum; \
	  for other in client job mdns; do $(GO) mod edit -replace $(OURS)/$$other=$(CURDIR)/$$other $$copy; done; \
	  (cd $$m && GOWORK=off $(GO) mod tidy $(TIDY) -modfile $$copy) || exit 1; \
	  test -z "$(TIDY)" || continue; \
	  for other in client job mdns; do $(GO) mod edit -dropreplace $(OURS)/$$other $$copy; done; \
	  cp $$copy $$m/go.mod; test ! -e $(BIN)/tidy.sum || cp $(BIN)/tidy.sum $$m/go.sum; \
	done
	test -n "$(TIDY)" || for m in bench/peers proof/issuer; do (cd $$m && GOWORK=off $(GO) mod tidy) || exit 1; done

RELEASE    := $(BIN)/release
SYSTEMS    ?= linux/amd64,linux/arm64,darwin/amd64,darwin/arm64,windows/amd64,windows/arm64
EPOCH       = $(shell git log -1 --format=%ct)
# Versions of packages sort: v1.2.0-rc1 before v1.2.0, and five commits later after it. Without a tag the version is 0.0.0.
PACKAGE_VERSION = $(shell echo '$(VERSION)' | sed -E 's/^v//; s/-rc/~rc/; s/-/+/; s/-/./g; /^[0-9]+\./!s/^/0.0.0+/')

# The same commit gives the same bytes.
release: ## archives of SYSTEMS, Linux packages, lists of parts and checksums, in bin/release
	@$(call tool,cyclonedx-gomod,$(CYCLONEDX))
	@$(call tool,nfpm,$(NFPM))
	$(GO) run ./deploy/release -out $(RELEASE) -version $(VERSION) -commit $(COMMIT) -epoch $(EPOCH) -systems $(SYSTEMS) -sbom $(BIN)/cyclonedx-gomod
	@for dir in $(RELEASE)/linux_*; do for kind in deb rpm; do \
	  SOURCE_DATE_EPOCH=$(EPOCH) ARCH=$${dir##*_} VERSION=$(PACKAGE_VERSION) RELEASE=$$dir DOCUMENTS=$(RELEASE) \
	  $(BIN)/nfpm package -f deploy/nfpm.yaml -p $$kind -t $(RELEASE)/ || exit 1; \
	done; done
	cd $(RELEASE) && find . -maxdepth 1 -type f ! -name SHA256SUMS -printf '%P\n' | LC_ALL=C sort | xargs sha256sum > SHA256SUMS

image: ## the container image daybook:latest, built with docker or ENGINE=podman
	SYSTEM=$$($(GO) env GOARCH); $(GO) run ./deploy/release -out $(BIN)/image-release -version $(VERSION) -commit $(COMMIT) -epoch $(EPOCH) -systems linux/$$SYSTEM && \
	deploy/docker/context.sh $(BIN)/image-release/linux_$$SYSTEM/daybook $(BIN)/image && $(or $(ENGINE),docker) build -t daybook:latest -f deploy/docker/Dockerfile $(BIN)/image

site: build ## the documents as a site, in bin/site; a warning fails
	scripts/tools site
	rm -rf docs/reference/cli && $(BIN)/daybook man --markdown docs/reference/cli
	NO_MKDOCS_2_WARNING=1 $(BIN)/site-tools/python/bin/mkdocs build --strict --clean --config-file deploy/site/mkdocs.yml

clean: ## remove what was built
	rm -rf $(BIN)

.PHONY: help build run test test-process prove-short test-race vet lint test-all busy prove bench check release-check tidy release image site clean FORCE
