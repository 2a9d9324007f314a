package plugin

import (
	"strings"
	"testing"

	"github.com/containerd/nri/pkg/api"
	"github.com/google/go-cmp/cmp"

	"nri-cpuset/allocator"
	"nri-cpuset/config"
	"nri-cpuset/state"
	"nri-cpuset/topology/cpuset"
)

func resources(shares uint64, quota int64, memory int64) *api.LinuxResources {
	r := &api.LinuxResources{Cpu: &api.LinuxCPU{Shares: api.UInt64(shares)}, Memory: &api.LinuxMemory{Limit: api.Int64(memory)}}
	if quota != 0 {
		r.Cpu.Quota, r.Cpu.Period = api.Int64(quota), api.UInt64(100000)
	}
	return r
}

func podIn(cgroupParent string) *api.PodSandbox {
	return &api.PodSandbox{Id: "sandbox", Uid: "uid", Name: "pod", Namespace: "default", Linux: &api.LinuxPodSandbox{CgroupParent: cgroupParent}}
}

const (
	guaranteed = "/kubepods/poduid"
	burstable  = "/kubepods/burstable/poduid"
)

func TestDemandOf(t *testing.T) {
	for _, test := range []struct {
		name      string
		parent    string
		r         *api.LinuxResources
		want      state.Demand
		wantWhole int
	}{
		{
			"a whole request", guaranteed, resources(4096, 400000, 1<<30),
			state.Demand{Guaranteed: true, MilliCPU: 4000, LimitMilliCPU: 4000, Memory: allocator.Memory{"memory": 1 << 30}, Quota: 400000, Period: 100000},
			4,
		},
		{
			"systemd's names", "kubepods-pod1_2.slice", resources(2048, 200000, 1<<30),
			state.Demand{Guaranteed: true, MilliCPU: 2000, LimitMilliCPU: 2000, Memory: allocator.Memory{"memory": 1 << 30}, Quota: 200000, Period: 100000},
			2,
		},
		{
			"a thousandth more than whole", guaranteed, resources(1025, 100100, 1<<30),
			state.Demand{Guaranteed: true, MilliCPU: 1001, LimitMilliCPU: 1001, Memory: allocator.Memory{"memory": 1 << 30}, Quota: 100100, Period: 100000},
			0,
		},
		{
			"quotas are off in the kubelet", guaranteed, resources(3072, 0, 1<<30),
			state.Demand{Guaranteed: true, MilliCPU: 3000, LimitMilliCPU: 3000, Memory: allocator.Memory{"memory": 1 << 30}},
			3,
		},
		{
			"quotas are off, and a fraction", guaranteed, resources(1025, 0, 1<<30),
			state.Demand{Guaranteed: true, MilliCPU: 1001, LimitMilliCPU: 1001, Memory: allocator.Memory{"memory": 1 << 30}},
			0,
		},
		{
			"more than shares can say", guaranteed, resources(262144, 30000000, 1<<30),
			state.Demand{Guaranteed: true, MilliCPU: 300000, LimitMilliCPU: 300000, Memory: allocator.Memory{"memory": 1 << 30}, Quota: 30000000, Period: 100000},
			300,
		},
		{
			"Burstable, request equals limit", burstable, resources(2048, 200000, 1<<30),
			state.Demand{MilliCPU: 2000, LimitMilliCPU: 2000, Quota: 200000, Period: 100000},
			2,
		},
		{
			"Burstable, request below limit", burstable, resources(1024, 200000, 1<<30),
			state.Demand{MilliCPU: 1000, LimitMilliCPU: 2000, Quota: 200000, Period: 100000},
			0,
		},
		{"BestEffort", "/kubepods/besteffort/poduid", resources(2, 0, 0), state.Demand{}, 0},
		{"no Kubernetes pod", "/system.slice", resources(1024, 0, 0), state.Demand{MilliCPU: 1000}, 0},
		{"nothing at all", guaranteed, nil, state.Demand{Guaranteed: true, Memory: allocator.Memory{}}, 0},
		{
			"absurd numbers", burstable, resources(1<<63, 1<<62, -1),
			state.Demand{MilliCPU: 256000, Quota: 1 << 62, Period: 100000},
			0,
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			got := demandOf(podIn(test.parent), test.r, assignment{})
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("demandOf (-want +got):\n%s", diff)
			}
			if whole := got.WholeCPUs(); whole != test.wantWhole {
				t.Errorf("WholeCPUs = %d, want %d", whole, test.wantWhole)
			}
		})
	}
}

// Every request that Kubernetes can express must come back from the shares that the kubelet makes of it.
func TestMilliCPUOfShares(t *testing.T) {
	for milli := int64(2); milli <= 256000; milli++ {
		shares := max(uint64(milli)*1024/1000, 2)
		if shares == 2 {
			continue
		}
		if got := milliCPUOfShares(shares); got != milli {
			t.Fatalf("milliCPUOfShares(%d) = %d, want %d", shares, got, milli)
		}
	}
}

