package kubepod

import (
	"testing"

	"github.com/containerd/nri/pkg/api"
	"github.com/google/go-cmp/cmp"
)

const gib = 1 << 30

func hugepages(oneGB, twoMB uint64) []*api.HugepageLimit {
	return []*api.HugepageLimit{{PageSize: "1GB", Limit: oneGB}, {PageSize: "2MB", Limit: twoMB}}
}

// What a plugin tells of a container it can tell from these numbers only, so that each is compared.
func TestContainerResources(t *testing.T) {
	type numbers struct {
		Shares      uint64
		Quota       *int64
		MemoryLimit *int64
		OOMScoreAdj int64
		Hugepages   []*api.HugepageLimit
	}
	pointer := func(v int64) *int64 { return &v }
	for _, test := range []struct {
		name      string
		runtime   Runtime
		container string
		want      numbers
	}{
		{
			"guaranteed, whole", Containerd, `{"name":"c","limits":{"cpu":"2","memory":"1Gi"}}`,
			numbers{2048, pointer(200000), pointer(gib), -997, hugepages(0, 0)},
		},
		{
			"guaranteed, fraction", Containerd, `{"name":"c","limits":{"cpu":"1500m","memory":"1Gi"}}`,
			numbers{1536, pointer(150000), pointer(gib), -997, hugepages(0, 0)},
		},
		{
			"guaranteed, huge pages", Containerd, `{"name":"c","limits":{"cpu":"2","memory":"1Gi","hugepages-2Mi":"64Mi","hugepages-1Gi":"2Gi"}}`,
			numbers{2048, pointer(200000), pointer(gib), -997, hugepages(2*gib, 64<<20)},
		},
		{
			"best effort", Containerd, `{"name":"c"}`,
			numbers{2, nil, nil, 1000, hugepages(0, 0)},
		},
		{
			"best effort on CRI-O, which writes a quota of 0", CRIO, `{"name":"c"}`,
			numbers{2, pointer(0), nil, 1000, hugepages(0, 0)},
		},
		{
			"burstable, request only", Containerd, `{"name":"c","requests":{"cpu":"250m","memory":"16Gi"}}`,
			numbers{256, nil, nil, 750, hugepages(0, 0)},
		},
		{
			"burstable, no memory asked", Containerd, `{"name":"c","requests":{"cpu":"1"}}`,
			numbers{1024, nil, nil, 999, hugepages(0, 0)},
		},
		{
			"burstable, all memory asked", Containerd, `{"name":"c","requests":{"memory":"64Gi"}}`,
			numbers{2, nil, nil, 3, hugepages(0, 0)},
		},
		{
			"smallest quota", Containerd, `{"name":"c","limits":{"cpu":"1m"}}`,
			numbers{2, pointer(1000), nil, 999, hugepages(0, 0)},
		},
		{
			"more CPUs than shares can say", Containerd, `{"name":"c","limits":{"cpu":"300","memory":"1Gi"}}`,
			numbers{262144, pointer(30000000), pointer(gib), -997, hugepages(0, 0)},
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			n := Node{Runtime: test.runtime, MemoryBytes: 64 * gib}
			p := parse(t, `{"name":"p","containers":[`+test.container+`]}`)
			linux := n.Container(p, &p.Containers[0], n.Sandbox(p, "sandbox"), "container", 0).GetLinux()
			r := linux.GetResources()
			got := numbers{Shares: r.GetCpu().GetShares().GetValue(), OOMScoreAdj: linux.GetOomScoreAdj().GetValue(), Hugepages: r.GetHugepageLimits()}
			if q := r.GetCpu().GetQuota(); q != nil {
				got.Quota = pointer(q.GetValue())
			}
			if m := r.GetMemory().GetLimit(); m != nil {
				got.MemoryLimit = pointer(m.GetValue())
			}
			if diff := cmp.Diff(test.want, got, cmp.Comparer(sameLimit)); diff != "" {
				t.Errorf("resources differ (-want +got):\n%s", diff)
			}
			if got, want := r.GetCpu().GetPeriod().GetValue(), uint64(100000); got != want {
				t.Errorf("period = %d, want %d", got, want)
			}
			if cpus, mems := r.GetCpu().GetCpus(), r.GetCpu().GetMems(); cpus != "" || mems != "" {
				t.Errorf("cpuset = %q, %q, want none: the kubelet leaves it to the plugin", cpus, mems)
			}
		})
	}
}

func sameLimit(a, b *api.HugepageLimit) bool {
	return a.GetPageSize() == b.GetPageSize() && a.GetLimit() == b.GetLimit()
}

