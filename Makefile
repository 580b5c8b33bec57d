# What can be done here. `make` alone lists it.

GO         ?= go
GOLANGCI   := github.com/golangci/golangci-lint/v2/cmd/golangci-lint@v2.15.0
VALE       := github.com/errata-ai/vale/v3/cmd/vale@v3.7.1
# The modules of their own that make lint looks at; see CONTRIBUTING.
LINTED     := deploy/release testdata/agent testdata/apiserver testdata/browser testdata/e2e testdata/hosts testdata/image testdata/mutants testdata/prometheus testdata/webhooks
GOVULNCHECK := golang.org/x/vuln/cmd/govulncheck@v1.9.0
# Where the list of known vulnerabilities is; a mirror, or file:// and a directory.
VULNDB     ?= https://vuln.go.dev
# The address of the documentation of this version, for links on the status page, without a slash at the end.
DOCS       ?=
# The checker of accessibility that make browser uses, from npm.
AXE        := axe-4.14.1
AXE_SHA256 := 29348999450cdf2849a8e70b7912fc2da85a849da39c0d0d5394f51d4a9ed95c
FUZZTIME   ?= 30s
SEEDS      ?= 20000
RACED      ?= 5m
CHECKS     ?= 100000
DAYS       ?= 30
HOSTILE    ?= 1h
# The versions that make e2e runs with (empty: the current ones), and how long a test waits for what must come (empty: 20m); for how long make e2e-long kills parts, chosen by SEED.
VERSIONS   ?=
PATIENCE   ?=
CHAOS      ?= 1h
SEED       ?= 1
# The version that make upgrade comes from.
OLDER      ?= v0.3.0
# The workloads of docs/explanation/scaling-quality.md: those of kinds that real organisations have, and a few that show one thing each.
QUALITY    := steady,unsatisfiable,rough,merge-queue,time-zones,fan,short-busy,short-calm,long,cancelled,herd,weekend,tags,groups,cron,chains
# What make bench runs on, how often, and where the repositories that it makes
# are kept (empty: in the user's cache).
BENCH_ALL   := small,medium,large
BENCH_SIZES ?= $(BENCH_ALL)
BENCH_TURNS ?= 11
BENCH_TICKS ?= 200
BENCH_DIR   ?=
BENCH_TABLE := $(CURDIR)/bin/bench.txt
BENCH_PAGE  := docs/explanation/performance.md
# What the program says of itself; without git, it says the source's version.
VERSION    ?= $(shell git describe --tags --match 'v*' --dirty 2>/dev/null)
COMMIT     ?= $(shell git describe --always --abbrev=12 --exclude '*' --dirty 2>/dev/null)
LDFLAGS     = -s -w -X muster/cmd/invocation.linkedVersion=$(VERSION) -X muster/cmd/invocation.linkedCommit=$(COMMIT) $(if $(DOCS),-X muster/cmd/page.docs=$(DOCS))
# The race detector needs a C compiler. Where there is none, go env says so.
RACE        = $(if $(filter 1,$(shell $(GO) env CGO_ENABLED)),-race)
# Packages in which goroutines run, in the code or in the tests. In the others (SEQUENTIAL) the race
# detector finds nothing, and make test plays them without it.
CONCURRENT = $(shell grep -rlE '"sync(/atomic)?"|/errgroup"|^[[:space:]]*go [a-z]' --include='*.go' ./cmd ./generator ./gitops | xargs -n1 dirname | sort -u)
SEQUENTIAL = $(filter-out $(CONCURRENT),$(patsubst muster/%,./%,$(shell $(GO) list ./...)))
# Tests that call unraced.Only, which make test plays without the race detector: in the
# packages with most of them, which play simulations, in the other packages, and in ./generator,
# where TestFaults is played with them.
SIMULATED  := ./generator/simulation
UNRACED     = $(filter-out ./generator $(SIMULATED) $(SEQUENTIAL),$(shell grep -rl 'unraced\.Only' --include='*_test.go' ./cmd ./generator ./gitops | xargs -n1 dirname | sort -u))
unraced-tests = $(or $(shell grep -hE '^func Test|unraced\.Only' $(1:%=%/*_test.go) | awk -F'[ \050]' '/^func/ {name = $$2} /unraced/ {print name}' | sort -u | paste -sd'|' -),$(error no test in $(1) calls unraced.Only))
# Packages whose tests take the longest: begun first, so that none is played alone at the end.
LONG       := ./cmd/muster ./gitops/git ./generator
# Tools that the tests need and the machine may lack are built into bin/.
export PATH := $(CURDIR)/bin:$(PATH)

.DEFAULT_GOAL := help
# When the source was committed: the time of every file that is released.
SOURCE_DATE_EPOCH ?= $(shell git log -1 --format=%ct 2>/dev/null)
# Where the image goes, as in registry.example.com/muster, and where its source is.
IMAGE      ?=
SOURCE_URL ?=
RELEASE     = $(GO) -C deploy/release run . -source ../.. -version '$(VERSION)' -commit '$(COMMIT)' -date '$(SOURCE_DATE_EPOCH)' -url '$(SOURCE_URL)'

.PHONY: docs unraced unraced-some seeds sequential nested agent-cached browser-short help demo build image push release release-test image-test test race apiserver alerts agent e2e e2e-flux e2e-argocd e2e-long e2e-packages schema tools lint prose fuzz bench soak incidents faults writers quality reference golden cover vuln hostile mutants upgrade browser pictures hosts clean

help: ## List the targets
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## / {printf "  make %-10s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

demo: build ## Play a morning of builds against a real git repository, on embedded defaults
	bin/muster-sim demo

# Nothing is heard of go build for a minute or more on a new machine: its list of
# packages is counted. Whatever else it says is printed, and its exit code kept.
build: ## Build bin/muster and bin/muster-sim
	@echo 'building bin/muster and bin/muster-sim: a minute or two the first time, seconds after that' >&2
	@total=$$($(GO) list -deps ./cmd/muster ./cmd/muster-sim | wc -l) && \
	{ CGO_ENABLED=0 $(GO) build -v -trimpath -ldflags '$(LDFLAGS)' -o bin/ ./cmd/muster ./cmd/muster-sim 2>&1; echo "exit $$?"; } | { \
		begun=0; terminal=; [ -t 2 ] && [ "$$TERM" != dumb ] && terminal=yes; \
		say() { if [ $$terminal ]; then printf '\r\033[K%s' "$$1" >&2; elif [ $$2 = 0 ]; then echo "$$1" >&2; fi; }; \
		while IFS= read -r line; do case $$line in \
			'exit '*) say '' 1; exit $${line#exit } ;; \
			*[\ :]*) say '' 1; printf '%s\n' "$$line" >&2 ;; \
			*/cmd/muster|*/cmd/muster-sim) say 'linking' 0 ;; \
			*) begun=$$((begun + 1)); say "compiling: $$begun of at most $$((total)) packages" $$((begun % 100)) ;; \
		esac; done; exit 1; }

