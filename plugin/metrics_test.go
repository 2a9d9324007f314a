package plugin

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"

	"nri-cpuset/allocator"
	"nri-cpuset/state"
)

var update = flag.Bool("update", false, "write docs/metrics.md anew")

// everyMetric is a plugin to which everything has happened that is counted, so that every metric has a series.
func everyMetric(t *testing.T) *metrics {
	t.Helper()
	p := servingPlugin(t)
	m := p.metrics
	exclusive := state.Container{Demand: whole(2)}
	m.placed(&exclusive)
	for _, reason := range []allocator.Reason{allocator.TopologyAffinityError, allocator.SMTAlignmentError, allocator.UnexpectedAdmissionError} {
		m.refused(reason)
	}
	for _, event := range []string{
		"Synchronize", "CreateContainer", "PostCreateContainer", "StartContainer", "PostStartContainer", "UpdateContainer", "PostUpdateContainer",
		"StopContainer", "RemoveContainer", "StopPodSandbox", "RemovePodSandbox",
	} {
		m.handled(event, time.Millisecond, errors.New("refused"))
	}
	for _, cause := range []string{causeRuntime, causeForeign, "event", "books"} {
		m.drift(cause, "audit")
	}
	m.drift(causeRuntime, "start")
	m.drift(causeRuntime, "event")
	m.rebuilt(&state.Rebuilt{})
	m.runtimeUpdates(2, 1, time.Millisecond)
	m.panicked()
	m.audited()
	m.reloaded()
	m.reloadFailed()
	m.connected()
	m.disconnected()
	m.stateFile()
	m.conflict(true)
	return m
}

// ours tells our metrics from those of Go and the process, which their collectors document.
func ours(name string) bool {
	return !strings.HasPrefix(name, "go_") && !strings.HasPrefix(name, "process_")
}

// TestMetricsReference compares the table in docs/metrics.md with what a registry gathers.
func TestMetricsReference(t *testing.T) {
	const file, begin, end = "../docs/metrics.md", "<!-- metrics: begin -->\n", "<!-- metrics: end -->"
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, ok := strings.Cut(string(text), begin)
	_, after, ok2 := strings.Cut(rest, end)
	if !ok || !ok2 {
		t.Fatalf("%s has no %s ... %s", file, begin, end)
	}
	families, err := everyMetric(t).registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	want := before + begin + metricsTable(families) + end + after
	if *update {
		if err := os.WriteFile(file, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if diff := cmp.Diff(want, string(text)); diff != "" {
		t.Errorf("docs/metrics.md is not what the code says; run make docs (-code +docs):\n%s", diff)
	}
}

func metricsTable(families []*dto.MetricFamily) string {
	var out strings.Builder
	out.WriteString("| metric | type | labels | meaning |\n| --- | --- | --- | --- |\n")
	for _, family := range families {
		if ours(family.GetName()) {
			fmt.Fprintf(&out, "| `%s` | %s | %s | %s |\n", family.GetName(), strings.ToLower(family.GetType().String()), labelsOf(family), family.GetHelp())
		}
	}
	return out.String()
}

// labelsOf lists a metric's labels with their values.
func labelsOf(family *dto.MetricFamily) string {
	values := map[string][]string{}
	var names []string
	for _, metric := range family.GetMetric() {
		for _, pair := range metric.GetLabel() {
			name, value := pair.GetName(), "`"+pair.GetValue()+"`"
			if name == "version" {
				value = "as `nri-cpuset version` prints it"
			}
			if !slices.Contains(names, name) {
				names = append(names, name)
			}
			if !slices.Contains(values[name], value) {
				values[name] = append(values[name], value)
			}
		}
	}
	var all []string
	for _, name := range names {
		all = append(all, "`"+name+"`: "+strings.Join(values[name], ", "))
	}
	return strings.Join(all, "; ")
}

// TestEveryMetric shows that everyMetric leaves none out: what a registry describes is also gathered.
func TestEveryMetric(t *testing.T) {
	m := everyMetric(t)
	families, err := m.registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	var gathered []string
	for _, family := range families {
		if ours(family.GetName()) {
			gathered = append(gathered, family.GetName())
		}
	}
	described := make(chan *prometheus.Desc)
	go func() {
		m.registry.Describe(described)
		close(described)
	}()
	name := regexp.MustCompile(`fqName: "([^"]+)"`)
	var want []string
	for desc := range described {
		if found := name.FindStringSubmatch(desc.String()); found == nil {
			t.Errorf("no name in %s", desc)
		} else if ours(found[1]) {
			want = append(want, found[1])
		}
	}
	slices.Sort(want)
	if diff := cmp.Diff(want, gathered); diff != "" {
		t.Errorf("metrics (-described +gathered): make it happen in everyMetric:\n%s", diff)
	}
}

// TestMetricsNames holds every metric to Prometheus' rules for names, and every label to a few values.
func TestMetricsNames(t *testing.T) {
	families, err := everyMetric(t).registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	kubelets := regexp.MustCompile(`^(cpu_manager_|memory_manager_|topology_manager_|container_aligned_)`)
	for _, family := range families {
		name := family.GetName()
		if !ours(name) {
			continue
		}
		if !strings.HasPrefix(name, "nri_cpuset_") && !kubelets.MatchString(name) {
			t.Errorf("%s is neither ours nor the kubelet's by its name", name)
		}
		if isCounter := family.GetType() == dto.MetricType_COUNTER; isCounter != strings.HasSuffix(name, "_total") && !kubelets.MatchString(name) {
			t.Errorf("%s is a %s: counters, and nothing else, end in _total", name, family.GetType())
		}
		if family.GetType() == dto.MetricType_HISTOGRAM && !strings.HasSuffix(name, "_seconds") {
			t.Errorf("%s is a histogram whose name does not give its unit", name)
		}
		if help := family.GetHelp(); !strings.HasSuffix(help, ".") || strings.ContainsAny(help, "|\n") {
			t.Errorf("%s: help %q is no sentence for one cell of a table", name, help)
		}
		if n := len(family.GetMetric()); n > 20 {
			t.Errorf("%s has %d series on one node", name, n)
		}
	}
}
