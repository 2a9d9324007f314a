package kubelet

import (
	"maps"
	"slices"

	core "k8s.io/api/core/v1"
)

// memoryWatch keeps books beside the kubelet's memory manager and notices when its own go wrong: when a pod gets memory of one node of a group
// that others have together, and when a pod that leaves gives back other bytes, or on other nodes, than it took. SPEC.md lists both among what we
// do not do as the kubelet does. What it answers afterwards follows from that.
type memoryWatch struct {
	node  *Node
	last  reserved
	took  map[string]reserved // by pod
	wrong bool
}

// reserved is what containers have of each node's memory, in bytes by type.
type reserved map[int]map[core.ResourceName]uint64

func newMemoryWatch(n *Node) *memoryWatch {
	return &memoryWatch{node: n, last: n.reserved(), took: map[string]reserved{}}
}

// added notes what a pod took, nothing where it was refused.
func (w *memoryWatch) added(pod string) {
	now := w.node.reserved()
	if w.node.pods[pod] == nil {
		w.wrong = w.wrong || !now.equal(w.last)
	} else {
		w.took[pod] = now.minus(w.last)
	}
	w.last = now
	w.wrong = w.wrong || w.node.groupsOverlap()
}

// removed checks that a pod gave back what it took.
func (w *memoryWatch) removed(pod string) {
	now := w.node.reserved()
	w.wrong = w.wrong || !w.last.minus(now).equal(w.took[pod].minus(nil))
	w.last = now
	delete(w.took, pod)
}

func (n *Node) reserved() reserved {
	r := reserved{}
	for id, node := range n.memory.State().GetMachineState() {
		r[id] = map[core.ResourceName]uint64{}
		for kind, table := range node.MemoryMap {
			if table.Reserved > 0 {
				r[id][kind] = table.Reserved
			}
		}
	}
	return r
}

// minus returns what r has more than another, modulo 2^64, without the zeros.
func (r reserved) minus(other reserved) reserved {
	difference := reserved{}
	for id := range r {
		for kind := range union(r[id], other[id]) {
			if bytes := r[id][kind] - other[id][kind]; bytes != 0 {
				if difference[id] == nil {
					difference[id] = map[core.ResourceName]uint64{}
				}
				difference[id][kind] = bytes
			}
		}
	}
	return difference
}

func (r reserved) equal(other reserved) bool {
	return maps.EqualFunc(r, other, maps.Equal[map[core.ResourceName]uint64, map[core.ResourceName]uint64])
}

func union(a, b map[core.ResourceName]uint64) map[core.ResourceName]uint64 {
	all := maps.Clone(a)
	if all == nil {
		all = map[core.ResourceName]uint64{}
	}
	maps.Copy(all, b)
	return all
}

// groupsOverlap tells whether two blocks of memory share a node and are not on the same nodes.
func (n *Node) groupsOverlap() bool {
	groupOf := map[int][]int{}
	for _, containers := range n.memory.State().GetMemoryAssignments() {
		for _, blocks := range containers {
			for i := range blocks {
				nodes := blocks[i].NUMAAffinity
				for _, id := range nodes {
					if group, used := groupOf[id]; used && !slices.Equal(group, nodes) {
						return true
					}
					groupOf[id] = nodes
				}
			}
		}
	}
	return false
}
