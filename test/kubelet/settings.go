package kubelet

import (
	"encoding/json"
	"fmt"

	core "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	kubeletv1beta1 "k8s.io/kubelet/config/v1beta1"
	internalconfig "k8s.io/kubernetes/pkg/kubelet/apis/config"
	"k8s.io/utils/cpuset"
)

// settings are a scenario's config as the kubelet hands it to its managers.
type settings struct {
	kubeletv1beta1.KubeletConfiguration
	reservedCPUs   cpuset.CPUSet
	reservation    core.ResourceList // what Node Allocatable leaves out
	reservedMemory []internalconfig.MemoryReservation
}

func parseSettings(text []byte) (*settings, error) {
	s := &settings{reservation: core.ResourceList{}}
	s.MemoryManagerPolicy = kubeletv1beta1.NoneMemoryManagerPolicy
	s.TopologyManagerPolicy = kubeletv1beta1.NoneTopologyManagerPolicy
	s.TopologyManagerScope = kubeletv1beta1.ContainerTopologyManagerScope
	if err := json.Unmarshal(text, &s.KubeletConfiguration); err != nil {
		return nil, fmt.Errorf("the scenario's config: %w", err)
	}
	if err := s.reserveCPUs(); err != nil {
		return nil, err
	}
	for _, r := range s.ReservedMemory {
		s.reservedMemory = append(s.reservedMemory, internalconfig.MemoryReservation{NumaNode: r.NumaNode, Limits: r.Limits})
		// The kubelet wants the nodes' sum to be what the node reserves as a whole, which the scenarios do not say.
		for name, amount := range r.Limits {
			addTo(s.reservation, name, amount)
		}
	}
	return s, nil
}

// reserveCPUs reads reservedSystemCPUs, which the kubelet lets replace the amounts, or else adds these up.
func (s *settings) reserveCPUs() error {
	if s.ReservedSystemCPUs != "" {
		var err error
		if s.reservedCPUs, err = cpuset.Parse(s.ReservedSystemCPUs); err != nil {
			return fmt.Errorf("reservedSystemCPUs: %w", err)
		}
		s.reservation[core.ResourceCPU] = *resource.NewQuantity(int64(s.reservedCPUs.Size()), resource.DecimalSI)
		return nil
	}
	for _, reserved := range []map[string]string{s.KubeReserved, s.SystemReserved} {
		text := reserved[string(core.ResourceCPU)]
		if text == "" {
			continue
		}
		amount, err := resource.ParseQuantity(text)
		if err != nil {
			return fmt.Errorf("reserved cpu %q: %w", text, err)
		}
		addTo(s.reservation, core.ResourceCPU, amount)
	}
	return nil
}

func addTo(list core.ResourceList, name core.ResourceName, amount resource.Quantity) {
	sum := list[name]
	sum.Add(amount)
	list[name] = sum
}