func TestHugepagesName(t *testing.T) {
	for _, test := range []struct{ size, want string }{
		{"2MB", "hugepages-2Mi"},
		{"1GB", "hugepages-1Gi"},
		{"64KB", "hugepages-64Ki"},
		{"16GB", "hugepages-16Gi"},
		{"2M", ""},
		{"MB", ""},
		{"2XB", ""},
		{"2MB2", ""},
		{"", ""},
		{strings.Repeat("9", 100) + "MB", ""},
	} {
		if got := hugepagesName(test.size); got != test.want {
			t.Errorf("hugepagesName(%q) = %q, want %q", test.size, got, test.want)
		}
	}
}

func TestPodTotal(t *testing.T) {
	for _, test := range []struct {
		name       string
		r          *api.LinuxResources
		annotation string
		want       *allocator.Amount
	}{
		{"the runtime does not tell", nil, "", nil},
		{"whole", resources(6144, 600000, 1<<30), "", &allocator.Amount{CPUs: 6, Memory: allocator.Memory{"memory": 1 << 30}}},
		{"with a fraction", resources(4812, 470000, 1<<30), "", &allocator.Amount{CPUs: 4, Memory: allocator.Memory{"memory": 1 << 30}}},
		{"quotas are off", resources(4096, 0, 1<<30), "", &allocator.Amount{CPUs: 4, Memory: allocator.Memory{"memory": 1 << 30}}},
		{"the annotation says it exactly", resources(12492, 1220000, 0), "10", &allocator.Amount{CPUs: 10, Memory: allocator.Memory{}}},
		{"an annotation that is no number", resources(2048, 200000, 0), "x", &allocator.Amount{CPUs: 2, Memory: allocator.Memory{}}},
		{"a negative annotation", resources(2048, 200000, 0), "-1", &allocator.Amount{CPUs: 2, Memory: allocator.Memory{}}},
		{"an enormous annotation", resources(2048, 200000, 0), strings.Repeat("1", 1<<20), &allocator.Amount{CPUs: 2, Memory: allocator.Memory{}}},
	} {
		t.Run(test.name, func(t *testing.T) {
			pod := podIn(guaranteed)
			pod.Linux.PodResources = test.r
			if test.annotation != "" {
				pod.Annotations = map[string]string{exclusiveCPUsAnnotation: test.annotation}
			}
			if diff := cmp.Diff(test.want, podTotal(pod, config.Default().PodAnnotations)); diff != "" {
				t.Errorf("podTotal (-want +got):\n%s", diff)
			}
		})
	}
}

func TestPodTotalHeedsOnlyWhatIsAllowed(t *testing.T) {
	pod := podIn(guaranteed)
	pod.Linux.PodResources = resources(4096, 400000, 0)
	pod.Annotations = map[string]string{exclusiveCPUsAnnotation: "2"}
	if got := podTotal(pod, nil).CPUs; got != 4 {
		t.Errorf("with podAnnotations empty the total is %d CPUs, want the sandbox's 4", got)
	}
}

// A forged annotation must not give a container anything that its own resources do not ask for.
func TestFoundOfTrustsNoDemand(t *testing.T) {
	ctr := &api.Container{
		Id: "c", Name: "c", State: api.ContainerState_CONTAINER_RUNNING,
		Annotations: map[string]string{assignmentAnnotation: `{"placement":{"cpus":"4-7","affinity":{"nodes":"","preferred":true}},"quota":400000,"period":100000}`},
		Linux:       &api.LinuxContainer{Resources: resources(512, 50000, 0)},
	}
	f, err := foundOf(podIn(burstable), ctr)
	if err != nil {
		t.Fatal(err)
	}
	if f.Demand.WholeCPUs() != 0 || f.Demand.MilliCPU != 500 || f.Demand.Quota != 50000 {
		t.Errorf("demand = %+v, want that of the resources", f.Demand)
	}
	if !f.Placement.CPUs.Equal(cpuset.MustParse("4-7")) {
		t.Errorf("placement = %s, want 4-7 for the books to judge", f.Placement.CPUs)
	}
}

func TestFoundOfBadAnnotation(t *testing.T) {
	for _, text := range []string{"{", `{"placement":{"cpus":"9-1"}}`, strings.Repeat(" ", maxAnnotation+1), "\xff"} {
		ctr := &api.Container{Id: "c", Annotations: map[string]string{assignmentAnnotation: text}}
		f, err := foundOf(podIn(guaranteed), ctr)
		if err == nil {
			t.Errorf("foundOf with annotation %.20q: no error", text)
		}
		if f.Exclusive() {
			t.Errorf("foundOf with annotation %.20q: exclusive on %s", text, f.Placement.CPUs)
		}
	}
}
