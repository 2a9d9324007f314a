# What a person runs, and CI runs: one way for each thing. `make help` lists it.

GO       ?= go
VERSION  ?= $(shell git describe --tags --match 'v*' 2>/dev/null || echo devel)
REVISION ?= $(shell git rev-parse HEAD 2>/dev/null)$(shell git diff --quiet HEAD 2>/dev/null || echo -dirty)
CREATED  ?= $(shell git log -1 --format=%ct 2>/dev/null || echo 0)
IMAGE    ?= nri-cpuset:latest

# against whose API the manifests are checked
KUBERNETES := v1.36.3
MODULES    := $(dir $(wildcard go.mod tools/go.mod tools/deploy/go.mod test/go.mod test/*/go.mod))
LDFLAGS    := -s -w -X main.version=$(VERSION) -X main.revision=$(REVISION)
SOURCE     := $$($(GO) mod download -json k8s.io/kubernetes@$(KUBERNETES) | sed -n 's/.*"Dir": "\(.*\)".*/\1/p')

.PHONY: help
help: ## list what there is
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## / { printf "  make %-12s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

.PHONY: build
build: ## the binary, static, at bin/nri-cpuset
	CGO_ENABLED=0 $(GO) build -trimpath -ldflags '$(LDFLAGS)' -o bin/nri-cpuset ./cmd/nri-cpuset

.PHONY: demo
demo: ## pods on a machine, and who gets which CPU: no root, no cluster
	$(GO) -C test run ./demo

.PHONY: test
test: ## unit, property and integration tests, with the race detector
	$(GO) test -race ./...
	$(GO) -C test test -race ./...

.PHONY: faults
faults: STEPS ?= 100000
faults: ## every fault we can make, STEPS steps of it (100,000), each change of the kernel's state judged
	$(GO) -C test test ./faults -run TestFaults -count 1 -v -timeout 30m -steps $(STEPS) -worlds 64

.PHONY: fuzz
fuzz: FUZZTIME ?= 20s
fuzz: ## each fuzz target for FUZZTIME (20s)
	@set -e; for package in $$($(GO) list ./...); do \
		for target in $$($(GO) test -list '^Fuzz' $$package | grep '^Fuzz' || true); do \
			echo "$$package $$target"; $(GO) test -run '^$$' -fuzz "^$$target$$" -fuzztime $(FUZZTIME) $$package; \
		done; \
	done

.PHONY: bench
bench: COUNT ?= 6
bench: ## benchmarks, COUNT times (6), for benchstat: bin/bench.txt
	@mkdir -p bin
	$(GO) test -run '^$$' -bench . -benchmem -count $(COUNT) ./... | tee bin/bench.txt
	$(GO) -C test test -run '^$$' -bench . -benchmem -count $(COUNT) ./... | tee -a bin/bench.txt
	$(GO) -C tools tool benchstat $(CURDIR)/bin/bench.txt

.PHONY: e2e
e2e: ## on a real containerd and runc, as root, read from the kernel's files
	$(MAKE) -C test/e2e

.PHONY: e2e-vm
e2e-vm: ## on a virtual machine with 2 packages, 4 NUMA nodes, SMT and cgroup v2: minutes, no root
	$(MAKE) -C test/vm

.PHONY: e2e-kubelet
e2e-kubelet: ## the real kubelet with static pods, on containerd and runc, as root; builds Kubernetes once, which takes a quarter of an hour
	$(MAKE) -C test/cluster kubelet

.PHONY: e2e-cluster
e2e-cluster: ## a whole cluster on this machine, as root: install, switch, resize, upgrade, uninstall
	$(MAKE) -C test/cluster cluster

.PHONY: browser
browser: ## the status page in headless Chromium
	$(MAKE) -C test/browser

.PHONY: bench-e2e
bench-e2e: ## creation on a real containerd among up to 250 shared containers, as root, and a look at who was exposed meanwhile
	$(MAKE) -C test/e2e bench

.PHONY: lint
lint: bin/golangci-lint ## golangci-lint on every module
	@status=0; for module in $(MODULES); do \
		echo "lint $$module"; (cd $$module && $(CURDIR)/bin/golangci-lint run --config $(CURDIR)/.golangci.yml ./...) || status=1; \
	done; exit $$status

.PHONY: fmt
fmt: bin/golangci-lint ## format every module
	@set -e; for module in $(MODULES); do (cd $$module && $(CURDIR)/bin/golangci-lint fmt --config $(CURDIR)/.golangci.yml); done

.PHONY: manifests
manifests: bin/dryrun bin/helm ## what kubectl, kustomize and helm say of deploy/, without a cluster
	$(GO) -C tools/deploy test ./...
	bin/helm lint --strict deploy/helm/nri-cpuset
	bin/helm template nri-cpuset deploy/helm/nri-cpuset --namespace nri-cpuset > bin/chart.yaml
	bin/helm template nri-cpuset deploy/helm/nri-cpuset --namespace nri-cpuset --show-only templates/daemonset.yaml \
		--set seLinuxType=spc_t,metrics.onNode=true,writeCgroups=false,kubelet.detectManagers=false > bin/chart-others.yaml
	bin/dryrun "$(SOURCE)" deploy/daemonset.yaml deploy/kustomize/overlays/openshift/rbac.yaml bin/chart.yaml bin/chart-others.yaml \
		$(sort $(wildcard deploy/examples/*.yaml))

.PHONY: monitoring
monitoring: bin/promtool ## the alerts, and what they say of made-up nodes
	bin/promtool check rules --lint=all --lint-fatal deploy/monitoring/alerts.yaml
	bin/promtool test rules deploy/monitoring/alerts_test.yaml

.PHONY: vuln
vuln: bin/govulncheck ## known vulnerabilities in what we are built of; asks vuln.go.dev, so it is not part of CI
	bin/govulncheck ./...

.PHONY: docs
docs: ## write anew what is generated in docs/
	$(GO) test ./config -run TestReference -update
	$(GO) test ./plugin -run TestMetricsReference -update
	$(GO) -C tools/deploy test . -run TestGenerated -update
	$(GO) -C test test ./docs -run TestExamples -update

.PHONY: image
image: ## the image IMAGE (nri-cpuset:latest) for amd64 and arm64, as an OCI archive: bin/image.tar; wants no docker and no registry
	@set -e; for arch in amd64 arm64; do echo "build linux/$$arch"; \
		CGO_ENABLED=0 GOOS=linux GOARCH=$$arch nice $(GO) build -trimpath -buildvcs=false -ldflags '$(LDFLAGS)' -o bin/linux-$$arch/nri-cpuset ./cmd/nri-cpuset; \
	done
	@$(GO) -C tools/deploy run ./image --output $(CURDIR)/bin/image.tar --name $(IMAGE) --license $(CURDIR)/LICENSE --sboms $(CURDIR)/bin \
		--version $(VERSION) --revision '$(REVISION)' --created $(CREATED) --limit 20 \
		linux/amd64=$(CURDIR)/bin/linux-amd64/nri-cpuset linux/arm64=$(CURDIR)/bin/linux-arm64/nri-cpuset

.PHONY: ci
ci: ## all that CI runs
	.ci/run

.PHONY: clean
clean: ## remove what was built
	rm -rf bin test/e2e/bin

# The tools are dependencies of the module tools/, so that everybody runs the same versions. Their builds take minutes once: nice leaves the
# machine usable.
bin/golangci-lint: tools/go.mod tools/go.sum
	nice $(GO) -C tools build -trimpath -o ../$@ github.com/golangci/golangci-lint/v2/cmd/golangci-lint

bin/govulncheck: tools/go.mod tools/go.sum
	nice $(GO) -C tools build -trimpath -o ../$@ golang.org/x/vuln/cmd/govulncheck

bin/dryrun: tools/go.mod tools/go.sum $(wildcard tools/dryrun/*.go)
	nice $(GO) -C tools build -trimpath -o ../$@ ./dryrun

bin/helm: tools/deploy/go.mod tools/deploy/go.sum
	nice $(GO) -C tools/deploy build -trimpath -ldflags '-s -w' -o ../../$@ helm.sh/helm/v4/cmd/helm

# Without the clients of clouds that Prometheus finds its targets with: they are most of it.
bin/promtool: tools/promtool/go.mod tools/promtool/go.sum
	nice $(GO) -C tools/promtool build -trimpath -ldflags '-s -w' -tags remove_all_sd -o ../../$@ github.com/prometheus/prometheus/cmd/promtool