image: ## Write bin/muster-image.tar: linux/amd64 and arm64, the same bytes each time
	$(RELEASE) $(if $(IMAGE),-name '$(IMAGE)') image $(CURDIR)/bin/muster-image.tar

push: ## Push the image and its SBOMs: make push IMAGE=registry.example.com/muster
	@[ -n '$(IMAGE)' ] || { echo 'where to? make push IMAGE=registry.example.com/muster'; exit 1; }
	$(RELEASE) push '$(IMAGE)'

release: ## Write archives, image, notes, provenance and checksums into bin/release/, the same bytes each time
	rm -rf bin/release
	$(RELEASE) files $(CURDIR)/bin/release

release-test: release ## Build the release twice, and try its files in a Debian without Go; needs root
	MAKE='$(MAKE)' testdata/install/run bin/release bin/debian

image-test: image ## Run the image as a container; needs root, and Debian's containerd and runc
	@command -v containerd runc >/dev/null || { apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends containerd runc; }
	$(GO) -C testdata/image test -count=1 ./... -args -image $(CURDIR)/bin/muster-image.tar

test: tools ## Run every test: vet, the race detector, the API server's validation, the published agent
	$(GO) vet -trimpath ./...
	@[ -n "$(RACE)" ] || echo "no C compiler: the tests run without the race detector"
	$(GO) test $(RACE) -trimpath -vet=off -shuffle=on -timeout 30m $(LONG) $(CONCURRENT)
	@$(MAKE) --no-print-directory -j2 -Otarget $(if $(RACE),unraced unraced-some) seeds sequential nested agent-cached browser-short

# Parts of make test, two at a time.
unraced:
	GOGC=400 $(GO) test -trimpath -vet=off -shuffle=on -timeout 30m -run '^($(call unraced-tests,$(SIMULATED)))$$' $(SIMULATED)

unraced-some:
	$(GO) test -trimpath -vet=off -shuffle=on -timeout 30m -run '^($(call unraced-tests,$(UNRACED)))$$' $(UNRACED)

