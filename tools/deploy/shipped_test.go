// Package deploy tests what deploy/ ships: the manifests, the chart and the alerts, with the code of the tools that read them.
package deploy

import (
	"bytes"
	"errors"
	"flag"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.yaml.in/yaml/v3"
)

const (
	shipped = "../../deploy"
	base    = shipped + "/kustomize/base"
)

var update = flag.Bool("update", false, "write the files anew that are made of others")

const quickStart = `# nri-cpuset on every node, and the one configuration of the cluster. As it stands it moves nobody: cpuManagerPolicy is none.
#
#   kubectl apply -f deploy/daemonset.yaml
#   kubectl -n nri-cpuset edit configmap nri-cpuset
#
# A change of the configuration is applied while running, within about a minute: that is how long the kubelet takes to bring it to the node.
#
# Made of deploy/kustomize/base by make docs.
`

const prometheusRule = `# The alerts of deploy/monitoring/alerts.yaml, as the Prometheus Operator wants them. Made by make docs.
apiVersion: monitoring.coreos.com/v1
kind: PrometheusRule
metadata:
  name: nri-cpuset
  namespace: nri-cpuset
  labels:
    app.kubernetes.io/name: nri-cpuset
spec:
`

// TestGenerated compares the files that are made of others with what they are made of.
func TestGenerated(t *testing.T) {
	alerts := read(t, shipped+"/monitoring/alerts.yaml")
	for file, want := range map[string]string{
		"daemonset.yaml": quickStart + resourcesOf(t, base),
		"kustomize/components/prometheus-operator/prometheusrule.yaml": prometheusRule + indent(alerts[strings.Index(alerts, "groups:"):]),
		"helm/nri-cpuset/files/alerts.yaml":                            alerts,
	} {
		path := filepath.Join(shipped, file)
		if *update {
			if err := os.WriteFile(path, []byte(want), 0o644); err != nil {
				t.Fatal(err)
			}
			continue
		}
		if diff := cmp.Diff(want, read(t, path)); diff != "" {
			t.Errorf("deploy/%s is not what it is made of; run make docs (-want +got):\n%s", file, diff)
		}
	}
}

// resourcesOf joins the files of a kustomization, which have no transformation to go through.
func resourcesOf(t *testing.T, dir string) string {
	t.Helper()
	var kustomization map[string]any
	if err := yaml.Unmarshal([]byte(read(t, filepath.Join(dir, "kustomization.yaml"))), &kustomization); err != nil {
		t.Fatal(err)
	}
	var texts []string
	for key, value := range kustomization {
		switch key {
		case "apiVersion", "kind":
		case "resources":
			for _, name := range value.([]any) {
				texts = append(texts, read(t, filepath.Join(dir, name.(string))))
			}
		default:
			t.Fatalf("%s has %s; joining its resources would leave that out", dir, key)
		}
	}
	return strings.Join(texts, "---\n")
}

func indent(text string) string {
	lines := strings.SplitAfter(text, "\n")
	for i, line := range lines {
		if strings.TrimSpace(line) != "" {
			lines[i] = "  " + line
		}
	}
	return strings.Join(lines, "")
}

func read(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// object is a Kubernetes object as its manifest has it.
type object = map[string]any

// objects reads manifests, by kind. None of ours has two of one kind.
func objects(t *testing.T, manifests []byte) map[string]object {
	t.Helper()
	all := map[string]object{}
	decoder := yaml.NewDecoder(bytes.NewReader(manifests))
	for {
		var o object
		err := decoder.Decode(&o)
		if errors.Is(err, io.EOF) {
			return all
		}
		if err != nil {
			t.Fatalf("%v in:\n%s", err, manifests)
		}
		if o == nil {
			continue // nothing but comments
		}
		kind := o["kind"].(string)
		if all[kind] != nil {
			t.Fatalf("two of kind %s", kind)
		}
		all[kind] = o
	}
}

// at follows keys, and indexes into lists; nil where there is nothing.
func at(value any, path ...any) any {
	for _, step := range path {
		switch v := value.(type) {
		case map[string]any:
			value = v[step.(string)]
		case []any:
			if i := step.(int); i < len(v) {
				value = v[i]
			} else {
				return nil
			}
		default:
			return nil
		}
	}
	return value
}

// container is the one container of a DaemonSet's pods.
func container(daemonSet object) any {
	return at(daemonSet, "spec", "template", "spec", "containers", 0)
}

// mounts tells, for each mount of the container, what of the node it shows: the host's path, or the kind of volume.
func mounts(daemonSet object) map[string]string {
	sources := map[any]string{}
	volumes, _ := at(daemonSet, "spec", "template", "spec", "volumes").([]any)
	for _, v := range volumes {
		for kind := range v.(map[string]any) {
			if kind != "name" {
				sources[at(v, "name")] = kind
			}
		}
		if path, ok := at(v, "hostPath", "path").(string); ok {
			sources[at(v, "name")] = path
		}
	}
	all := map[string]string{}
	list, _ := at(container(daemonSet), "volumeMounts").([]any)
	for _, m := range list {
		mode := "rw"
		if at(m, "readOnly") == true {
			mode = "ro"
		}
		all[at(m, "mountPath").(string)] = sources[at(m, "name")] + " " + mode
	}
	return all
}
