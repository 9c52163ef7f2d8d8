# Everything that can be done with this tree. `make help` lists it.

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

build: ## build bin/daybook
	$(GO) build -ldflags '$(LDFLAGS)' -o $(BIN)/daybook ./cmd/daybook

# The race detector of Go 1.26 crashes when two goroutines of a testing/synctest bubble run timers at once (a segmentation
# violation in __tsan::TraceSwitchPart): the timers of a bubble share one context. Go 1.27 gives each processor its own.
build-race test-race: export GOTOOLCHAIN := go1.27.4

build-race: # the race detector needs cgo
	CGO_ENABLED=1 $(GO) build -race -o $(BIN)/daybook-race ./cmd/daybook

run: build ## build and serve on 127.0.0.1:1717, with the data in ./daybook-data
	$(BIN)/daybook serve --data $(DATA) --init

# Commands, and the packages of Debian that have them. A machine that has a command keeps its own.
PROGRAMS := curl:curl jq:jq less:less ip:iproute2 avahi-daemon:avahi-daemon avahi-browse:avahi-utils dbus-daemon:dbus systemd-analyze:systemd \
  node:nodejs npm:npm python3:python3 php:php-cli ruby:ruby dockerd:docker.io podman:podman busybox:busybox-static

tools: zeroconf typescript promtool proxies ## install what tests beside other programs need, on Debian as root: languages, container engines, avahi, and into bin: nginx, caddy, promtool, TypeScript, python-zeroconf

programs:
	@for p in $(PROGRAMS); do command -v $${p%:*} >/dev/null || missing="$$missing $${p#*:}"; done; \
	python3 -c 'import ensurepip' 2>/dev/null || missing="$$missing python3-venv"; \
	test -z "$$missing" || { apt-get update -q && apt-get install -q -y --no-install-recommends $$missing; }

zeroconf: programs
	test -x $(BIN)/python/bin/pip || python3 -m venv $(BIN)/python
	$(BIN)/python/bin/python -c 'import zeroconf' 2>/dev/null || $(BIN)/python/bin/pip install -q zeroconf

typescript: programs
	@mkdir -p $(BIN)/typescript && cp docs/examples/typescript/package.json docs/examples/typescript/package-lock.json $(BIN)/typescript
	cd $(BIN)/typescript && { cmp -s package-lock.json installed.json || { npm ci --no-audit --no-fund && cp package-lock.json installed.json; }; }

promtool: programs
	test -x $(BIN)/promtool || { mkdir -p $(BIN)/deb && cd $(BIN)/deb && apt-get download -q prometheus && \
	  dpkg-deb --fsys-tarfile prometheus_*.deb | tar -xO ./usr/bin/promtool > promtool && chmod +x promtool && mv promtool .. && \
	  cd .. && rm -r deb; }

proxies: programs
	test -x $(BIN)/nginx -a -x $(BIN)/caddy || { mkdir -p $(BIN)/deb-proxies && cd $(BIN)/deb-proxies && apt-get download -q nginx caddy && \
	  dpkg-deb --fsys-tarfile nginx_*.deb | tar -xO ./usr/sbin/nginx > nginx && \
	  dpkg-deb --fsys-tarfile caddy_*.deb | tar -xO ./usr/bin/caddy > caddy && \
	  chmod +x nginx caddy && ./nginx -v && ./caddy version && mv nginx caddy .. && cd .. && rm -r deb-proxies; }

VERSITYGW := github.com/versity/versitygw/cmd/versitygw@v1.8.0

s3server: ## build the S3 server that tests of blobs in buckets start (versitygw) into bin; two to three minutes, once
	test -x $(BIN)/versitygw || GOBIN=$(CURDIR)/$(BIN) $(GO) install -gcflags 'github.com/...=-N -l -dwarf=false' -ldflags '-s -w' $(VERSITYGW)