seeds:
	GOGC=400 $(GO) test -trimpath -vet=off -shuffle=on -timeout 30m -run '^(TestFaults|$(call unraced-tests,./generator))$$' ./generator -seeds 100

sequential:
	$(GO) test -trimpath -vet=off -shuffle=on -timeout 30m $(SEQUENTIAL)

# Go keeps results of tests until a file changes, but does not see those outside of their
# module, which these are about.
nested:
	$(GO) -C testdata/apiserver test -count=1 ./...
	$(GO) -C testdata/prometheus test -count=1 ./deployed
	$(GO) -C deploy/release test -count=1 ./...
	$(GO) -C testdata/mutants test -count=1 ./...
	$(GO) -C testdata/webhooks test -count=1 ./...
	$(GO) -C testdata/e2e vet ./...
	$(GO) -C testdata/e2e test -count=1 ./record

# Debian's Chromium is installed where it may be; elsewhere the page is tested without a browser.
browser-short:
	@command -v chromium >/dev/null || [ "$$(id -u)" != 0 ] || ! command -v apt-get >/dev/null || \
		{ apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends chromium; } >/dev/null
	@if command -v chromium >/dev/null; then $(GO) -C testdata/browser test -count=1 -run '^TestFilterAndCopy$$' ./...; \
		else echo 'skipped: the status page in a browser, which needs chromium'; fi

agent-cached:
	$(GO) -C testdata/agent run ./build
	$(GO) -C testdata/agent test -parallel 8 ./...

race: tools ## Run the tests with the race detector, ten times in random order
	$(GO) test -race -tags raceall -shuffle=on -count=10 ./...

docs: tools ## Run the commands on every page of the documentation; needs jq, openssl and ssh-keygen
	$(GO) -C testdata/apiserver build -trimpath -o $(CURDIR)/bin/docs/kubectl ./kubectlparse
	$(GO) test -count=1 -trimpath -vet=off -timeout 60m ./cmd/muster -run '^TestPages$$' -args -pages $(CURDIR)/bin/docs

apiserver: ## Run the agent Job through the API server's validation alone
	$(GO) -C testdata/apiserver test ./...

alerts: ## Raise and resolve every alert in Prometheus' own code, and ask all that the dashboard asks
	$(GO) -C testdata/prometheus test -count=1 ./...

agent: ## Run the published buildkite-agent against the simulated Buildkite alone
	$(GO) -C testdata/agent run ./build
	$(GO) -C testdata/agent test -count=1 -parallel 8 ./...
	LIVE_AGENT=1 $(GO) test -count=1 -run '^TestLive' ./cmd/laboratory

# The whole run writes the table of docs/reference/syncers.md; parts of it do not. Without root
# there is no real node, and what is missing has to be installed by hand. PATIENCE limits how
# long a test waits: a limit of go test would include compiling Kubernetes, Flux and Argo CD.
E2E = cd testdata/e2e && $(GO) test -count=1 -timeout 0 -v -run '$(1)' . -args -versions '$(VERSIONS)' $(if $(PATIENCE),-patience '$(PATIENCE)')

e2e: e2e-packages ## Run muster with real Kubernetes, Flux and Argo CD: RUN=name, VERSIONS=previous; see testdata/e2e/README.md
	$(call E2E,$(or $(RUN),^Test[^C])) $(if $(RUN),,-table $(or $(VERSIONS),tried))

e2e-flux: e2e-packages ## Run it with Flux alone
	$(call E2E,$(or $(RUN),^Test[^C])) -syncers flux

e2e-argocd: e2e-packages ## Run it with Argo CD alone
	$(call E2E,$(or $(RUN),^Test[^C])) -syncers argocd

e2e-long: e2e-packages ## Two clusters of which one goes away, and everything killed at random for CHAOS, chosen by SEED
	$(call E2E,$(or $(RUN),^TestC)) -chaos '$(CHAOS)' -seed '$(SEED)' $(if $(RUN)$(VERSIONS),,-table long)

e2e-packages: tools
	@missing=; for program in redis-server tini containerd runc /usr/lib/cni/bridge /bin/busybox ip faketime; do command -v $$program >/dev/null || missing=yes; done; \
	! ldd /bin/busybox >/dev/null 2>&1 || missing=yes; \
	if [ "$$missing" ] && [ "$$(id -u)" = 0 ]; then apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends \
		redis-server tini containerd runc containernetworking-plugins busybox-static iproute2 faketime; fi

