package topology

import (
	"fmt"
	"strconv"
	"strings"

	"nri-cpuset/topology/cpuset"
)

const nodeFolder = "devices/system/node"

// nodeCPUs is which CPUs a NUMA node has. Kernels before 2.6.26 have the mask only.
var nodeCPUs = attribute{"cpulist", "cpumap"}

// numa is what devices/system/node says (Documentation/ABI/stable/sysfs-devices-node).
type numa struct {
	nodes   []Node          // by id, without the nodes that are left out
	cpus    map[int]sharing // by id
	leftOut []LeftOut
	folder  string
}

// readNodes reads the NUMA nodes. A kernel without NUMA has no folder for them: then the whole machine is node 0.
func readNodes(sys tree, online cpuset.Set) (numa, error) {
	all, err := sys.folder(nodeFolder)
	if absent(err) {
		return readWithoutNodes(sys, online)
	}
	if err != nil {
		return numa{}, err
	}
	defer all.close()
	ids, err := all.list("online")
	if absent(err) {
		ids, err = listNumbered(all, "node")
	}
	if err != nil {
		return numa{}, err
	}
	if ids.IsEmpty() {
		return readWithoutNodes(sys, online)
	}
	initiators, err := all.optionalList("has_generic_initiator")
	if err != nil {
		return numa{}, err
	}
	gpus, err := readGPUNodes(sys)
	if err != nil {
		return numa{}, err
	}

	n := numa{cpus: map[int]sharing{}, folder: all.name}
	var kept cpuset.Set
	for id := range ids.All() {
		node, cpus, err := readNode(all, id, ids.Len())
		if err != nil {
			return numa{}, err
		}
		cpus = cpus.within(online)
		if reason := n.whyLeaveOut(&node, cpus.cpus, initiators, gpus); reason != "" {
			n.leftOut = append(n.leftOut, LeftOut{Node: id, Reason: reason})
			continue
		}
		kept.Add(id)
		n.cpus[id] = cpus
		n.nodes = append(n.nodes, node)
	}
	n.dropDistances(ids, kept)
	return n, nil
}

// whyLeaveOut tells why a node that the kernel lists cannot be used for placement, or "".
func (n *numa) whyLeaveOut(node *Node, cpus, initiators cpuset.Set, gpus map[int]string) string {
	for _, before := range n.nodes {
		// Only emulated nodes (numa=fake) share CPUs. Each CPU has to be in one place.
		if overlap := n.cpus[before.ID].cpus.Intersect(cpus); !overlap.IsEmpty() {
			return fmt.Sprintf("its CPUs %s are on node %d too", overlap, before.ID)
		}
	}
	switch {
	case !cpus.IsEmpty():
		return ""
	case gpus[node.ID] != "":
		return "it is the memory of GPU " + gpus[node.ID]
	case node.MemoryKiB == 0 && !initiators.Contains(node.ID):
		return "it has neither CPUs nor memory"
	}
	return ""
}

func readNode(all folder, id, nodes int) (Node, sharing, error) {
	node := Node{ID: id, HugePages: map[uint64]uint64{}}
	folder, err := all.folder("node" + strconv.Itoa(id))
	if err != nil {
		return node, sharing{}, err
	}
	defer folder.close()
	cpus, err := folder.set(nodeCPUs)
	if err != nil {
		return node, sharing{}, err
	}
	if node.MemoryKiB, err = folder.memTotal(fmt.Sprintf("Node %d MemTotal:", id)); err != nil {
		return node, sharing{}, err
	}
	if err = node.readHugePages(folder); err != nil {
		return node, sharing{}, err
	}
	text, err := folder.read("distance")
	if absent(err) {
		return node, cpus, nil
	}
	if err != nil {
		return node, sharing{}, err
	}
	if node.Distances, err = parseDistances(text, nodes); err != nil {
		return node, sharing{}, fmt.Errorf("%s: %w", folder.path("distance"), err)
	}
	return node, cpus, nil
}

// parseDistances reads nodeN/distance: one number for each online node, in the order of their ids, 10 for the node itself (the ACPI's SLIT).
func parseDistances(text string, nodes int) ([]int, error) {
	fields := strings.Fields(text)
	if len(fields) != nodes {
		return nil, fmt.Errorf("%q holds %d distances, and there are %d nodes", clip(text), len(fields), nodes)
	}
	distances := make([]int, len(fields))
	for i, field := range fields {
		d, err := strconv.ParseUint(field, 10, 16)
		if err != nil || d == 0 {
			return nil, fmt.Errorf("%q is no distance", clip(field))
		}
		distances[i] = int(d)
	}
	return distances, nil
}

// readWithoutNodes makes node 0 of a machine whose kernel knows no NUMA.
func readWithoutNodes(sys tree, online cpuset.Set) (numa, error) {
	node := Node{HugePages: map[uint64]uint64{}}
	if err := node.readProcMeminfo(sys); err != nil {
		return numa{}, err
	}
	mm, err := sys.folder("kernel/mm")
	switch {
	case absent(err):
	case err != nil:
		return numa{}, err
	default:
		defer mm.close()
		if err := node.readHugePages(mm); err != nil {
			return numa{}, err
		}
	}
	return numa{nodes: []Node{node}, cpus: map[int]sharing{0: {cpus: online}}}, nil
}

// place puts each CPU on its node. Only a made-up machine has CPUs on no node.
func (n *numa) place(places []place) {
	of := map[int]int{}
	for id, s := range n.cpus {
		for cpu := range s.cpus.All() {
			of[cpu] = id
		}
	}
	for i := range places {
		p := &places[i]
		p.node, p.from.node = none, n.folder
		if id, ok := of[p.cpu]; ok {
			p.node = id
			p.from.node = n.cpus[id].file
		}
	}
}

// dropDistances takes the distances to nodes that are left out from those that are kept.
func (n *numa) dropDistances(all, kept cpuset.Set) {
	ids := all.IDs()
	for i := range n.nodes {
		if n.nodes[i].Distances == nil {
			continue
		}
		var distances []int
		for j, d := range n.nodes[i].Distances {
			if kept.Contains(ids[j]) {
				distances = append(distances, d)
			}
		}
		n.nodes[i].Distances = distances
	}
}