RELEASE    := $(BIN)/release
SYSTEMS    ?= linux/amd64,linux/arm64,darwin/amd64,darwin/arm64,windows/amd64,windows/arm64
EPOCH       = $(shell git log -1 --format=%ct)
CYCLONEDX  := github.com/CycloneDX/cyclonedx-gomod/cmd/cyclonedx-gomod@v1.10.0
NFPM       := github.com/goreleaser/nfpm/v2/cmd/nfpm@v2.44.2
HELM       := helm.sh/helm/v3/cmd/helm@v3.22.0
# Versions of packages sort: v1.2.0-rc1 before v1.2.0, and five commits later after it. Without a tag the version is 0.0.0.
PACKAGE_VERSION = $(shell echo '$(VERSION)' | sed -E 's/^v//; s/-rc/~rc/; s/-/+/; s/-/./g; /^[0-9]+\./!s/^/0.0.0+/')
# The tools of packages are built once; they are no part of the program and of no go.mod.
tool        = test -x $(BIN)/$(1) || GOBIN=$(CURDIR)/$(BIN) $(GO) install -trimpath -ldflags '-s -w' $(2)

release: ## archives of all systems (SYSTEMS=linux/amd64 for one), lists of their parts and checksums, in bin/release; the same commit gives the same bytes
	@$(call tool,cyclonedx-gomod,$(CYCLONEDX))
	$(GO) run ./deploy/release -out $(RELEASE) -version $(VERSION) -commit $(COMMIT) -epoch $(EPOCH) -systems $(SYSTEMS) -sbom $(BIN)/cyclonedx-gomod

