package topology

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strconv"

	"nri-cpuset/topology/cpuset"
)

// description is the JSON form of a described machine, as in test/conformance/testdata/topologies.
type description struct {
	Name      string            `json:"name"`
	CPUs      []descriptionCPU  `json:"cpus"`
	NUMANodes []descriptionNode `json:"numaNodes"`
	Isolated  cpuset.Set        `json:"isolated"`
}

type descriptionCPU struct {
	ID     int  `json:"id"`
	Core   int  `json:"core"`
	Socket int  `json:"socket"`
	NUMA   int  `json:"numa"`
	LLC    *int `json:"llc"`
}

type descriptionNode struct {
	ID        int               `json:"id"`
	MemoryKiB uint64            `json:"memoryKiB"`
	HugePages map[string]uint64 `json:"hugePages"`
	Distances []int             `json:"distances"`
}

// ParseDescription reads a described machine: {"name", "cpus": [{"id","core","socket","numa","llc"}],
// "numaNodes": [{"id","memoryKiB","hugePages":{"2048":N},"distances":[...]}], "isolated": "2-3"}.
func ParseDescription(text []byte) (*Machine, error) {
	var d description
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&d); err != nil {
		return nil, fmt.Errorf("reading a machine's description: %w", err)
	}
	m, err := d.machine()
	if err != nil {
		return nil, fmt.Errorf("machine %q: %w", d.Name, err)
	}
	return m, nil
}

func (d *description) machine() (*Machine, error) {
	var places []place
	for _, c := range d.CPUs {
		if c.ID < 0 || c.ID > cpuset.MaxID {
			return nil, fmt.Errorf("CPU %w", &cpuset.RangeError{ID: c.ID})
		}
		p := place{cpu: c.ID, coreID: c.Core, packageID: c.Socket, nodeID: c.NUMA, cacheID: -1}
		if c.LLC != nil {
			p.cacheID = *c.LLC
		}
		places = append(places, p)
	}
	var nodes []Node
	for _, n := range d.NUMANodes {
		if n.ID < 0 || n.ID > cpuset.MaxID {
			return nil, fmt.Errorf("NUMA node %w", &cpuset.RangeError{ID: n.ID})
		}
		node := Node{ID: n.ID, MemoryKiB: n.MemoryKiB, Distances: n.Distances, HugePages: map[uint64]uint64{}}
		for size, count := range n.HugePages {
			kib, err := strconv.ParseUint(size, 10, 64)
			if err != nil {
				return nil, fmt.Errorf("NUMA node %d: huge page size %q is no number of KiB", n.ID, size)
			}
			node.HugePages[kib] = count
		}
		nodes = append(nodes, node)
	}
	m, err := assemble(places, nodes)
	if err != nil {
		return nil, err
	}
	m.Name = d.Name
	m.Isolated = d.Isolated
	return m, nil
}
