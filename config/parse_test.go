package config

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"nri-cpuset/allocator"
	"nri-cpuset/topology/cpuset"
)

// cluster is a file for several kinds of nodes.
const cluster = `
cpuManagerPolicy: static
cpuManagerPolicyOptions: {full-pcpus-only: "true", strict-cpu-reservation: "true"}
systemReserved: {cpu: 500m, memory: 1Gi}
nodes:
- names: ["edge-*", lab-7]
  config:
    cpuManagerPolicy: none
    cpuManagerPolicyOptions: {}
- names: ["db-*"]
  config:
    cpuManagerPolicyOptions: {align-by-socket: "true"}
    reservedSystemCPUs: 0-1,32-33
    systemReserved:
- names: [db-1]
  config: {exclusiveScope: container}
`

func TestParse(t *testing.T) {
	// with returns the defaults with one change, which is all that each case shows.
	with := func(change func(*Config)) *Config {
		c := Default()
		change(c)
		return c
	}
	everything := &Config{
		CPUManagerPolicy:                 allocator.CPUManagerStatic,
		CPUManagerPolicyOptions:          map[string]string{"distribute-cpus-across-numa": "true", "align-by-socket": "0"},
		KubeReserved:                     map[string]string{"cpu": "1500m", "memory": "500Mi", "ephemeral-storage": "1Gi", "pid": "1000"},
		SystemReserved:                   map[string]string{"cpu": "1"},
		ReservedSystemCPUs:               cpuset.MustParse("0-1,32-33"),
		MemoryManagerPolicy:              allocator.MemoryManagerStatic,
		ReservedMemory:                   []MemoryReservation{{NUMANode: 1, Limits: map[string]string{"memory": "1Gi", "hugepages-2Mi": "64Mi"}}},
		TopologyManagerPolicy:            allocator.TopologyManagerRestricted,
		TopologyManagerScope:             allocator.ScopePod,
		TopologyManagerPolicyOptions:     map[string]string{"prefer-closest-numa-nodes": "true", "max-allowable-numa-nodes": "16"},
		ExclusiveScope:                   ExclusiveScopeContainer,
		IsolatedCPUs:                     allocator.IsolatedExclusive,
		DisableCPUQuotaWithExclusiveCPUs: false,
		AuditInterval:                    Duration(90 * time.Second),
		IgnoredPods:                      []PodSelector{{Namespaces: []string{"kube-*"}}, {Namespaces: []string{"a", "b"}, Labels: map[string]string{"pin": "no"}}},
		PodAnnotations:                   []PodAnnotation{},
	}
	for _, test := range []struct {
		name string
		text string
		node string
		want *Config
	}{
		{"nothing gives the defaults", "", "", Default()},
		{"comments give the defaults", "# cpuManagerPolicy: static\n---\n", "", Default()},
		{"every setting", `
cpuManagerPolicy: static
cpuManagerPolicyOptions: {distribute-cpus-across-numa: "true", align-by-socket: "0"}
kubeReserved: {cpu: 1500m, memory: 500Mi, ephemeral-storage: 1Gi, pid: "1000"}
systemReserved: {cpu: "1"}
reservedSystemCPUs: 0-1,32,33
memoryManagerPolicy: Static
reservedMemory: [{numaNode: 1, limits: {memory: 1Gi, hugepages-2Mi: 64Mi}}]
topologyManagerPolicy: restricted
topologyManagerScope: pod
topologyManagerPolicyOptions: {prefer-closest-numa-nodes: "true", max-allowable-numa-nodes: "16"}
exclusiveScope: container
isolatedCPUs: exclusive
disableCPUQuotaWithExclusiveCPUs: false
auditInterval: 1m30s
ignoredPods:
- namespaces: ["kube-*"]
- {namespaces: [a, b], labels: {pin: "no"}}
podAnnotations: []
`, "", everything},
		{
			"JSON, as in a scenario", `{"cpuManagerPolicy":"static","systemReserved":{"cpu":"2"},` + "\n\t" + `"reservedMemory":[{"numaNode":0,"limits":{"memory":"1Gi"}}]}`, "",
			with(func(c *Config) {
				c.CPUManagerPolicy = allocator.CPUManagerStatic
				c.SystemReserved = map[string]string{"cpu": "2"}
				c.ReservedMemory = []MemoryReservation{{Limits: map[string]string{"memory": "1Gi"}}}
			}),
		},
		{
			"null and the empty word are the default, as in the kubelet",
			"cpuManagerPolicy: \"\"\ntopologyManagerScope: null\nkubeReserved:\nauditInterval:\nreservedSystemCPUs: \"\"\n", "", Default(),
		},
		{
			"an amount may be a number", "kubeReserved: {cpu: 1}\nsystemReserved: {cpu: 0.5}", "",
			with(func(c *Config) {
				c.KubeReserved = map[string]string{"cpu": "1"}
				c.SystemReserved = map[string]string{"cpu": "0.5"}
			}),
		},
		{"no audit", "auditInterval: 0", "", with(func(c *Config) { c.AuditInterval = 0 })},
		{"nobody ignored", "ignoredPods: []", "", with(func(c *Config) { c.IgnoredPods = []PodSelector{} })},
		{
			"a node that no entry names has the top level", cluster, "web-1",
			with(func(c *Config) {
				c.CPUManagerPolicy = allocator.CPUManagerStatic
				c.CPUManagerPolicyOptions = map[string]string{"full-pcpus-only": "true", "strict-cpu-reservation": "true"}
				c.SystemReserved = map[string]string{"cpu": "500m", "memory": "1Gi"}
			}),
		},
		{
			"an override replaces what it names and leaves the rest", cluster, "edge-12",
			with(func(c *Config) { c.SystemReserved = map[string]string{"cpu": "500m", "memory": "1Gi"} }),
		},
		{
			"the first match wins, and null is the kubelet's default, not the top level's value", cluster, "db-1",
			with(func(c *Config) {
				c.CPUManagerPolicy = allocator.CPUManagerStatic
				c.CPUManagerPolicyOptions = map[string]string{"align-by-socket": "true"}
				c.ReservedSystemCPUs = cpuset.MustParse("0-1,32-33")
			}),
		},
		{
			"nodes may stand before what it overrides", "nodes: [{names: [a], config: {isolatedCPUs: ignore}}]\nisolatedCPUs: exclusive\nexclusiveScope: container", "a",
			with(func(c *Config) {
				c.IsolatedCPUs = allocator.IsolatedIgnore
				c.ExclusiveScope = ExclusiveScopeContainer
			}),
		},
		{"an entry that exempts nodes", `nodes: [{names: [a], config: {}}, {names: ["*"], config: {isolatedCPUs: ignore}}]`, "a", Default()},
	} {
		t.Run(test.name, func(t *testing.T) {
			got, err := Parse([]byte(test.text), test.node)
			if err != nil {
				t.Fatalf("Parse: %v", err)
			}
			if diff := cmp.Diff(test.want, got, exact); diff != "" {
				t.Errorf("settings (-want +got):\n%s", diff)
			}
			again, err := Parse([]byte(got.String()), "")
			if err != nil {
				t.Fatalf("Parse of String:\n%s\n%v", got, err)
			}
			if diff := cmp.Diff(got.String(), again.String()); diff != "" {
				t.Errorf("String after String and Parse (-want +got):\n%s", diff)
			}
		})
	}
}