schema: ## Try the policy's schema in ajv and the YAML language server; needs npm and a network
	npm ci --prefix testdata/schema --ignore-scripts --no-audit --no-fund
	node testdata/schema/check.mjs

tools: ## Build what the tests need and the machine lacks
	@command -v kubectl >/dev/null || $(GO) -C testdata/apiserver build -o $(CURDIR)/bin/kubectl ./kubectl

lint: prose ## Check format, style and prose
	@files=$$(gofmt -l $$(git ls-files '*.go')); [ -z "$$files" ] || { echo "not gofmt-ed:"; echo "$$files"; exit 1; }
	$(GO) run $(GOLANGCI) run
	@set -e; for module in $(LINTED); do echo "$$module"; (cd $$module && $(GO) run $(GOLANGCI) run ./...); done

prose: ## Check the language of pages, help texts, doc comments and commit subjects with vale
	GOBIN=$(CURDIR)/bin $(GO) install $(VALE)
	$(GO) run -trimpath ./testdata/prose

vuln: ## Look for known vulnerabilities that muster reaches; needs a network, and VULNDB
	GOBIN=$(CURDIR)/bin $(GO) install $(GOVULNCHECK)
	$(GO) test -count=1 -timeout 30m ./testdata/vuln
	@code=0; for os in linux darwin; do echo "muster for $$os"; CGO_ENABLED=0 GOOS=$$os govulncheck -db $(VULNDB) ./... || code=1; done; \
	for module in $(LINTED); do echo "$$module"; (cd $$module && govulncheck -db $(VULNDB) -test ./...) || code=1; done; exit $$code

fuzz: ## Fuzz every parser for FUZZTIME each
	@set -e; $(GO) list ./... | while read -r package; do \
		for target in $$($(GO) test -list '^Fuzz' "$$package" | grep '^Fuzz' || true); do \
			echo "$$package $$target"; \
			$(GO) test -run '^$$' -fuzz "^$$target$$" -fuzztime $(FUZZTIME) -fuzzminimizetime 20x "$$package"; \
		done; \
	done

bench: tools ## Measure against git, go-git and the bounds; a run on all sizes writes the table of the page on performance
	@mkdir -p bin
	@{ echo "commit $$(git rev-parse --short=12 HEAD)$$(git diff --quiet HEAD -- . ':!$(BENCH_PAGE)' || echo -dirty)"; \
		echo "$$(sed -n 's/^model name.*: //p' /proc/cpuinfo | head -1), $$(nproc) cores; $$($(GO) env GOVERSION); $$(git version)"; \
		printf '%-62s %-7s %12s %10s\n' figure size measured bound; } >$(BENCH_TABLE)
	@code=0; measure() { \
		$(GO) test -trimpath -vet=off -run '^$$' -bench "$$3" -benchtime "$$2x" -timeout 15m "$$1" -args \
			-sizes=$(BENCH_SIZES) -fleets=$(BENCH_DIR) -ticks=$(BENCH_TICKS) -table=$(BENCH_TABLE) >bin/bench.log 2>&1 || { code=1; cat bin/bench.log; }; }; \
	measure ./gitops $(BENCH_TURNS) .; \
	measure ./cmd/muster 1 .; \
	measure ./generator/fleet 20 '^BenchmarkStamp$$'; \
	measure ./generator/plan 20 .; \
	measure ./generator/buildkite 20 TenThousandBuilds; \
	measure ./generator/metrics 20 .; \
	cat $(BENCH_TABLE); \
	$(if $(filter $(BENCH_ALL),$(BENCH_SIZES)),$(GO) test -trimpath -vet=off -count=1 -run '^TestPerformanceTable$$' ./cmd/muster -args -update -table=$(BENCH_TABLE) || code=1;) \
	exit $$code

soak: ## Play DAYS days of production against muster in a process of its own: memory, nothing ordered twice
	$(GO) test ./cmd/muster -run Month -timeout 0 -v -month-days $(DAYS)

incidents: ## Play every incident and compare what surfaces and alerts report; writes the table of docs/reference/alerts.md
	$(GO) test -trimpath -vet=off -count=1 -timeout 30m ./cmd/muster -run '^TestIncidents$$' -args -incidents -update
	$(GO) -C testdata/prometheus test -count=1 -run '^TestRecordedIncidents$$' . -args -update
	$(GO) test -trimpath -vet=off -count=1 ./cmd/muster -run '^TestIncidentsTable$$' -args -update

faults: ## Simulate SEEDS worlds of faults
	$(GO) test ./generator -run Faults -timeout 0 -seeds $(SEEDS)

