package deploy

import (
	"bytes"
	"encoding/json"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	helm "helm.sh/helm/v4/pkg/cmd"

	"nri-cpuset/config"
)

const chart = shipped + "/helm/nri-cpuset"

// runHelm is the program helm.
func runHelm(t *testing.T, args ...string) (string, error) {
	t.Helper()
	var output bytes.Buffer
	command, err := helm.NewRootCmd(&output, args, helm.SetupLogging)
	if err != nil {
		t.Fatal(err)
	}
	command.SetArgs(args)
	command.SetOut(&output)
	command.SetErr(&output)
	command.SilenceUsage = true
	err = command.ExecuteContext(t.Context())
	return output.String(), err
}

// template is helm template with values.
func template(t *testing.T, values string) (map[string]object, error) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "values.yaml")
	if err := os.WriteFile(file, []byte(values), 0o600); err != nil {
		t.Fatal(err)
	}
	output, err := runHelm(t, "template", "nri-cpuset", chart, "--namespace", "nri-cpuset", "--kube-version", "1.36.0", "--values", file)
	if err != nil {
		return nil, err
	}
	return objects(t, []byte(output)), nil
}

func mustTemplate(t *testing.T, values string) map[string]object {
	t.Helper()
	all, err := template(t, values)
	if err != nil {
		t.Fatal(err)
	}
	return all
}

func TestHelmLint(t *testing.T) {
	if output, err := runHelm(t, "lint", "--strict", chart); err != nil {
		t.Errorf("%v\n%s", err, output)
	}
}

// TestHelmEqualsKustomize shows that the chart, as it comes, installs what the kustomization does.
func TestHelmEqualsKustomize(t *testing.T) {
	for _, tc := range []struct {
		name, values string
		want         map[string]object
		ours         []string // kinds that only the kustomization has
	}{
		{"base", "", build(t, base), []string{"Namespace"}}, // helm makes that by itself
		{
			"OpenShift", "openshift: {enabled: true}\nimage: {repository: image-registry.openshift-image-registry.svc:5000/nri-cpuset/nri-cpuset}\n",
			overlay(t, "openshift"),
			[]string{"Namespace"},
		},
		{"monitored", "metrics: {onNode: true}\npodMonitor: {enabled: true}\nprometheusRule: {enabled: true}\n" +
			"config: {cpuManagerPolicy: static, systemReserved: {cpu: \"1\"}}\n", build(t, "testdata/monitored"), []string{"Namespace"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got := mustTemplate(t, tc.values)
			for _, kind := range tc.ours {
				delete(tc.want, kind)
			}
			for _, o := range got {
				labels := at(o, "metadata", "labels").(map[string]any)
				for _, label := range []string{"app.kubernetes.io/instance", "app.kubernetes.io/managed-by", "helm.sh/chart"} {
					if labels[label] == nil {
						t.Errorf("%s has no label %s", o["kind"], label)
					}
					delete(labels, label)
				}
			}
			// The settings are compared as such: in the kustomization they come with comments.
			if diff := cmp.Diff(settings(t, tc.want), settings(t, got)); diff != "" {
				t.Errorf("settings (-kustomize +helm):\n%s", diff)
			}
			delete(tc.want["ConfigMap"], "data")
			delete(got["ConfigMap"], "data")
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("objects (-kustomize +helm):\n%s", diff)
			}
		})
	}
}

// settings are those in force on a node under the ConfigMap among objects.
func settings(t *testing.T, all map[string]object) string {
	t.Helper()
	text, _ := at(all["ConfigMap"], "data", "config.yaml").(string)
	c, err := config.Parse([]byte(text), "db-1")
	if err != nil {
		t.Fatalf("%v in:\n%s", err, text)
	}
	return c.String()
}

