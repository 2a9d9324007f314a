package allocator

import (
	"fmt"
	"strconv"
	"strings"

	"nri-cpuset/topology/cpuset"
)

// The texts of refusals end up in the pod's events: one line, of bounded length.
const (
	maxNodesShown = 8
	maxListShown  = 40
)

func (a *Allocator) refuse(reason Reason, format string, args ...any) *Refusal {
	return &Refusal{Reason: reason, Message: fmt.Sprintf(format, args...)}
}

// refuseSingle is what single-numa-node says.
func (a *Allocator) refuseSingle(u *Usage, r *Request, asked *Amount) *Refusal {
	return a.refuse(TopologyAffinityError, "topologyManagerPolicy single-numa-node: %s asked, which no NUMA node has free together (%s)",
		a.amountText(asked, r), a.freeOn(u, a.freeFor(u, r), a.memoryNeeds(asked.Memory)))
}

// refuseRestricted is what restricted says.
func (a *Allocator) refuseRestricted(u *Usage, r *Request, asked *Amount, all *[resources]hints) *Refusal {
	names := [resources]string{"CPUs", "memory", "devices"}
	var wants []string
	size, same := 0, true
	for i := range all {
		if h := &all[i]; h.opinion {
			wants = append(wants, fmt.Sprintf("%s %d", names[i], h.preferred))
			same = same && (size == 0 || size == h.preferred)
			size = h.preferred
		}
	}
	why := fmt.Sprintf("which no %d NUMA nodes have free together", size)
	switch {
	case !same:
		why = fmt.Sprintf("which would take different numbers of NUMA nodes: %s", strings.Join(wants, ", "))
	case size == 1:
		why = "which has to be on one NUMA node, and none has it free"
	}
	return a.refuse(TopologyAffinityError, "topologyManagerPolicy restricted: %s asked, %s (%s)",
		a.amountText(asked, r), why, a.freeOn(u, a.freeFor(u, r), a.memoryNeeds(asked.Memory)))
}

func (a *Allocator) refuseMemory(u *Usage, needs []memoryNeed, why string) *Refusal {
	return a.refuse(UnexpectedAdmissionError, "memoryManagerPolicy Static: %s asked, %s (%s)", memoryText(needs), why, a.freeOn(u, cpuset.Set{}, needs))
}

// amountText writes what was asked.
func (a *Allocator) amountText(asked *Amount, r *Request) string {
	var parts []string
	if asked.CPUs > 0 {
		parts = append(parts, cpusText(asked.CPUs))
	}
	if needs := a.memoryNeeds(asked.Memory); len(needs) > 0 {
		parts = append(parts, memoryText(needs))
	}
	for i, d := range r.Devices {
		if i == maxNodesShown {
			parts = append(parts, "...")
			break
		}
		parts = append(parts, fmt.Sprintf("device %s (NUMA node %s)", cut(d.Name), brief(d.Nodes)))
	}
	return strings.Join(parts, ", ")
}

func cpusText(n int) string { return string(appendCount(nil, n, " CPU")) }

func memoryText(needs []memoryNeed) string {
	var parts []string
	for _, n := range needs {
		parts = append(parts, bytesText(n.bytes)+" "+cut(n.kind))
	}
	return strings.Join(parts, ", ")
}

// freeOn writes what of CPUs and of the types of memory needed is free on which NUMA node.
func (a *Allocator) freeOn(u *Usage, cpus cpuset.Set, needs []memoryNeed) string {
	var nodes []string
	for i := range a.machine.Nodes {
		node := &a.machine.Nodes[i]
		var parts []string
		if here := node.CPUs.Intersect(cpus); !here.IsEmpty() {
			parts = append(parts, fmt.Sprintf("%s free: %s", cpusText(here.Len()), brief(here)))
		}
		for _, n := range needs {
			if n.index >= 0 {
				parts = append(parts, bytesText(u.free(i, n.index))+" "+n.kind+" free")
			}
		}
		if len(nodes) == maxNodesShown {
			nodes = append(nodes, "...")
			break
		}
		if len(parts) > 0 {
			nodes = append(nodes, fmt.Sprintf("node %d: %s", node.ID, strings.Join(parts, ", ")))
		}
	}
	if len(nodes) == 0 {
		return "nothing free"
	}
	return strings.Join(nodes, "; ")
}

// bytesText writes an amount in the largest binary unit that it is not too small for.
func bytesText(bytes uint64) string {
	units := []string{"", "Ki", "Mi", "Gi", "Ti"}
	unit, whole := 0, bytes
	for whole >= 100*1024 && unit+1 < len(units) || whole > 0 && whole%1024 == 0 && unit+1 < len(units) {
		whole /= 1024
		unit++
	}
	return strconv.FormatUint(whole, 10) + units[unit]
}

func brief(s cpuset.Set) string { return cut(s.String()) }

// cut bounds a text that may come from outside, and makes it one that can be sent on.
func cut(text string) string {
	if len(text) > maxListShown {
		text = text[:maxListShown] + "..."
	}
	return strings.ToValidUTF8(text, "?")
}
