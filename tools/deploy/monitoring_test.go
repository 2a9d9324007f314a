package deploy

import (
	"encoding/json"
	"regexp"
	"slices"
	"strings"
	"testing"

	monitoring "github.com/prometheus-operator/prometheus-operator/pkg/apis/monitoring/v1"
	"github.com/prometheus/prometheus/promql/parser"
	"go.yaml.in/yaml/v3"
	k8syaml "sigs.k8s.io/yaml"
)

// documented are the metrics in docs/metrics.md, which is made of what the plugin's registry gathers, with their labels' values.
func documented(t *testing.T) map[string]string {
	t.Helper()
	row := regexp.MustCompile("(?m)^\\| `([a-z_]+)` \\| (\\w+) \\| ([^|]*) \\|")
	metrics := map[string]string{}
	for _, match := range row.FindAllStringSubmatch(read(t, "../../docs/metrics.md"), -1) {
		name, kind, labels := match[1], match[2], match[3]
		names := []string{name}
		if kind == "histogram" {
			names = []string{name + "_bucket", name + "_sum", name + "_count"}
		}
		for _, name := range names {
			metrics[name] = labels
		}
	}
	if len(metrics) == 0 {
		t.Fatal("docs/metrics.md has no table of metrics")
	}
	return metrics
}

// checkExpression checks that an expression can be parsed, and asks for nothing that there is not.
func checkExpression(t *testing.T, where, expression string, metrics map[string]string) {
	t.Helper()
	// What Grafana puts in is of no matter here.
	expression = strings.NewReplacer("$__rate_interval", "5m", "$instance", ".*").Replace(expression)
	tree, err := parser.NewParser(parser.Options{}).ParseExpr(expression)
	if err != nil {
		t.Errorf("%s: %v", where, err)
		return
	}
	parser.Inspect(tree, func(node parser.Node, _ []parser.Node) error {
		selector, ok := node.(*parser.VectorSelector)
		if !ok || strings.HasPrefix(selector.Name, "process_") {
			return nil
		}
		labels, known := metrics[selector.Name]
		if !known {
			t.Errorf("%s: there is no metric %s", where, selector.Name)
			return nil
		}
		for _, matcher := range selector.LabelMatchers {
			switch matcher.Name {
			case "__name__", "instance":
				continue
			}
			if !strings.Contains(labels, "`"+matcher.Name+"`:") {
				t.Errorf("%s: %s has no label %s", where, selector.Name, matcher.Name)
			}
			for value := range strings.SplitSeq(matcher.Value, "|") {
				if !strings.Contains(labels, "`"+value+"`") {
					t.Errorf("%s: %s is never %q for %s", where, matcher.Name, value, selector.Name)
				}
			}
		}
		return nil
	})
}

func TestAlerts(t *testing.T) {
	type rule struct {
		Alert, Expr         string
		Labels, Annotations map[string]string
	}
	var file struct{ Groups []struct{ Rules []rule } }
	if err := yaml.Unmarshal([]byte(read(t, shipped+"/monitoring/alerts.yaml")), &file); err != nil {
		t.Fatal(err)
	}
	metrics, played := documented(t), read(t, shipped+"/monitoring/alerts_test.yaml")
	var sections, want []string
	for line := range strings.Lines(read(t, "../../docs/runbook.md")) {
		if section, ok := strings.CutPrefix(line, "## "); ok {
			sections = append(sections, strings.TrimSpace(section))
		}
	}
	for _, group := range file.Groups {
		for _, rule := range group.Rules {
			want = append(want, rule.Alert)
			checkExpression(t, rule.Alert, rule.Expr, metrics)
			if !slices.Contains([]string{"critical", "warning", "info"}, rule.Labels["severity"]) {
				t.Errorf("%s has severity %q", rule.Alert, rule.Labels["severity"])
			}
			for _, key := range []string{"summary", "description"} {
				if rule.Annotations[key] == "" {
					t.Errorf("%s has no %s", rule.Alert, key)
				}
			}
			if got, want := rule.Annotations["runbook"], "docs/runbook.md#"+strings.ToLower(rule.Alert); got != want {
				t.Errorf("%s: runbook %q, want %q", rule.Alert, got, want)
			}
			if !strings.Contains(played, rule.Alert) {
				t.Errorf("alerts_test.yaml does not play %s", rule.Alert)
			}
		}
	}
	if !slices.Equal(sections, want) {
		t.Errorf("docs/runbook.md has the sections\n%q\nwant one for each alert, in their order:\n%q", sections, want)
	}
}

