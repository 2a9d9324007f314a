package allocator

import (
	"fmt"
	"strings"

	"nri-cpuset/topology/cpuset"
)

// refuse makes a refusal whose text names the policy that it comes from.
func (a *Allocator) refuse(reason Reason, format string, args ...any) *Refusal {
	return &Refusal{Reason: reason, Message: fmt.Sprintf(format, args...)}
}

// maxNodesShown bounds how many NUMA nodes a refusal lists: its text ends up in the pod's events.
const maxNodesShown = 8

// byNode writes which CPUs of a set are on which NUMA node.
func (a *Allocator) byNode(cpus cpuset.Set) string {
	var b strings.Builder
	shown := 0
	for i := range a.machine.Nodes {
		node := &a.machine.Nodes[i]
		if node.CPUs.IsEmpty() {
			continue
		}
		if shown == maxNodesShown {
			b.WriteString("; ...")
			break
		}
		if shown++; shown > 1 {
			b.WriteString("; ")
		}
		here := node.CPUs.Intersect(cpus)
		fmt.Fprintf(&b, "node %d: %d", node.ID, here.Len())
		if !here.IsEmpty() {
			fmt.Fprintf(&b, ": %s", here)
		}
	}
	return b.String()
}

func (a *Allocator) refuseMemory(u *Usage, needs []memoryNeed, why string) error {
	return a.refuse(UnexpectedAdmissionError, "%v asked, %s", needs, why)
}

func (a *Allocator) refuseAlignment(u *Usage, r *Request, asked *Amount, all []hints) error {
	return a.refuse(TopologyAffinityError, "%d CPUs asked", asked.CPUs)
}