func TestHelmValues(t *testing.T) {
	for _, tc := range []struct {
		name, values string
		path         []any // in the DaemonSet's one container, in its pod, or in the pod's template
		inPod        bool
		inTemplate   bool
		want         any
	}{
		{name: "tag", values: "image: {tag: v1}", path: []any{"image"}, want: "nri-cpuset:v1"},
		{
			name: "digest", values: "image: {repository: r.example/x, tag: v1, digest: sha256:" + strings.Repeat("0a", 32) + "}", path: []any{"image"},
			want: "r.example/x@sha256:" + strings.Repeat("0a", 32),
		},
		{name: "log", values: "log: {level: debug, format: json}", path: []any{"args"}, want: []any{"run", "--log-level=debug", "--log-format=json"}},
		{name: "index", values: "nri: {pluginIndex: \"90\"}", path: []any{"args"}, want: []any{"run", "--plugin-index=90"}},
		{name: "port", values: "metrics: {port: 9999}", path: []any{"args"}, want: []any{"run", "--listen=127.0.0.1:9999"}},
		{name: "on the node", values: "metrics: {onNode: true}", path: []any{"args"}, want: []any{"run", "--listen=:9178"}},
		{name: "further flags", values: "extraArgs: [--sysfs=/sys2]", path: []any{"args"}, want: []any{"run", "--sysfs=/sys2"}},
		{name: "no tolerations", values: "tolerations: []", path: []any{"tolerations"}, inPod: true, want: nil},
		{
			name: "selector", values: "nodeSelector: {pinned: \"true\"}", path: []any{"nodeSelector"}, inPod: true,
			want: map[string]any{"kubernetes.io/os": "linux", "pinned": "true"},
		},
		{name: "pull secret", values: "imagePullSecrets: [{name: s}]", path: []any{"imagePullSecrets", 0, "name"}, inPod: true, want: "s"},
		{
			name: "annotations", values: "podAnnotations: {a: b}", path: []any{"metadata", "annotations"}, inTemplate: true,
			want: map[string]any{"a": "b", "tolerate-missing-nri-plugins.noderesource.dev": "true"},
		},
		{name: "SELinux", values: "seLinuxType: nri_t", path: []any{"securityContext", "seLinuxOptions", "type"}, want: "nri_t"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			daemonSet := mustTemplate(t, tc.values)["DaemonSet"]
			from := container(daemonSet)
			if tc.inPod {
				from = at(daemonSet, "spec", "template", "spec")
			} else if tc.inTemplate {
				from = at(daemonSet, "spec", "template")
			}
			if diff := cmp.Diff(tc.want, at(from, tc.path...)); diff != "" {
				t.Errorf("%v (-want +got):\n%s", tc.path, diff)
			}
		})
	}
}

func TestHelmMounts(t *testing.T) {
	for _, tc := range []struct {
		name, values string
		args         []any
		mounts       map[string]string // those that differ; "" for not there
	}{
		{"as little as can be", "writeCgroups: false\nkubelet: {detectManagers: false}", []any{"run", "--cgroup-root=", "--kubelet-root-dir="}, map[string]string{
			"/sys/fs/cgroup": "", "/var/lib/kubelet": "", "/var/lib/kubelet/pods": "", "/var/lib/kubelet/pod-resources": "/var/lib/kubelet/pod-resources ro",
		}},
		{"other directories", "nri: {socketDir: /run/nri2}\nstateDir: /run/other\nkubelet: {rootDir: /data/kubelet}", []any{"run"}, map[string]string{
			"/var/run/nri": "/run/nri2 ro", "/run/nri-cpuset": "/run/other rw", "/var/lib/kubelet": "/data/kubelet ro",
		}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			want := mounts(build(t, base)["DaemonSet"])
			for path, source := range tc.mounts {
				if want[path] = source; source == "" {
					delete(want, path)
				}
			}
			got := mustTemplate(t, tc.values)["DaemonSet"]
			if diff := cmp.Diff(want, mounts(got)); diff != "" {
				t.Errorf("mounts (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(tc.args, at(container(got), "args")); diff != "" {
				t.Errorf("args (-want +got):\n%s", diff)
			}
		})
	}
}