// exact lets cmp compare sets by what is in them.
var exact = cmp.Comparer(func(a, b cpuset.Set) bool { return a.Equal(b) })

func TestParseErrors(t *testing.T) {
	for _, test := range []struct {
		name string
		text string
		want []Error
	}{
		{"a brace that is not closed", "cpuManagerPolicy: static\nkubeReserved: {cpu: 1\nexclusiveScope: pod\n", []Error{
			{Line: 2, Message: "not YAML: did not find expected ',' or '}'"},
		}},
		{"a list that ends in a mapping", "\n\n- a: b\nc: d\n", []Error{{Line: 3, Message: "not YAML: did not find expected '-' indicator"}}},
		{"a key that is indented wrongly", "exclusiveScope: pod\n  isolatedCPUs: ignore\n", []Error{
			{Line: 2, Message: "not YAML: mapping values are not allowed in this context"},
		}},
		{"a tab", "kubeReserved:\n\tcpu: 1\n", []Error{{Line: 2, Message: "not YAML: found character that cannot start any token"}}},
		{"an anchor that is not there", "kubeReserved: *a", []Error{{Message: "not YAML: unknown anchor 'a' referenced"}}},
		{"no UTF-8", "\xff", []Error{{Message: "not YAML: invalid leading UTF-8 octet"}}},
		{"two documents", "---\nexclusiveScope: pod\n---\nexclusiveScope: pod\n", []Error{
			{Line: 3, Message: "a second YAML document begins here: put everything in one"},
		}},
		{"a list", "- cpuManagerPolicy: static", []Error{{Line: 1, Message: "want a mapping, got a list"}}},
		{"unknown field", "exclusiveScope: pod\ncpuManager: static\n", []Error{
			{Line: 2, Field: "cpuManager", Message: "unknown field: known are auditInterval, cpuManagerPolicy, cpuManagerPolicyOptions, " +
				"disableCPUQuotaWithExclusiveCPUs, exclusiveScope, ignoredPods, isolatedCPUs, kubeReserved, memoryManagerPolicy, nodes, podAnnotations, reservedMemory, " +
				"reservedSystemCPUs, systemReserved, topologyManagerPolicy, topologyManagerPolicyOptions, topologyManagerScope"},
		}},
		{"misspelt field", "reservedSystemCpus: 0-1", []Error{
			{Line: 1, Field: "reservedSystemCpus", Message: "unknown field: it is written reservedSystemCPUs"},
		}},
		{"a whole KubeletConfiguration", "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\ncpuManagerPolicy: static\ncpuManagerReconcilePeriod: 5s\n", []Error{
			{Line: 1, Field: "apiVersion", Message: "unknown field: this file is no Kubernetes object; leave apiVersion and kind out"},
			{Line: 2, Field: "kind", Message: "unknown field: this file is no Kubernetes object; leave apiVersion and kind out"},
			{Line: 4, Field: "cpuManagerReconcilePeriod", Message: "unknown field: only the kubelet has it; auditInterval comes nearest here"},
		}},
		{"a field twice", "exclusiveScope: pod\nisolatedCPUs: ignore\nexclusiveScope: container\n", []Error{
			{Line: 3, Field: "exclusiveScope", Message: "is here twice, first in line 1"},
		}},
		{"an option twice", "cpuManagerPolicyOptions:\n  align-by-socket: \"true\"\n  align-by-socket: \"false\"\n", []Error{
			{Line: 3, Field: "cpuManagerPolicyOptions.align-by-socket", Message: "is here twice, first in line 2"},
		}},
		{"a key that is no name", "1: static", []Error{{Line: 1, Message: `want a string, got 1: put it in quotes, "1"`}}},
		{"a merged mapping", "kubeReserved: &a {cpu: \"1\"}\nsystemReserved:\n  <<: *a\n", []Error{
			{Line: 3, Field: "systemReserved", Message: "want a string, got <<"},
		}},
		{"an alias", "kubeReserved: &a {cpu: \"1\"}\nsystemReserved: *a\n", []Error{
			{Line: 2, Field: "systemReserved", Message: "want a mapping, got an alias; anchors and aliases are not read here, write the value itself"},
		}},

		{"unknown policy", "cpuManagerPolicy: Static", []Error{{Line: 1, Field: "cpuManagerPolicy", Message: `"Static" is none of none, static`}}},
		{"a policy that is a number", "topologyManagerPolicy: 3", []Error{
			{Line: 1, Field: "topologyManagerPolicy", Message: `want a string, got 3: put it in quotes, "3"`},
		}},
		{"a policy that is a list", "topologyManagerScope: [pod]", []Error{{Line: 1, Field: "topologyManagerScope", Message: "want a string, got a list"}}},
		{"unknown option", "cpuManagerPolicyOptions:\n  full-pcpus: \"true\"", []Error{
			{Line: 2, Field: "cpuManagerPolicyOptions.full-pcpus", Message: "unknown option; known are align-by-socket, distribute-cpus-across-cores, " +
				"distribute-cpus-across-numa, full-pcpus-only, prefer-align-cpus-by-uncorecache, strict-cpu-reservation"},
		}},
		{"an option that is no string", "cpuManagerPolicyOptions:\n  full-pcpus-only: true", []Error{
			{Line: 2, Field: "cpuManagerPolicyOptions.full-pcpus-only", Message: `want a string, got true: put it in quotes, "true"`},
		}},
		{"an option that is no boolean", "cpuManagerPolicyOptions: {full-pcpus-only: \"yes\"}", []Error{
			{Line: 1, Field: "cpuManagerPolicyOptions.full-pcpus-only", Message: `"yes" is neither "true" nor "false"`},
		}},
		{"topology manager options", "topologyManagerPolicyOptions: {max-allowable-numa-nodes: \"4\", prefer-closest-numa-nodes: \"4\", prefer: \"\"}", []Error{
			{Line: 1, Field: "topologyManagerPolicyOptions.max-allowable-numa-nodes", Message: `"4" is no whole number of at least 8`},
			{Line: 1, Field: "topologyManagerPolicyOptions.prefer-closest-numa-nodes", Message: `"4" is neither "true" nor "false"`},
			{Line: 1, Field: "topologyManagerPolicyOptions.prefer", Message: "unknown option; known are max-allowable-numa-nodes, prefer-closest-numa-nodes"},
		}},

		{"reservations", "kubeReserved:\n  cpu: 1 core\n  gpu: \"1\"\nsystemReserved: {cpu: \"-1\", memory: [1Gi]}\n", []Error{
			{Line: 2, Field: "kubeReserved.cpu", Message: `"1 core" is no amount: write it as in 500m or 1Gi`},
			{Line: 3, Field: "kubeReserved.gpu", Message: "unknown resource; known are cpu, memory, ephemeral-storage, pid"},
			{Line: 4, Field: "systemReserved.cpu", Message: `"-1" is less than nothing`},
			{Line: 4, Field: "systemReserved.memory", Message: "want an amount, as in 500m or 1Gi, got a list"},
		}},
		{"more CPUs than there can be", "systemReserved: {cpu: 1Gi}", []Error{
			{Line: 1, Field: "systemReserved.cpu", Message: "1Gi CPUs are more than Linux can have, which is 8192"},
		}},
		{"amounts that nobody can compute", "kubeReserved:\n  cpu: 1e2147483647\n  memory: 1e-99\n  pid: " + strings.Repeat("1", 65) + "\n  ephemeral-storage: 1Ei", []Error{
			{Line: 2, Field: "kubeReserved.cpu", Message: `"1e2147483647" is no amount: write it as in 500m or 1Gi`},
			{Line: 3, Field: "kubeReserved.memory", Message: `"1e-99" is no amount: write it as in 500m or 1Gi`},
			{Line: 4, Field: "kubeReserved.pid", Message: `"` + strings.Repeat("1", 64) + `..." is no amount: write it as in 500m or 1Gi`},
		}},
		{"CPUs that are a number", "reservedSystemCPUs: 1", []Error{
			{Line: 1, Field: "reservedSystemCPUs", Message: `want a string, got 1: put it in quotes, "1"`},
		}},
		{"CPUs that are no list", "reservedSystemCPUs: 0-1,x", []Error{
			{Line: 1, Field: "reservedSystemCPUs", Message: `"0-1,x" is not a CPU list: "x": "x" is no number`},
		}},
		{"reserved memory", `reservedMemory:
- {numaNode: 0, limits: {memory: 1Gi, hugepages-2Mi: 2Mi}}
- numaNode: 0
  limits: {memory: 1Gi}
- {numaNode: -1, limits: {memory: 0}}
- {numaNode: "0", limits: {memroy: 1Gi, hugepages-1e2147483647: 1Gi}}
- {limits: {memory: 1Gi}}
- {numaNode: 1}
`, []Error{
			{Line: 3, Field: "reservedMemory[1]", Message: "memory of NUMA node 0 is in an entry before this one"},
			{Line: 5, Field: "reservedMemory[2].numaNode", Message: "-1 is no NUMA node's number"},
			{Line: 5, Field: "reservedMemory[2].limits.memory", Message: "nothing is reserved: leave it out or give an amount, as in 1Gi"},
			{Line: 6, Field: "reservedMemory[3].numaNode", Message: `want a whole number, got the string "0"`},
			{Line: 6, Field: "reservedMemory[3].limits.memroy", Message: "unknown resource; known are memory and hugepages-SIZE, as in hugepages-2Mi"},
			{Line: 6, Field: "reservedMemory[3].limits.hugepages-1e2147483647", Message: `"1e2147483647" is no page size; they are written as in hugepages-2Mi`},
			{Line: 7, Field: "reservedMemory[4]", Message: "reserves nothing: give numaNode: 0, limits: {memory: 1Gi}"},
			{Line: 8, Field: "reservedMemory[5]", Message: "reserves nothing: give numaNode: 0, limits: {memory: 1Gi}"},
		}},

		{"a boolean that is a string", "disableCPUQuotaWithExclusiveCPUs: \"false\"", []Error{
			{Line: 1, Field: "disableCPUQuotaWithExclusiveCPUs", Message: `want true or false, got the string "false"`},
		}},
		{"audit without a unit", "auditInterval: 30", []Error{{Line: 1, Field: "auditInterval", Message: "want a duration, as in 30s, or 0, got 30"}}},
		{"audit that is no time", "auditInterval: soon", []Error{
			{Line: 1, Field: "auditInterval", Message: `"soon" is no duration: write it as in 30s, or 0 for never`},
		}},
		{"audit without pause", "auditInterval: 10ms", []Error{
			{Line: 1, Field: "auditInterval", Message: `"10ms" is shorter than 1s: give at least that, or 0 for never`},
		}},
		{"ignored pods", "ignoredPods:\n- {}\n- {namespaces: [\"[\"], labels: {app.kubernetes.io/name: 1}}\n", []Error{
			{Line: 2, Field: "ignoredPods[0]", Message: `would mean every pod: give namespaces: ["NAME"] or labels: {KEY: VALUE}, or both`},
			{Line: 3, Field: "ignoredPods[1].namespaces[0]", Message: `"[" is no pattern: write a name, with *, ? or [abc] where it varies`},
			{Line: 3, Field: `ignoredPods[1].labels["app.kubernetes.io/name"]`, Message: `want a string, got 1: put it in quotes, "1"`},
		}},

		{"an override that no node here uses", "nodes:\n- names: [elsewhere]\n  config:\n    cpuManagerPolicy: dynamic\n    reservedsystemcpus: 0-1\n", []Error{
			{Line: 4, Field: "nodes[0].config.cpuManagerPolicy", Message: `"dynamic" is none of none, static`},
			{Line: 5, Field: "nodes[0].config.reservedsystemcpus", Message: "unknown field: it is written reservedSystemCPUs"},
		}},
		{"nodes that are none", "nodes:\n- config: {}\n- names: [a]\n- names: [\"\", \"[\"]\n  config: {}\n- b\n- {name: a}\n", []Error{
			{Line: 2, Field: "nodes[0]", Message: `names no node: give names: ["NAME", "PREFIX-*"]`},
			{Line: 3, Field: "nodes[1]", Message: "has no config: give what is different on these nodes, or config: {} where nothing is"},
			{Line: 4, Field: "nodes[2].names[0]", Message: `an empty name matches nothing: write "*" for every name`},
			{Line: 4, Field: "nodes[2].names[1]", Message: `"[" is no pattern: write a name, with *, ? or [abc] where it varies`},
			{Line: 6, Field: "nodes[3]", Message: `want a mapping, got the string "b"`},
			{Line: 7, Field: "nodes[4].name", Message: "unknown field: known are config, names"},
		}},
		{"nodes that are no list", "nodes: {names: [a]}", []Error{{Line: 1, Field: "nodes", Message: "want a list, got a mapping"}}},
		{"a long text from the file is cut", "exclusiveScope: " + strings.Repeat("x", 1000), []Error{
			{Line: 1, Field: "exclusiveScope", Message: `"` + strings.Repeat("x", 64) + `..." is none of pod, container`},
		}},
	} {
		t.Run(test.name, func(t *testing.T) {
			c, err := Parse([]byte(test.text), "")
			if c != nil {
				t.Errorf("Parse gave settings beside its error:\n%s", c)
			}
			var want []string
			for _, e := range test.want {
				want = append(want, e.Error())
			}
			if diff := cmp.Diff(strings.Join(want, "\n"), fmt.Sprint(err)); diff != "" {
				t.Errorf("errors (-want +got):\n%s", diff)
			}
			if _, ok := errors.AsType[*Error](err); !ok {
				t.Errorf("%v is no *Error", err)
			}
		})
	}
}