packages: release ## a deb and an rpm of each Linux of the release, in bin/release
	@$(call tool,nfpm,$(NFPM))
	@for dir in $(RELEASE)/linux_*; do for kind in deb rpm; do \
	  SOURCE_DATE_EPOCH=$(EPOCH) ARCH=$${dir##*_} VERSION=$(PACKAGE_VERSION) RELEASE=$$dir DOCUMENTS=$(RELEASE) \
	  $(BIN)/nfpm package -f deploy/nfpm.yaml -p $$kind -t $(RELEASE)/ || exit 1; \
	done; done
	cd $(RELEASE) && find . -maxdepth 1 -type f ! -name SHA256SUMS -printf '%P\n' | LC_ALL=C sort | xargs sha256sum > SHA256SUMS

image: ## the container image daybook:latest, built with docker, or with ENGINE=podman
	SYSTEM=$$($(GO) env GOARCH); $(GO) run ./deploy/release -out $(BIN)/image-release -version $(VERSION) -commit $(COMMIT) -epoch $(EPOCH) -systems linux/$$SYSTEM && \
	deploy/docker/context.sh $(BIN)/image-release/linux_$$SYSTEM/daybook $(BIN)/image && $(or $(ENGINE),docker) build -t daybook:latest -f deploy/docker/Dockerfile $(BIN)/image

helm-lint: ## lint and render the Helm chart; the first time builds helm, which takes minutes
	@$(call tool,helm,$(HELM))
	$(GO) test -count=1 -v -run TestChart ./deploy -helm $(CURDIR)/$(BIN)/helm

check-packages: ## build a release and the packages of this machine, install and start them as their unit says, follow the quick start and the install page, and build again; ARGS=-full without the build cache
	$(MAKE) --no-print-directory packages SYSTEMS=linux/$$($(GO) env GOARCH)
	$(GO) test -count=1 -v -timeout 20m ./deploy -release $(CURDIR)/$(RELEASE) $(ARGS)

# The lanes. Each package with tests is in one of them: in test, unless PROCESS or PROVE names it; tidy_test.go checks the
# lists. Tests have the size for each save with -short, and otherwise the size of prove-short, which runs those that
# ask testing.Short() once more at that size. Size and time of the full proofs are flags of their packages (-full).

# Packages whose tests start the binary, shells, interpreters or container engines.
PROCESS := ./bench ./bench/open ./blob/s3 ./client ./client/daybooktest ./cmd/daybook ./deploy ./docs/check ./docs/examples \
  ./internal/load/limits ./internal/load/works ./internal/trace/tracetest ./opsqueue ./runner ./runner/container \
  ./runner/container/enginetest ./runner/program ./runner/sandbox ./runner/sandbox/helper ./runner/script ./runner/wasi
# Packages that attack a server for as long as one lets them.
PROVE := ./proof/corruption ./proof/crash ./proof/hostile ./proof/limits ./proof/powerfs ./proof/runners ./proof/sim
# Of these, those that measure memory, of which the race detector takes several times as much.
PROVE_MEMORY := ./proof/hostile ./proof/limits
# Packages with goroutines, for the race detector. The server itself has it in prove-short.
RACE := ./api ./backup ./blob ./client ./ingest ./internal/trace ./journal ./opsqueue ./registry ./registry/onlost ./runner \
  ./runner/pool ./runner/script ./runner/slots ./runner/wasi ./runner/webhook ./store/lsm
# Tests of the packages above that are smaller with -short, or skipped, and the packages that have them.
SIZED_IN := . ./bench ./bench/open ./blob ./cmd/daybook ./ingest ./journal ./opsqueue ./runner/container ./runner/sandbox ./store
SIZED    := TestBatchPowerCuts TestBlockedCommit TestCheckSurvivesAnyByte TestClientModule TestDrawIsBounded \
  TestIdleConnections TestKilledBackup TestKilledRestore TestKilledServerOfABackup TestListRandom TestLiveRestartRebuild \
  TestLongLog TestManyChunks TestMeasurement TestNoClaimWaitsForAnOpenJob TestNothingIsLeftOver TestPowerCuts TestQueuesCostNothingUntilTheyAreTouched \
  TestRandom TestRandomInterleavings TestRunEndsOfRandomCommands TestSessionLeavesNoRowPerRequest TestTailFlipEveryBit \
  TestWaitingStreams

space   := $(subst ,, )
with     = DAYBOOK_BINARY=$(CURDIR)/$(BIN)/$(1)
# `make lint` vets. With GOGC the compiler takes a sixth less time; tests and servers run without it.
TEST    := $(GO) test -count=1 -timeout 20m -vet=off -ldflags -w -exec 'env -u GOGC'
build build-race s3server vet lint test test-process prove-short test-race: export GOGC := 400

test: ## what to run at each save: the packages that start no process, at the size for that; under four minutes on two cores
	$(TEST) -short -p 3 $$($(GO) list work | grep -vxF "$$($(GO) list $(PROCESS) $(PROVE))")

test-process: build ## tests with the binary, shells, interpreters, containers, pages and examples; they mostly wait, so four packages at a time
	$(call with,daybook) $(TEST) -short -p 4 $(PROCESS)

prove-short: build build-race ## simulation, crashes, corruption, attacks and runners, with the race detector in the server, and all tests that -short makes smaller
	$(call with,daybook-race) $(TEST) -p 2 $(filter-out $(PROVE_MEMORY),$(PROVE))
	$(call with,daybook) $(TEST) -p 1 $(PROVE_MEMORY)
	$(call with,daybook) $(TEST) -p 2 -run '^($(subst $(space),|,$(strip $(SIZED))))$$' $(SIZED_IN)

test-race: build build-race ## tests with the race detector, of the packages that have goroutines; the server has it in prove-short
	$(call with,daybook) CGO_ENABLED=1 $(TEST) -race -short -p 3 $(RACE)
	CGO_ENABLED=1 $(TEST) -race -short -run '^Test(Flush|Queries|Queues)' ./store # the others have one goroutine

vet: # compiles all packages that there are
	$(GO) vet work

lint: vet ## formatting, go.mod files, vet, static analysis, and the picture of the architecture
	@test -z "$$(gofmt -l $$(git ls-files '*.go'))" || { echo "not formatted:"; gofmt -l $$(git ls-files '*.go'); exit 1; }
	$(MAKE) --no-print-directory tidy TIDY=-diff
	$(GO) run $(STATICCHECK) work
	$(GO) test -count=1 -run TestArchitecture .

test-all: lint test test-process prove-short test-race ## the five lanes, one after the other

release-check: cross check-peers check-packages helm-lint site sim corruption crash runner-kills hostile limits ## what a release and the end of larger work need besides test-all: other systems, peers, packages, the site, the proofs in full; hours

busy: ## keep the machine busy for BUSY (10m), with a load of about 10, to run tests beside it
	$(GO) run ./proof/busy -for $(or $(BUSY),10m)

cross: ## compile and vet the program for macOS and Windows, and the packages of the server for macOS; the first time takes minutes
	GOOS=windows GOARCH=arm64 $(GO) vet ./cmd/daybook $(OURS)/client
	GOOS=darwin GOARCH=arm64 $(GO) vet $$($(GO) list work | grep -v '^$(OURS)/\(proof\|bench\)')

# The modules require each other in versions that exist only after a release, so tidy sees copies of the go.mod files
# that replace these by folders.
MODULES := . client fileset job mdns
OURS    := github.com/daybookq/daybook

tidy: ## go mod tidy in each module; with TIDY=-diff it only says what would change
	@mkdir -p $(BIN)
	@for m in $(MODULES); do \
	  copy=$(CURDIR)/$(BIN)/tidy.mod; cp $$m/go.mod $$copy; rm -f $(BIN)/tidy.sum; \
	  test ! -e $$m/go.sum || cp $$m/go.sum $(BIN)/tidy.sum; \
	  for other in client fileset job mdns; do $(GO) mod edit -replace $(OURS)/$$other=$(CURDIR)/$$other $$copy; done; \
	  (cd $$m && GOWORK=off $(GO) mod tidy $(TIDY) -modfile $$copy) || exit 1; \
	  test -z "$(TIDY)" || continue; \
	  for other in client fileset job mdns; do $(GO) mod edit -dropreplace $(OURS)/$$other $$copy; done; \
	  cp $$copy $$m/go.mod; test ! -e $(BIN)/tidy.sum || cp $(BIN)/tidy.sum $$m/go.sum; \
	done
	test -n "$(TIDY)" || { cd bench/peers && GOWORK=off $(GO) mod tidy; }

vuln: ## look the dependencies up in the vulnerability database (wants the network)
	$(GO) run $(GOVULNCHECK) work

demo: build ## a million real lines, four runner processes, three kills, and the account of it
	$(GO) run ./bench/demo --daybook $(BIN)/daybook

MATRIX := -run '^$$' -bench '^Benchmark(Journal|Store|Ingest|Process)$$'
LAYERS := ./journal ./store ./ingest ./bench

bench: build ## the short set of the benchmarks of the journal, the store, the engine and the server process; a minute
	DAYBOOK_BINARY=$(CURDIR)/$(BIN)/daybook $(GO) test -short -p 1 $(MATRIX) -benchtime 2s $(LAYERS)

bench-matrix: build ## the same benchmarks at all points, with backlogs of up to ten million jobs; about half an hour, and 3 GB of disk
	DAYBOOK_BINARY=$(CURDIR)/$(BIN)/daybook $(GO) test -p 1 $(MATRIX) -timeout 120m $(LAYERS)

bench-compare: ## the short set here and at commit BASE, by turns; fails if something is slower by 5 %; about eight minutes; ARGS="-help" for the flags
	@test -n "$(BASE)$(ARGS)" || { echo "name a commit: make bench-compare BASE=<commit>" >&2; exit 2; }
	$(GO) build -o $(BIN)/bench-compare ./bench/compare
	$(BIN)/bench-compare -base "$(BASE)" $(ARGS)

bench-open: build ## latency at 25, 50, 75 and 95 % of the peak, calls due at fixed times; 8 minutes; writes the tables of docs/explanation/performance.md and docs/explanation/open-loop.svg; ARGS="-help" for the flags
	DAYBOOK_BINARY=$(CURDIR)/$(BIN)/daybook $(GO) run ./bench/open -page docs/explanation/performance.md $(ARGS)
	cd bench/peers && GOWORK=off $(GO) run ./latency -in $(CURDIR)/$(BIN)/open-loop.json -out $(CURDIR)/docs/explanation/open-loop.svg

PEERS := $(CURDIR)/$(BIN)/peers

peers: ## install the queues that bench-peers compares with, on Debian as root; building queued takes a quarter of an hour, once
	apt-get update -q && apt-get install -q -y --no-upgrade redis-server beanstalkd postgresql strace libclang-dev cmake g++
	cd bench/peers && GOWORK=off $(GO) build -o $(PEERS)/nats-server github.com/nats-io/nats-server/v2
	@if ! test -x $(PEERS)/queued; then \
	  cargo install queued --version 0.9.0 --locked --root $(PEERS)/cargo && mv $(PEERS)/cargo/bin/queued $(PEERS) || \
	  echo "queued could not be built; bench-peers reports it as missing" >&2; \
	fi

bench-peers: build ## Daybook beside Redis Streams, beanstalkd, River, NATS JetStream, asynq, queued; 20 minutes; ARGS="-short" for 3, ARGS="-help" for the flags
	cd bench/peers && GOWORK=off $(GO) build -o $(CURDIR)/$(BIN)/bench-peers .
	BENCH_PEERS_BIN=$(PEERS) DAYBOOK_BINARY=$(CURDIR)/$(BIN)/daybook $(BIN)/bench-peers $(ARGS)

check-peers: build ## all checks and tests of bench-peers; they need its libraries, and skip the queues that are not installed
	cd bench/peers && export GOWORK=off && $(GO) mod tidy -diff && $(GO) vet ./... && $(GO) run $(STATICCHECK) ./... && \
	  BENCH_PEERS_BIN=$(PEERS) DAYBOOK_BINARY=$(CURDIR)/$(BIN)/daybook $(GO) test -count=1 ./...

SITE := $(BIN)/site-tools
MERMAID := mermaid@11.17.2
IFRAME_WORKER := iframe-worker@1.0.4

site-tools: ## put mkdocs-material and the scripts of its pages into bin/site-tools, on Debian with python3-venv and npm; half a minute, once
	@mkdir -p $(SITE)
	cmp -s deploy/site/requirements.txt $(SITE)/installed.txt || { python3 -m venv $(SITE)/python && \
	  $(SITE)/python/bin/pip install -q --disable-pip-version-check --require-hashes -r deploy/site/requirements.txt && cp deploy/site/requirements.txt $(SITE)/installed.txt; }
	cd $(SITE) && { sha256sum --status -c $(CURDIR)/deploy/site/scripts.sha256 2>/dev/null || { mkdir -p scripts && npm pack -s $(MERMAID) $(IFRAME_WORKER) >/dev/null && \
	  tar -xzOf mermaid-*.tgz package/dist/mermaid.min.js > scripts/mermaid.min.js && tar -xzOf iframe-worker-*.tgz package/shim/index.js > scripts/iframe-worker.js && \
	  rm *.tgz && sha256sum --quiet -c $(CURDIR)/deploy/site/scripts.sha256; }; }

site: site-tools ## build the documents as a site in bin/site; a warning fails
	NO_MKDOCS_2_WARNING=1 $(SITE)/python/bin/mkdocs build --strict --clean --config-file deploy/site/mkdocs.yml

architecture: ## draw the picture of docs/explanation/architecture.md again, from the imports
	$(GO) test -count=1 -run TestArchitecture . -rewrite

MOVING := $(CURDIR)/$(BIN)/moving

check-moving: ## run the pages about moving from Celery, Sidekiq, Redis Streams, BullMQ, River and SQS (a mock) beside these systems, which it installs, on Debian as root
	apt-get update -q && apt-get install -q -y --no-install-recommends redis-server redis-tools postgresql python3-venv ruby ruby-sidekiq
	command -v npm >/dev/null || apt-get install -q -y --no-install-recommends nodejs npm
	test -x $(MOVING)/bin/moto_server || { python3 -m venv $(MOVING) && $(MOVING)/bin/pip install -q 'celery[redis]==5.7.*' boto3 'moto[server]'; }
	NPM_CONFIG_REGISTRY=$$(npm config get registry) PATH="$(MOVING)/bin:$$PATH" $(GO) test -count=1 -v -timeout 20m -run TestMoving ./docs/check -moving

bench-parts: build ## the other benchmarks: the Worker, forms of claims, strategies, sweeps, and further parts
	DAYBOOK_BINARY=$(CURDIR)/$(BIN)/daybook $(GO) test -p 1 -run '^$$' -bench . -skip '^Benchmark(Journal|Store|Ingest|Process|Runner)$$' -timeout 90m $(LAYERS) ./client

bench-runners: build ## jobs through server and `daybook work` beside the Go client's Worker, and each kind of handlers alone; about four minutes
	DAYBOOK_BINARY=$(CURDIR)/$(BIN)/daybook $(GO) test -p 1 -run '^$$' -bench '^BenchmarkRunner$$' -benchtime 5x -timeout 30m ./bench
	$(GO) test -p 1 -run '^$$' -bench . -timeout 30m ./runner/...

scale: build ## SCALE (10000000) pending jobs, half of them ended, 100,000 queues: memory, disk, claim latency, restart; ten minutes
	DAYBOOK_BINARY=$(CURDIR)/$(BIN)/daybook DAYBOOK_SCALE=$(or $(SCALE),10000000) $(GO) test -count=1 -v -run 'TestScale|TestDiskPerJob' -timeout 60m ./bench

sweeps: build ## cancel, redrive and delete ten million jobs beside claims of another queue; SWEEPS=n for fewer; about an hour, a million six minutes
	DAYBOOK_BINARY=$(CURDIR)/$(BIN)/daybook DAYBOOK_SWEEPS=$(or $(SWEEPS),10000000) $(GO) test -count=1 -v -run TestSweeps -timeout 60m ./bench

check-scale: ## memory of a check of ten million one-job batches; CHECK_BATCHES=n for fewer; ten million take about half an hour
	DAYBOOK_CHECK_BATCHES=$(or $(CHECK_BATCHES),10000000) $(GO) test -count=1 -v -run TestCheckOfManyBatches -timeout 90m ./store

PROOF := DAYBOOK_REPORT=$(CURDIR)/docs/explanation/reliability.md $(GO) test -count=1 -v -timeout 90m

sim: ## SEEDS (10000) simulated servers with crashes and faults; 45 minutes on two processors; reports to docs/explanation/reliability.md
	$(PROOF) ./proof/sim -seeds $(or $(SEEDS),10000)

corruption: ## every damage to a journal and a store, and what a start makes of it; 70 minutes on two processors; reports to docs/explanation/reliability.md
	$(PROOF) ./proof/corruption -full

crash: build ## the real binary: 200 kills, 500 power cuts, stops, full and read-only disks; reports to docs/explanation/reliability.md
	DAYBOOK_BINARY=$(CURDIR)/$(BIN)/daybook $(PROOF) ./proof/crash -full

runner-kills: build ## 200 kills of runners, of their processes and of the server, under load; some minutes; reports to docs/explanation/reliability.md
	DAYBOOK_BINARY=$(CURDIR)/$(BIN)/daybook $(PROOF) ./proof/runners -run TestKills -full

runner-soak: build ## memory, descriptors and processes of a runner that runs jobs of all kinds for SOAK (10m)
	DAYBOOK_BINARY=$(CURDIR)/$(BIN)/daybook $(GO) test -count=1 -v -timeout 180m ./proof/runners -run TestSoak -soak $(or $(SOAK),10m)

hostile: build ## clients that never read, never write, or go byte by byte, by hundreds on each route and in streams; about 15 minutes; reports to docs/explanation/reliability.md
	DAYBOOK_BINARY=$(CURDIR)/$(BIN)/daybook TESTS_NEED_CGROUPS=1 $(PROOF) ./proof/hostile -full

limits: build ## a server in a memory cgroup of 1 GiB with all that there may be in it: how long each command takes, memory, the start after a kill; 40 minutes
	DAYBOOK_BINARY=$(CURDIR)/$(BIN)/daybook TESTS_NEED_CGROUPS=1 $(TEST) -timeout 90m -v ./proof/limits -full

fuzz: ## each fuzz target for FUZZTIME (30s)
	@for pkg in $$($(GO) list work); do \
	  for target in $$($(GO) test -list '^Fuzz' $$pkg | grep '^Fuzz'); do \
	    echo "$$pkg $$target"; $(GO) test -run '^$$' -fuzz "^$$target$$" -fuzztime $(or $(FUZZTIME),30s) -fuzzminimizetime 100x $$pkg || exit 1; \
	  done; \
	done

clean: ## remove what was built
	rm -rf $(BIN)

.PHONY: help vet test-process prove-short test-race lint test-all release-check architecture site site-tools build build-race run tools programs zeroconf typescript promtool proxies s3server release packages image helm-lint check-packages cross test busy tidy vuln demo bench bench-matrix bench-compare bench-open peers bench-peers check-peers check-moving bench-parts bench-runners scale sweeps check-scale sim corruption crash runner-kills runner-soak hostile limits fuzz clean
