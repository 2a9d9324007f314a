package node

import (
	"testing"

	"google.golang.org/protobuf/proto"
	cri "k8s.io/cri-api/pkg/apis/runtime/v1"
)

func TestQOSClass(t *testing.T) {
	whole := Guaranteed(1000, 64)
	tests := []struct {
		name       string
		containers []Resources
		want       string
	}{
		{"nothing asked", []Resources{{}, {}}, "besteffort"},
		{"requests equal limits", []Resources{whole, whole}, "guaranteed"},
		{"limits alone", []Resources{{MilliCPULimit: 1000, MemoryLimit: 64}}, "guaranteed"},
		{"one container asks for nothing", []Resources{whole, {}}, "burstable"},
		{"no memory limit", []Resources{{MilliCPULimit: 1000}}, "burstable"},
		{"requests below limits", []Resources{{MilliCPURequest: 500, MilliCPULimit: 1000, MemoryLimit: 64}}, "burstable"},
		{"requests alone", []Resources{{MilliCPURequest: 500}}, "burstable"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var spec PodSpec
			for _, r := range tt.containers {
				spec.Containers = append(spec.Containers, ContainerSpec{Resources: r})
			}
			if got := spec.qosClass(); got != tt.want {
				t.Errorf("%s, want %s", got, tt.want)
			}
		})
	}
}

func TestToCRI(t *testing.T) {
	tests := []struct {
		name string
		r    Resources
		want *cri.LinuxContainerResources
	}{
		{"nothing: the least shares", Resources{}, &cri.LinuxContainerResources{CpuShares: 2, CpuPeriod: 100_000}},
		{"guaranteed", Guaranteed(1500, 64), &cri.LinuxContainerResources{CpuShares: 1536, CpuPeriod: 100_000, CpuQuota: 150_000, MemoryLimitInBytes: 64}},
		{"a request alone", Resources{MilliCPURequest: 250}, &cri.LinuxContainerResources{CpuShares: 256, CpuPeriod: 100_000}},
		{"a tiny limit: the least quota", Resources{MilliCPULimit: 5}, &cri.LinuxContainerResources{CpuShares: 5, CpuPeriod: 100_000, CpuQuota: 1000}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := tt.r.toCRI(); !proto.Equal(got, tt.want) {
				t.Errorf("%v, want %v", got, tt.want)
			}
		})
	}
}

func TestTotal(t *testing.T) {
	tests := []struct {
		name       string
		containers []Resources
		want       Resources
	}{
		{"all limited", []Resources{Guaranteed(1000, 64), Guaranteed(500, 32)}, Guaranteed(1500, 96)},
		{
			"one has no CPU limit: nor has the pod",
			[]Resources{Guaranteed(1000, 64), {MilliCPURequest: 500}},
			Resources{MilliCPURequest: 1500, MemoryRequest: 64, MemoryLimit: 64},
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var spec PodSpec
			for _, r := range tt.containers {
				spec.Containers = append(spec.Containers, ContainerSpec{Resources: r})
			}
			if got := spec.total(); got != tt.want {
				t.Errorf("%+v, want %+v", got, tt.want)
			}
		})
	}
}
