package kubepod

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestParseManifests(t *testing.T) {
	text, err := os.ReadFile("testdata/manifests.yaml")
	if err != nil {
		t.Fatal(err)
	}
	pods, err := ParseManifests(text)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for i := range pods {
		p := &pods[i]
		var containers []string
		for _, c := range p.Ordered() {
			cpu := c.Request(resourceCPU)
			role := ""
			if c.Sidecar() {
				role = " sidecar"
			}
			containers = append(containers, fmt.Sprintf("%s %s%s", c.Name, cpu.String(), role))
		}
		got = append(got, fmt.Sprintf("%s/%s %s [%s]", p.namespace(), p.Name, p.QoS(), strings.Join(containers, ", ")))
	}
	want := []string{
		"default/database Guaranteed [schema 1, proxy 500m sidecar, postgres 4]",
		"shop/web-0 Burstable [nginx 250m]",
		"shop/web-1 Burstable [nginx 250m]",
		"default/agent-0 BestEffort [agent 0]",
		"default/one BestEffort [c 0]",
		"default/batch-0 Guaranteed [work 2]",
		"default/batch-1 Guaranteed [work 2]",
		"default/batch-2 Guaranteed [work 2]",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("pods differ (-want +got):\n%s", diff)
	}
}

func TestParseManifestsErrors(t *testing.T) {
	for _, test := range []struct {
		name string
		text string
		want string
	}{
		{"nothing", "", "no pod in the manifests"},
		{"comments only", "# a\n---\n# b\n", "no pod in the manifests"},
		{"no pods", "kind: Service\n---\nkind: ConfigMap\n", "[Service ConfigMap]"},
		{"no kind", "metadata: {name: a}\n", "manifest 1 has no kind"},
		{"no YAML", "kind: Service\n---\nkind: [\n", "manifest 2"},
		{"more replicas than a node could run", "kind: Deployment\nmetadata: {name: a}\nspec: {replicas: 100000}\n", "100000 pods"},
		{"no quantity", "kind: Pod\nmetadata: {name: a}\nspec: {containers: [{name: c, resources: {limits: {cpu: lots}}}]}\n", "quantities must match"},
		{"a pod that the API server would refuse", "kind: Pod\nmetadata: {name: a}\nspec: {containers: []}\n", `pod "a" has no containers`},
		{"in a template", "kind: DaemonSet\nmetadata: {name: a}\nspec: {template: {spec: {containers: [{}]}}}\n", `DaemonSet "a"`},
		{"resources of the pod itself", "kind: Pod\nmetadata: {name: a}\nspec: {resources: {limits: {cpu: 1}}, containers: [{name: c}]}\n", "spec.resources"},
	} {
		t.Run(test.name, func(t *testing.T) {
			pods, err := ParseManifests([]byte(test.text))
			if err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("ParseManifests() = %v, %v, want an error with %q", pods, err, test.want)
			}
		})
	}
}

func FuzzParseManifests(f *testing.F) {
	text, err := os.ReadFile("testdata/manifests.yaml")
	if err != nil {
		f.Fatal(err)
	}
	f.Add(text)
	f.Add([]byte("kind: Deployment\nmetadata: {name: a}\nspec: {replicas: -1, template: {spec: {containers: [{name: c}]}}}\n---\n--- # b\nkind: List"))
	f.Fuzz(func(t *testing.T, text []byte) {
		pods, err := ParseManifests(text)
		if (err == nil) != (len(pods) > 0) {
			t.Fatalf("ParseManifests() = %d pods and error %v, want either", len(pods), err)
		}
		for i := range pods {
			if err := pods[i].Check(); err != nil {
				t.Fatalf("a pod that Check refuses was let through: %v", err)
			}
		}
	})
}