func TestParseTellsTheFirstErrors(t *testing.T) {
	_, err := Parse([]byte(strings.Repeat("exclusiveScope: pod\n", 100)), "")
	lines := strings.Split(fmt.Sprint(err), "\n")
	if len(lines) != maxErrors+1 {
		t.Fatalf("got %d lines, want %d", len(lines), maxErrors+1)
	}
	if want := "line 2: exclusiveScope: is here twice, first in line 1"; lines[0] != want {
		t.Errorf("first line: got %q, want %q", lines[0], want)
	}
	if want := "79 more are not shown"; lines[maxErrors] != want {
		t.Errorf("last line: got %q, want %q", lines[maxErrors], want)
	}
}

func TestLoad(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o750); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}

	t.Run("the node's settings", func(t *testing.T) {
		got, err := Load(write("cluster.yaml", cluster), "db-7")
		if err != nil {
			t.Fatal(err)
		}
		if want := cpuset.MustParse("0-1,32-33"); !got.ReservedSystemCPUs.Equal(want) {
			t.Errorf("reservedSystemCPUs: got %s, want %s", got.ReservedSystemCPUs, want)
		}
	})
	t.Run("an error names the file and the line", func(t *testing.T) {
		path := write("bad.yaml", "\nexclusiveScope: node\n")
		_, err := Load(path, "")
		if want := path + `:2: exclusiveScope: "node" is none of pod, container`; fmt.Sprint(err) != want {
			t.Errorf("got %v, want %s", err, want)
		}
	})
	t.Run("too large", func(t *testing.T) {
		path := write("large.yaml", strings.Repeat("#", maxSize+1))
		_, err := Load(path, "")
		_, ok := errors.AsType[*Error](err)
		if want := path + ": larger than 1048576 bytes, which is the most that a ConfigMap holds"; !ok || err.Error() != want {
			t.Errorf("got %v, want %s", err, want)
		}
	})
	for name, path := range map[string]string{"a file that is not there": filepath.Join(dir, "absent.yaml"), "a directory": dir} {
		t.Run(name+" is no fault of its text", func(t *testing.T) {
			_, err := Load(path, "")
			if _, ok := errors.AsType[*Error](err); err == nil || ok || !strings.Contains(err.Error(), path) {
				t.Errorf("got %v, want an error that names %s and is no *Error", err, path)
			}
		})
	}
	t.Run("while a ConfigMap changes", func(t *testing.T) {
		// As the kubelet mounts one: config.yaml -> ..data/config.yaml, ..data -> ..1, and a change renames a new ..data over the old.
		padding := strings.Repeat("# much to read\n", 4096)
		write("..1/config.yaml", padding+"auditInterval: 1s\nexclusiveScope: pod\n")
		write("..2/config.yaml", padding+"auditInterval: 2s\nexclusiveScope: container\n")
		path := filepath.Join(dir, "config.yaml")
		point := func(version string) {
			if err := os.Symlink(version, filepath.Join(dir, "..data_tmp")); err != nil {
				t.Error(err)
			}
			if err := os.Rename(filepath.Join(dir, "..data_tmp"), filepath.Join(dir, "..data")); err != nil {
				t.Error(err)
			}
		}
		point("..1")
		if err := os.Symlink("..data/config.yaml", path); err != nil {
			t.Fatal(err)
		}
		const swaps = 50
		done := make(chan struct{})
		go func() {
			defer close(done)
			for i := range swaps {
				point([]string{"..2", "..1"}[i%2])
			}
		}()
		scopes := map[Duration]ExclusiveScope{Duration(time.Second): ExclusiveScopePod, Duration(2 * time.Second): ExclusiveScopeContainer}
		for loads, swapping := 0, true; swapping || loads < swaps; loads++ {
			select {
			case <-done:
				swapping = false
			default:
			}
			c, err := Load(path, "")
			if err != nil {
				t.Fatal(err)
			}
			if c.ExclusiveScope != scopes[c.AuditInterval] {
				t.Fatalf("auditInterval of one file and exclusiveScope %s of the other", c.ExclusiveScope)
			}
		}
	})
}

