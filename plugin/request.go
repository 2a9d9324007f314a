package plugin

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/containerd/nri/pkg/api"

	"nri-cpuset/allocator"
	"nri-cpuset/config"
	"nri-cpuset/state"
	"nri-cpuset/topology/cpuset"
)

const (
	// assignmentAnnotation is what we put on every container we place: the runtime keeps it for us and shows it again at Synchronize.
	assignmentAnnotation = "nri-cpuset/assignment"
	// exclusiveCPUsAnnotation may be on a pod, where podAnnotations allows it: the CPUs that its exclusive containers need together. The sandbox's resources tell only the
	// sum with the fractional containers included.
	exclusiveCPUsAnnotation = "nri-cpuset/" + string(config.PodExclusiveCPUs)

	// maxAnnotation bounds what is parsed of an annotation: one comes back from the runtime, the other from a pod's author.
	maxAnnotation = 64 << 10
)

// assignment is the value of the assignment annotation: what the runtime cannot tell by itself later. Who may be exclusive at all is never
// read from it, so that nothing is to be had by forging one.
type assignment struct {
	Placement allocator.Placement `json:"placement"`
	// MilliCPU is the request that the container was created with: CRI-O shows that again after a restart of its own, whatever came later.
	MilliCPU int64 `json:"milliCPU"`
	// The CFS quotas of container and pod as the kubelet set them: they show as we adjusted them.
	Quota     int64  `json:"quota,omitempty"`
	Period    uint64 `json:"period,omitempty"`
	PodQuota  int64  `json:"podQuota,omitempty"`
	PodPeriod uint64 `json:"podPeriod,omitempty"`
}

// containerOf makes the books' container of what the runtime shows of one that is about to be created, or runs unseen by us.
func containerOf(pod *api.PodSandbox, ctr *api.Container) state.Container {
	return state.Container{
		Key:         state.Key{PodUID: podUID(pod), Name: ctr.GetName()},
		ID:          ctr.GetId(),
		Sandbox:     pod.GetId(),
		Pod:         pod.GetName(),
		Namespace:   pod.GetNamespace(),
		Labels:      pod.GetLabels(),
		Demand:      demandOf(pod, ctr.GetLinux().GetResources(), assignment{}),
		CgroupsPath: ctr.GetLinux().GetCgroupsPath(),
	}
}

// podUID is the pod's UID, which its sandboxes share. What is no Kubernetes pod may have none; then the sandbox stands for it.
func podUID(pod *api.PodSandbox) string {
	if uid := pod.GetUid(); uid != "" {
		return uid
	}
	return pod.GetId()
}

// demandOf tells from a container's resources what its manifest asked for. The runtime shows no requests: they are read back from the CPU
// shares that the kubelet makes of them, and a Guaranteed pod is told by its cgroup. before is what we noted when we lifted its quota, if we
// did.
func demandOf(pod *api.PodSandbox, r *api.LinuxResources, before assignment) state.Demand {
	d := state.Demand{Guaranteed: isGuaranteed(pod.GetLinux().GetCgroupParent())}
	cpu := r.GetCpu()
	shares := cpu.GetShares().GetValue()
	d.MilliCPU = milliCPUOfShares(shares)
	d.Quota, d.Period = cpu.GetQuota().GetValue(), cpu.GetPeriod().GetValue()
	if d.Quota <= 0 && before.Quota > 0 {
		d.Quota, d.Period = before.Quota, before.Period
		if sharesOfMilliCPU(milliCPUOfQuota(d.Quota, d.Period)) != shares { // it has been resized since
			d.Quota = d.MilliCPU * int64(d.Period) / 1000 //nolint:gosec // at most 256 CPUs and a second
		}
	}
	d.LimitMilliCPU = milliCPUOfQuota(d.Quota, d.Period)
	switch {
	case d.Guaranteed && d.LimitMilliCPU == 0:
		d.LimitMilliCPU = d.MilliCPU // quotas are off in the kubelet (cpuCFSQuota: false), and both are equal
	case d.Guaranteed, shares == sharesOfMilliCPU(d.LimitMilliCPU):
		d.MilliCPU = d.LimitMilliCPU // the quota is exact, where shares end at 256 CPUs
	}
	if d.Guaranteed {
		d.Memory = memoryOf(r)
	}
	return d
}

// isGuaranteed tells a pod's QoS class by the cgroup that the kubelet puts it in: Guaranteed pods are in the kubepods cgroup itself, the
// others in its burstable and besteffort children. Both cgroup drivers spell the names so.
func isGuaranteed(cgroupParent string) bool {
	return strings.Contains(cgroupParent, "kubepods") &&
		!strings.Contains(cgroupParent, "burstable") && !strings.Contains(cgroupParent, "besteffort")
}

const (
	sharesPerCPU = 1024
	maxShares    = 262144 // the kernel's limit, and the kubelet's
)

