package kubelet

import (
	core "k8s.io/api/core/v1"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"nri-cpuset/plugin/kubepod"
)

// podOf is a scenario's pod as the API server hands it to the kubelet: what is not requested is the limit.
func podOf(p *kubepod.Pod, uid types.UID) *core.Pod {
	return &core.Pod{
		ObjectMeta: meta.ObjectMeta{Name: p.Name, Namespace: "default", UID: uid},
		Spec:       core.PodSpec{InitContainers: containersOf(p.InitContainers), Containers: containersOf(p.Containers)},
	}
}

func containersOf(specs []kubepod.Container) []core.Container {
	containers := make([]core.Container, 0, len(specs))
	for i := range specs {
		spec := &specs[i]
		c := core.Container{Name: spec.Name, Resources: core.ResourceRequirements{Requests: core.ResourceList{}, Limits: core.ResourceList{}}}
		if spec.Sidecar() {
			always := core.ContainerRestartPolicyAlways
			c.RestartPolicy = &always
		}
		for name, amount := range spec.Limits {
			c.Resources.Limits[core.ResourceName(name)] = amount
		}
		for _, name := range spec.ResourceNames() {
			c.Resources.Requests[core.ResourceName(name)] = spec.Request(name)
		}
		containers = append(containers, c)
	}
	return containers
}