func FuzzParse(f *testing.F) {
	f.Add([]byte(cluster))
	f.Add([]byte(`{"cpuManagerPolicy":"static","systemReserved":{"cpu":"2"}}`))
	f.Add([]byte("reservedMemory: [{numaNode: 0, limits: {memory: 1Gi, hugepages-2Mi: 64Mi}}]\nauditInterval: 0"))
	f.Add([]byte("ignoredPods: [{namespaces: [\"kube-*\"], labels: {a/b: c}}]\n---\n"))
	f.Add([]byte("kubeReserved: {cpu: 1e2147483647, memory: 1E}\nsystemReserved: {cpu: 1e-2147483647}\n"))
	f.Add([]byte("kubeReserved: &a {cpu: 1}\nsystemReserved: *a\n"))
	f.Fuzz(func(t *testing.T, text []byte) {
		c, err := Parse(text, "db-1")
		if err != nil {
			if _, ok := errors.AsType[*Error](err); c != nil || !ok {
				t.Fatalf("settings %v beside the error %v", c, err)
			}
			return
		}
		if _, err := c.Policy(); err != nil {
			t.Errorf("Policy of settings that Parse took: %v\n%s", err, c)
		}
		again, err := Parse([]byte(c.String()), "")
		if err != nil {
			t.Fatalf("Parse of String: %v\n%s", err, c)
		}
		if again.String() != c.String() {
			t.Errorf("String gives\n%s\nParse makes of it\n%s", c, again)
		}
	})
}