func TestSidecarOOMScore(t *testing.T) {
	p := parse(t, `{"name":"p",
		"initContainers":[{"name":"sidecar","restartPolicy":"Always","requests":{"memory":"1Gi"}},{"name":"init","requests":{"memory":"1Gi"}}],
		"containers":[{"name":"app","requests":{"memory":"32Gi"}}]}`)
	n := Node{MemoryBytes: 64 * gib}
	for i, want := range []int{500, 985, 500} { // 1000 - 1000*32/64 for the sidecar too; 1000 - 1000*1/64 for the init container
		if got := n.oomScoreAdj(p, p.Ordered()[i]); got != want {
			t.Errorf("oomScoreAdj(%s) = %d, want %d", p.Ordered()[i].Name, got, want)
		}
	}
}

func TestSandboxResources(t *testing.T) {
	for _, test := range []struct {
		name      string
		pod       string
		shares    uint64
		quota     int64
		memory    int64
		hugepages []*api.HugepageLimit
		exclusive string // the annotation; empty: none, the shares say it
	}{
		{
			"whole containers", `{"name":"p","containers":[{"name":"a","limits":{"cpu":"2","memory":"1Gi"}},{"name":"b","limits":{"cpu":"1","memory":"1Gi"}}]}`,
			3072, 300000, 2 * gib, nil, "",
		},
		{
			"a fraction that does not reach a CPU",
			`{"name":"p","containers":[{"name":"a","limits":{"cpu":"2","memory":"1Gi"}},{"name":"b","limits":{"cpu":"500m","memory":"1Gi"}}]}`,
			2560, 250000, 2 * gib, nil, "",
		},
		{
			"fractions that make a CPU", `{"name":"p","containers":[{"name":"a","limits":{"cpu":"2","memory":"1Gi"}},
			{"name":"b","limits":{"cpu":"500m","memory":"1Gi"}},{"name":"c","limits":{"cpu":"500m","memory":"1Gi"}}]}`,
			3072, 300000, 3 * gib, nil, "2",
		},
		{
			"fractions only", `{"name":"p","containers":[{"name":"a","limits":{"cpu":"1500m","memory":"1Gi"}}]}`,
			1536, 150000, gib, nil, "0",
		},
		{
			"an init container that needs more", `{"name":"p","initContainers":[{"name":"i","limits":{"cpu":"4","memory":"3Gi"}}],
			"containers":[{"name":"a","limits":{"cpu":"2","memory":"1Gi"}}]}`,
			4096, 400000, 3 * gib, nil, "",
		},
		{
			"a fractional init container that needs more", `{"name":"p","initContainers":[{"name":"i","limits":{"cpu":"3500m","memory":"3Gi"}}],
			"containers":[{"name":"a","limits":{"cpu":"2","memory":"1Gi"}}]}`,
			3584, 350000, 3 * gib, nil, "2",
		},
		{
			"more than shares can say", `{"name":"p","containers":[{"name":"a","limits":{"cpu":"300","memory":"1Gi"}}]}`,
			262144, 30000000, gib, nil, "300",
		},
		{
			"huge pages", `{"name":"p","containers":[{"name":"a","limits":{"cpu":"1","memory":"1Gi","hugepages-2Mi":"4Mi"}},
			{"name":"b","limits":{"cpu":"1","memory":"1Gi","hugepages-2Mi":"2Mi"}}]}`,
			2048, 200000, 2 * gib, hugepages(0, 6<<20), "",
		},
		{"best effort", `{"name":"p","containers":[{"name":"a"}]}`, 2, 0, 0, nil, ""},
		{"burstable", `{"name":"p","containers":[{"name":"a","requests":{"cpu":"2","memory":"1Gi"}}]}`, 2048, 0, 0, nil, ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			s := Node{}.Sandbox(parse(t, test.pod), "sandbox")
			r := s.GetLinux().GetPodResources()
			if got := r.GetCpu().GetShares().GetValue(); got != test.shares {
				t.Errorf("shares = %d, want %d", got, test.shares)
			}
			if got := r.GetCpu().GetQuota().GetValue(); got != test.quota {
				t.Errorf("quota = %d, want %d", got, test.quota)
			}
			if got := r.GetMemory().GetLimit().GetValue(); got != test.memory {
				t.Errorf("memory limit = %d, want %d", got, test.memory)
			}
			if diff := cmp.Diff(test.hugepages, r.GetHugepageLimits(), cmp.Comparer(sameLimit)); diff != "" {
				t.Errorf("huge pages differ (-want +got):\n%s", diff)
			}
			if got := s.GetAnnotations()[ExclusiveCPUs]; got != test.exclusive {
				t.Errorf("annotation %s = %q, want %q", ExclusiveCPUs, got, test.exclusive)
			}
		})
	}
}