// TestOperatorObjects reads what is for the Prometheus Operator with its own types, strictly: Kubernetes itself does not know these kinds.
func TestOperatorObjects(t *testing.T) {
	for _, tc := range []struct {
		name string
		all  map[string]object
	}{
		{"kustomize", build(t, "testdata/monitored")},
		{"helm", mustTemplate(t, "metrics: {onNode: true}\npodMonitor: {enabled: true, labels: {release: p}}\nprometheusRule: {enabled: true, labels: {release: p}}\n")},
	} {
		t.Run(tc.name, func(t *testing.T) {
			var monitor monitoring.PodMonitor
			var rule monitoring.PrometheusRule
			for kind, into := range map[string]any{monitoring.PodMonitorsKind: &monitor, monitoring.PrometheusRuleKind: &rule} {
				text, err := yaml.Marshal(tc.all[kind])
				if err != nil {
					t.Fatal(err)
				}
				if err := k8syaml.UnmarshalStrict(text, into); err != nil {
					t.Errorf("%s: %v", kind, err)
				}
			}
			labels := at(tc.all["DaemonSet"], "spec", "template", "metadata", "labels").(map[string]any)
			for key, value := range monitor.Spec.Selector.MatchLabels {
				if labels[key] != value {
					t.Errorf("PodMonitor selects %s=%s, the pods have %v", key, value, labels[key])
				}
			}
			if len(monitor.Spec.PodMetricsEndpoints) != 1 || len(rule.Spec.Groups) != 1 || len(rule.Spec.Groups[0].Rules) == 0 {
				t.Errorf("%d endpoints and %d groups of rules, want one each, with rules", len(monitor.Spec.PodMetricsEndpoints), len(rule.Spec.Groups))
			}
		})
	}
}

func TestDashboard(t *testing.T) {
	var dashboard struct {
		Panels []struct {
			ID      int
			Type    string
			Title   string
			GridPos struct{ X, Y, W, H int }
			Targets []struct{ Expr string }
		}
	}
	if err := json.Unmarshal([]byte(read(t, shipped+"/monitoring/dashboard.json")), &dashboard); err != nil {
		t.Fatal(err)
	}
	metrics := documented(t)
	ids, taken := map[int]bool{}, map[[2]int]string{}
	for _, panel := range dashboard.Panels {
		if ids[panel.ID] {
			t.Errorf("%s: there is another panel %d", panel.Title, panel.ID)
		}
		ids[panel.ID] = true
		if (len(panel.Targets) == 0) != (panel.Type == "row") {
			t.Errorf("%s is a %s with %d expressions", panel.Title, panel.Type, len(panel.Targets))
		}
		for _, target := range panel.Targets {
			checkExpression(t, panel.Title, target.Expr, metrics)
		}
		for x := range panel.GridPos.W {
			for y := range panel.GridPos.H {
				place := [2]int{panel.GridPos.X + x, panel.GridPos.Y + y}
				if other := taken[place]; other != "" || place[0] >= 24 {
					t.Fatalf("%s lies over %q or beyond the edge", panel.Title, other)
				}
				taken[place] = panel.Title
			}
		}
	}
	// Every metric is looked at by something.
	seen := read(t, shipped+"/monitoring/dashboard.json") + read(t, shipped+"/monitoring/alerts.yaml")
	for name := range metrics {
		base := regexp.MustCompile(`_(bucket|sum|count)$`).ReplaceAllString(name, "")
		if !strings.Contains(seen, base) {
			t.Errorf("%s is in neither an alert nor the dashboard", base)
		}
	}
}
