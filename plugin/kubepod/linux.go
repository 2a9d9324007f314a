package kubepod

import (
	"fmt"
	"slices"
	"strings"

	"github.com/containerd/nri/pkg/api"
	"k8s.io/apimachinery/pkg/api/resource"
)

// The kubelet's numbers (k8s.io/kubernetes/pkg/kubelet/cm/helpers_linux.go, pkg/kubelet/qos/policy.go).
const (
	minShares   = 2
	maxShares   = 262144
	quotaPeriod = 100000 // microseconds
	minQuota    = 1000   // microseconds

	guaranteedOOMScoreAdj = -997
	bestEffortOOMScoreAdj = 1000
)

// hugepageSizes are the page sizes of the machines that we play, as the hugetlb controller names them.
var hugepageSizes = []string{"2MB", "1GB"}

// Resources returns the Linux resources that the kubelet asks the runtime to give a container (generateLinuxContainerResources): at its
// creation, and at a resize.
func (n Node) Resources(c *Container) *api.LinuxResources {
	request, cpu, memory := c.Request(resourceCPU), c.Limits[resourceCPU], c.Limits[resourceMemory]
	r := linuxResources(request.MilliValue(), cpu.MilliValue(), memory.Value())
	r.HugepageLimits = hugepageLimits(func(name string) int64 {
		limit := c.Limits[name]
		return limit.Value()
	}, hugepageNames(c))
	// A limit of 0 is no limit, and containerd leaves out of its specification what is 0.
	if n.Runtime != CRIO && cpu.IsZero() {
		r.Cpu.Quota = nil
	}
	if memory.IsZero() {
		r.Memory.Limit = nil
	}
	return r
}

// podResources returns the resources of the whole pod without its overhead that the kubelet tells the runtime when it runs the sandbox
// (calculateSandboxResources). Huge pages are ours: the kubelet leaves them out, and pod scope cannot be shown without.
func podResources(p *Pod) *api.LinuxResources {
	request := p.total(milliCPU)
	cpu := p.total(func(c *Container) int64 { q := c.Limits[resourceCPU]; return q.MilliValue() })
	memory := p.total(func(c *Container) int64 { q := c.Limits[resourceMemory]; return q.Value() })
	r := linuxResources(request, cpu, memory)
	if names := hugepageNames(p.Ordered()...); len(names) > 0 {
		r.HugepageLimits = hugepageLimits(func(name string) int64 {
			return p.total(func(c *Container) int64 { q := c.Limits[name]; return q.Value() })
		}, names)
	}
	return r
}

func milliCPU(c *Container) int64 {
	request := c.Request(resourceCPU)
	return request.MilliValue()
}

// linuxResources is the kubelet's calculateLinuxResources: CPUs in thousandths, memory in bytes.
func linuxResources(request, limit, memory int64) *api.LinuxResources {
	return &api.LinuxResources{
		Cpu: &api.LinuxCPU{
			Shares: api.UInt64(milliCPUToShares(request)),
			Quota:  api.Int64(milliCPUToQuota(limit)),
			Period: api.UInt64(quotaPeriod),
		},
		Memory: &api.LinuxMemory{Limit: api.Int64(memory)},
	}
}

func milliCPUToShares(milli int64) int64 {
	return min(max(milli*1024/1000, minShares), maxShares)
}

func milliCPUToQuota(milli int64) int64 {
	if milli == 0 {
		return 0
	}
	return max(milli*quotaPeriod/1000, minQuota)
}

// hugepageLimits sets a limit for each page size of the machine, 0 where none is asked: GetHugepageLimitsFromResources.
func hugepageLimits(amount func(name string) int64, names []string) []*api.HugepageLimit {
	limits := map[string]int64{}
	for _, size := range hugepageSizes {
		limits[size] = 0
	}
	for _, name := range names {
		limits[pageSize(name)] = amount(name)
	}
	var list []*api.HugepageLimit
	for size, limit := range limits {
		list = append(list, &api.HugepageLimit{PageSize: size, Limit: uint64(limit)}) //nolint:gosec // Pod.Check lets no negative amount pass
	}
	slices.SortFunc(list, func(a, b *api.HugepageLimit) int { return strings.Compare(a.PageSize, b.PageSize) })
	return list
}

func hugepageNames(containers ...*Container) []string {
	var names []string
	for _, c := range containers {
		for name := range c.Limits {
			if strings.HasPrefix(name, hugepagesPrefix) && !slices.Contains(names, name) {
				names = append(names, name)
			}
		}
	}
	return names
}

// pageSize names the page size of hugepages-2Mi as the hugetlb controller does: 2MB. A size that is no quantity stays as it is.
func pageSize(name string) string {
	size := strings.TrimPrefix(name, hugepagesPrefix)
	q, err := resource.ParseQuantity(size)
	if err != nil {
		return size
	}
	bytes := q.Value()
	for _, unit := range []struct {
		shift uint
		name  string
	}{{30, "GB"}, {20, "MB"}, {10, "KB"}} {
		if bytes > 0 && bytes%(1<<unit.shift) == 0 {
			return fmt.Sprintf("%d%s", bytes>>unit.shift, unit.name)
		}
	}
	return fmt.Sprintf("%dB", bytes)
}

// oomScoreAdj is the kubelet's GetContainerOOMScoreAdjust. A sidecar dies no sooner than the containers that need it.
func (n Node) oomScoreAdj(p *Pod, c *Container) int {
	switch p.QoS() {
	case Guaranteed:
		return guaranteedOOMScoreAdj
	case BestEffort:
		return bestEffortOOMScoreAdj
	case Burstable:
	}
	score := n.burstableOOMScoreAdj(c)
	if c.Sidecar() {
		for i := range p.Containers {
			score = min(score, n.burstableOOMScoreAdj(&p.Containers[i]))
		}
	}
	return score
}

func (n Node) burstableOOMScoreAdj(c *Container) int {
	score := int64(bestEffortOOMScoreAdj)
	if request := c.Request(resourceMemory); n.MemoryBytes > 0 {
		score -= 1000 * request.Value() / n.MemoryBytes
	}
	return int(min(max(score, 1000+guaranteedOOMScoreAdj), bestEffortOOMScoreAdj-1))
}