// milliCPUOfShares undoes the kubelet's MilliCPUToShares, which rounds down to 1/1024 CPU: rounding up gives back the very request.
func milliCPUOfShares(shares uint64) int64 {
	if shares <= 2 { // the kubelet's minimum, which no request has too
		return 0
	}
	return int64((min(shares, maxShares)*1000 + sharesPerCPU - 1) / sharesPerCPU)
}

func sharesOfMilliCPU(milliCPU int64) uint64 {
	if milliCPU <= 0 {
		return 0
	}
	return min(uint64(milliCPU)*sharesPerCPU/1000, maxShares)
}

func milliCPUOfQuota(quota int64, period uint64) int64 {
	const maxQuota = 1 << 40 // bounds the product; a quota of 8,192 CPUs is far below
	if quota <= 0 || quota > maxQuota || period == 0 {
		return 0
	}
	return int64(uint64(quota) * 1000 / period) //nolint:gosec // bounded above
}

// maxHugepageLimits bounds how many limits of one container are read: there are fewer page sizes.
const maxHugepageLimits = 64

// memoryOf returns the limits of memory and huge pages, by the names of the Kubernetes resources.
func memoryOf(r *api.LinuxResources) allocator.Memory {
	memory := allocator.Memory{}
	if limit := r.GetMemory().GetLimit().GetValue(); limit > 0 {
		memory["memory"] = uint64(limit)
	}
	for i, h := range r.GetHugepageLimits() {
		if i == maxHugepageLimits {
			break
		}
		if name := hugepagesName(h.GetPageSize()); name != "" && h.GetLimit() > 0 {
			memory[name] = h.GetLimit()
		}
	}
	return memory
}

// hugepagesName turns the cgroup's name of a page size, "2MB", into the Kubernetes resource's, "hugepages-2Mi".
func hugepagesName(pageSize string) string {
	number, unit, ok := strings.Cut(strings.ToUpper(pageSize), "B")
	if !ok || unit != "" || len(number) < 2 {
		return ""
	}
	prefix := number[len(number)-1:]
	count, err := strconv.ParseUint(number[:len(number)-1], 10, 32)
	if err != nil || !strings.Contains("KMGT", prefix) {
		return ""
	}
	return fmt.Sprintf("hugepages-%d%si", count, prefix)
}

// podTotal returns what a whole Guaranteed pod asks for, from its sandbox's resources, and from its annotation where that is allowed; nil where
// the runtime does not tell.
func podTotal(pod *api.PodSandbox, annotations []config.PodAnnotation) *allocator.Amount {
	r := pod.GetLinux().GetPodResources()
	if r == nil {
		return nil
	}
	milliCPU := milliCPUOfQuota(r.GetCpu().GetQuota().GetValue(), r.GetCpu().GetPeriod().GetValue())
	if milliCPU == 0 {
		milliCPU = milliCPUOfShares(r.GetCpu().GetShares().GetValue())
	}
	total := &allocator.Amount{CPUs: int(milliCPU / 1000), Memory: memoryOf(r)}
	if text, given := pod.GetAnnotations()[exclusiveCPUsAnnotation]; given && len(text) <= 4 && slices.Contains(annotations, config.PodExclusiveCPUs) {
		if n, err := strconv.Atoi(text); err == nil && n >= 0 && n <= cpuset.MaxID {
			total.CPUs = n
		}
	}
	return total
}

// foundOf makes the books' container of one that the runtime shows at Synchronize.
func foundOf(pod *api.PodSandbox, ctr *api.Container) (state.Found, error) {
	f := state.Found{Container: containerOf(pod, ctr), CreatedAt: ctr.GetCreatedAt()}
	f.Phase = phaseOf(ctr.GetState())
	var err error
	cpus := ctr.GetLinux().GetResources().GetCpu().GetCpus()
	if f.Reported, err = cpuset.Parse(cpus); err != nil {
		return f, fmt.Errorf("the runtime reports a cpuset that is none: %w", err)
	}
	text, given := ctr.GetAnnotations()[assignmentAnnotation]
	f.Annotated = given
	f.Managed = given || !f.Reported.IsEmpty()
	if !given {
		return f, nil
	}
	var a assignment
	if len(text) > maxAnnotation {
		return f, fmt.Errorf("annotation %s has %d bytes, more than %d", assignmentAnnotation, len(text), maxAnnotation)
	}
	if err := json.Unmarshal([]byte(text), &a); err != nil {
		return f, fmt.Errorf("annotation %s: %w", assignmentAnnotation, err)
	}
	f.Placement = a.Placement
	f.PodQuota, f.PodPeriod = a.PodQuota, a.PodPeriod
	f.Demand = demandOf(pod, ctr.GetLinux().GetResources(), a)
	f.AsCreated = f.Demand.MilliCPU == a.MilliCPU
	return f, nil
}

func phaseOf(s api.ContainerState) state.Phase {
	switch s {
	case api.ContainerState_CONTAINER_CREATED:
		return state.Created
	case api.ContainerState_CONTAINER_STOPPED:
		return state.Exited
	default:
		return state.Running
	}
}