// TestHelmOnlyOne shows that nobody can make the plugin pin itself, or a DaemonSet that does not find its pods.
func TestHelmOnlyOne(t *testing.T) {
	daemonSet := mustTemplate(t, "podLabels: {team: a}")["DaemonSet"]
	want := map[string]any{"app.kubernetes.io/name": "nri-cpuset", "team": "a"}
	if diff := cmp.Diff(want, at(daemonSet, "spec", "template", "metadata", "labels")); diff != "" {
		t.Errorf("labels (-want +got):\n%s", diff)
	}
}

// TestHelmConfig takes settings through the chart to the plugin's own parser.
func TestHelmConfig(t *testing.T) {
	example := read(t, shipped+"/config-example.yaml")
	for _, tc := range []struct{ name, settings string }{
		{"the example", example},
		{"numbers", "cpuManagerPolicy: static\nsystemReserved: {cpu: 1, memory: 1073741824}\nreservedSystemCPUs: \"0\"\nauditInterval: 0\n"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			want, err := config.Parse([]byte(tc.settings), "db-1")
			if err != nil {
				t.Fatal(err)
			}
			values := "config:\n" + indent(tc.settings)
			if diff := cmp.Diff(want.String(), settings(t, mustTemplate(t, values))); diff != "" {
				t.Errorf("settings (-want +got):\n%s", diff)
			}
		})
	}
}

// TestHelmRefusals shows that a mistake is found before it is on a node.
func TestHelmRefusals(t *testing.T) {
	for _, tc := range []struct{ name, values, want string }{
		{"no such value", "imagee: {}", "imagee"},
		{"no such setting", "config: {cpuManagerPolice: static}", "/config"},
		{"a policy that there is not", "config: {cpuManagerPolicy: statik}", "/config/cpuManagerPolicy"},
		{"an option that is no string", "config: {cpuManagerPolicyOptions: {full-pcpus-only: true}}", "/config/cpuManagerPolicyOptions/full-pcpus-only"},
		{"nodes in nodes", "config: {nodes: [{names: [a], config: {nodes: []}}]}", "/config/nodes/0/config"},
		{"nodes without names", "config: {nodes: [{config: {}}]}", "names"},
		{"index", "nri: {pluginIndex: \"5\"}", "/nri/pluginIndex"},
		{"relative path", "stateDir: run", "/stateDir"},
		{"CPU limit", "resources: {limits: {cpu: 1}}", "/resources/limits"},
		{"digest", "image: {digest: sha256:1}", "/image/digest"},
		{"monitor without metrics", "podMonitor: {enabled: true}", "metrics.onNode: true"},
		{"rule without metrics", "prometheusRule: {enabled: true}", "metrics.onNode: true"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			_, err := template(t, tc.values)
			if err == nil {
				t.Fatal("accepted")
			}
			if !strings.Contains(err.Error(), tc.want) {
				t.Errorf("got %v, want it to name %s", err, tc.want)
			}
		})
	}
}

// TestHelmSchemaSettings compares the settings that the schema knows with those that there are.
func TestHelmSchemaSettings(t *testing.T) {
	var schema struct {
		Definitions struct {
			Settings struct{ Properties map[string]any }
		}
	}
	if err := json.Unmarshal([]byte(read(t, chart+"/values.schema.json")), &schema); err != nil {
		t.Fatal(err)
	}
	want := []string{"nodes"}
	for field := range reflect.TypeFor[config.Config]().Fields() {
		name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
		want = append(want, name)
	}
	slices.Sort(want)
	if diff := cmp.Diff(want, slices.Sorted(maps.Keys(schema.Definitions.Settings.Properties))); diff != "" {
		t.Errorf("settings (-config.Config +schema):\n%s", diff)
	}
}