func TestCgroups(t *testing.T) {
	const uid = "0a1b-2c3d"
	for _, test := range []struct {
		node      Node
		container string
		parent    string
		path      string
	}{
		{
			Node{},
			`{"name":"c","limits":{"cpu":"1","memory":"1Gi"}}`,
			"/kubepods/pod0a1b-2c3d", "/kubepods/pod0a1b-2c3d/id",
		},
		{
			Node{},
			`{"name":"c","requests":{"cpu":"1"}}`,
			"/kubepods/burstable/pod0a1b-2c3d", "/kubepods/burstable/pod0a1b-2c3d/id",
		},
		{
			Node{},
			`{"name":"c"}`,
			"/kubepods/besteffort/pod0a1b-2c3d", "/kubepods/besteffort/pod0a1b-2c3d/id",
		},
		{
			Node{Runtime: CRIO},
			`{"name":"c"}`,
			"/kubepods/besteffort/pod0a1b-2c3d", "/kubepods/besteffort/pod0a1b-2c3d/crio-id",
		},
		{
			Node{CgroupDriver: Systemd},
			`{"name":"c","limits":{"cpu":"1","memory":"1Gi"}}`,
			"/kubepods.slice/kubepods-pod0a1b_2c3d.slice", "kubepods-pod0a1b_2c3d.slice:cri-containerd:id",
		},
		{
			Node{CgroupDriver: Systemd},
			`{"name":"c","requests":{"cpu":"1"}}`,
			"/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod0a1b_2c3d.slice", "kubepods-burstable-pod0a1b_2c3d.slice:cri-containerd:id",
		},
		{
			Node{Runtime: CRIO, CgroupDriver: Systemd},
			`{"name":"c"}`,
			"/kubepods.slice/kubepods-besteffort.slice/kubepods-besteffort-pod0a1b_2c3d.slice", "kubepods-besteffort-pod0a1b_2c3d.slice:crio:id",
		},
	} {
		t.Run(test.path, func(t *testing.T) {
			p := parse(t, `{"name":"p","uid":"`+uid+`","containers":[`+test.container+`]}`)
			s := test.node.Sandbox(p, "sandbox")
			if got := s.GetLinux().GetCgroupParent(); got != test.parent {
				t.Errorf("cgroup parent = %q, want %q", got, test.parent)
			}
			c := test.node.Container(p, &p.Containers[0], s, "id", 0)
			if got := c.GetLinux().GetCgroupsPath(); got != test.path {
				t.Errorf("cgroups path = %q, want %q", got, test.path)
			}
		})
	}
}

func TestNames(t *testing.T) {
	p := parse(t, `{"name":"web","labels":{"app":"web"},"annotations":{"team":"a"},"containers":[{"name":"c"}]}`)
	n := Node{}
	s := n.Sandbox(p, "s1")
	c := n.Container(p, &p.Containers[0], s, "c1", 3)
	if again := n.Sandbox(p, "s2"); again.GetUid() != s.GetUid() || len(s.GetUid()) != 36 {
		t.Errorf("UIDs made from the name = %q and %q, want the same, of 36 characters", s.GetUid(), again.GetUid())
	}
	other := *p
	other.Namespace = "other"
	if n.Sandbox(&other, "s3").GetUid() == s.GetUid() {
		t.Errorf("pods of one name in two namespaces have the UID %q both", s.GetUid())
	}
	for _, test := range []struct{ what, got, want string }{
		{"namespace", s.GetNamespace(), "default"},
		{"pod label", s.GetLabels()["app"], "web"},
		{"pod annotation", s.GetAnnotations()["team"], "a"},
		{"pod's own name label", s.GetLabels()["io.kubernetes.pod.name"], "web"},
		{"container's pod", c.GetPodSandboxId(), "s1"},
		{"container's name", c.GetName(), "c"},
		{"container label", c.GetLabels()["io.kubernetes.container.name"], "c"},
		{"container's UID label", c.GetLabels()["io.kubernetes.pod.uid"], s.GetUid()},
		{"restart count", c.GetAnnotations()["io.kubernetes.container.restartCount"], "3"},
		{"the pod's annotations are not the container's", c.GetAnnotations()["team"], ""},
	} {
		if test.got != test.want {
			t.Errorf("%s = %q, want %q", test.what, test.got, test.want)
		}
	}
	if _, changed := p.Annotations["io.kubernetes.cri.sandbox-id"]; changed {
		t.Error("Sandbox wrote into the pod's own annotations")
	}
}