writers: ## Race three writers for RACED of simulated time, and verify every commit
	$(GO) test ./generator -run ThreeWriters -count=1 -timeout 0 -v -raced $(RACED)

quality: build ## Play every workload through every algorithm, and write docs/explanation/scaling-quality.md and its picture
	GOGC=400 bin/muster-sim simulate --workload $(QUALITY) --algorithms all --out testdata/scaling-quality/results.json >testdata/scaling-quality/results.txt
	GOGC=400 bin/muster-sim simulate --faults requests=50 --workload short-busy --algorithms muster,muster-reuse-auto >testdata/scaling-quality/requests.txt
	$(GO) test ./cmd/laboratory -run ScalingQuality -args -update

reference: ## Compare decisions on CHECKS random fleets with those of a second, brute-force program
	$(GO) test ./generator/plan -run 'Reference' -count=1 -timeout 0 -v -rapid.checks=$(CHECKS)

golden: tools ## Compare decisions, commits, manifests, status and metrics with recorded ones; RECORD=-update writes testdata/golden
	GOGC=400 $(GO) test -count=1 -trimpath -vet=off -timeout 30m ./generator -run '^TestGolden' -args -golden -seeds 200 $(RECORD)
	$(GO) test -count=1 -trimpath -vet=off ./generator/plan ./cmd/muster -run '^TestGolden' -args -golden $(RECORD)
	$(GO) test -count=1 -trimpath -vet=off -timeout 30m ./generator/plan ./generator/fleet ./generator/ledger ./cmd/muster \
		-run '^Test(Decide|CommitBodiesOfCases|Golden|Messages|Scripts|UnracedScripts)$$'

upgrade: ## Let the muster of commit OLDER order agents, this one continue, and that one again
	@rm -rf bin/older && mkdir -p bin/older
	git archive --format=tar $(OLDER) | tar -x -C bin/older
	CGO_ENABLED=0 $(GO) -C bin/older build -trimpath -o muster ./cmd/muster
	$(GO) test -count=1 -trimpath -vet=off ./cmd/muster -run '^TestUpgrade$$' -args -older $(CURDIR)/bin/older/muster
	@rm -rf bin/older

browser: ## Try the status page and a report in Chromium, which has to be there; PICTURES is a directory for screenshots
	$(if $(PICTURES),@mkdir -p $(PICTURES))
	@test -f bin/$(AXE).js || { mkdir -p bin && cd bin && npm pack --silent axe-core@$(AXE:axe-%=%) >/dev/null && \
		tar xzf axe-core-$(AXE:axe-%=%).tgz package/axe.min.js && \
		echo '$(AXE_SHA256)  package/axe.min.js' | sha256sum --check --quiet && mv package/axe.min.js $(AXE).js && rm -r package axe-core-$(AXE:axe-%=%).tgz; }
	$(GO) -C testdata/browser test -count=1 ./... -args -axe $(abspath bin/$(AXE).js) $(if $(PICTURES),-pictures $(abspath $(PICTURES)))

pictures: ## Write the pictures of README.md, docs/demo-*.svg and docs/page-*.png; needs Chromium
	$(GO) test -trimpath -vet=off -count=1 -run '^TestReadmePicture$$' ./cmd/laboratory -args -update
	$(GO) -C testdata/browser test -count=1 -run '^TestDemo$$' . -args -readme $(CURDIR)/docs

hosts: build ## Run muster against Dulwich, JGit, gitolite and Gitea, installed or built on demand; writes docs/reference/git-hosts.md
	testdata/hosts/install
	$(GO) -C testdata/hosts run ./build
	$(GO) -C testdata/hosts test -count=1 -v -timeout 60m . -args -rival 1m -write $(CURDIR)/docs/reference/git-hosts.md $(if $(WITHOUT),-without '$(WITHOUT)')

mutants: tools ## Take features out of muster and let their rows in the long suites fail: SUITE=incidents, MATCH=expression
	$(GO) -C testdata/mutants run . $(if $(SUITE),-suite '$(SUITE)') $(if $(MATCH),-match '$(MATCH)')

hostile: ## Read overlays that are made to do harm, for HOSTILE
	$(GO) test -v ./cmd/muster -run TestHostileOverlays -timeout 0 -hostile-from $$$$ -hostile-time $(HOSTILE)

cover: tools ## Write coverage.out and print the sum by function
	$(GO) test -coverprofile coverage.out -coverpkg ./... ./...
	$(GO) tool cover -func coverage.out | tail -1

clean: ## Remove what was built
	rm -rf bin coverage.out muster-demo
