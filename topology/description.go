package topology

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"

	"nri-cpuset/topology/cpuset"
)

// Open returns the machine that path stands for: the described one of a JSON file ([ReadDescription]), or the real one of a folder with its
// sysfs ([Read]).
func Open(path string) (*Machine, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, fmt.Errorf("opening a machine: %w", err)
	}
	if info.Mode().IsRegular() {
		return ReadDescription(path)
	}
	return Read(path)
}

// maxDescription bounds a described machine: 8,192 CPUs, written with much space, are about 1 MiB.
const maxDescription = 8 << 20

// ReadDescription reads a file that [ParseDescription] can parse.
func ReadDescription(path string) (*Machine, error) {
	file, err := os.Open(path) //nolint:gosec // the operator names the file
	if err != nil {
		return nil, fmt.Errorf("reading a machine's description: %w", err)
	}
	defer func() { _ = file.Close() }()
	text, err := io.ReadAll(io.LimitReader(file, maxDescription+1))
	if err != nil {
		return nil, fmt.Errorf("reading a machine's description: %w", err)
	}
	if len(text) > maxDescription {
		return nil, fmt.Errorf("%s: it is larger than %d MiB, which is too much for a machine's description", path, maxDescription>>20)
	}
	m, err := ParseDescription(text)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return m, nil
}

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
// "numaNodes": [{"id","memoryKiB","hugePages":{"2048":N},"distances":[...]}], "isolated": "2-3"}. "core" is unique in its socket, "llc" in
// the machine; a CPU without "llc" has no last-level cache. "memoryKiB" includes the huge pages, of which "hugePages" counts each size in KiB.
func ParseDescription(text []byte) (*Machine, error) {
	var d description
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&d); err != nil {
		return nil, fmt.Errorf("a machine's description: %w", err)
	}
	if _, err := decoder.Token(); !errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("a machine's description: more than one JSON value")
	}
	m, err := d.machine()
	if err != nil {
		return nil, fmt.Errorf("machine %q: %w", clip(d.Name), err)
	}
	return m, nil
}

func (d *description) machine() (*Machine, error) {
	places, err := d.places()
	if err != nil {
		return nil, err
	}
	nodes, err := d.nodes()
	if err != nil {
		return nil, err
	}
	m, err := assemble(places, nodes)
	if err != nil {
		return nil, err
	}
	m.Name = d.Name
	m.Isolated = d.Isolated
	return m, nil
}

func (d *description) places() ([]place, error) {
	type coreKey struct{ socket, core int }
	cores := map[coreKey]int{}
	places := make([]place, 0, len(d.CPUs))
	for _, c := range d.CPUs {
		if c.ID < 0 || c.ID > cpuset.MaxID {
			return nil, fmt.Errorf("CPU %w", &cpuset.RangeError{ID: c.ID})
		}
		key := coreKey{c.Socket, c.Core}
		if _, seen := cores[key]; !seen {
			cores[key] = len(cores)
		}
		p := place{
			cpu: c.ID, core: cores[key], pkg: c.Socket, cache: none, node: c.NUMA, coreID: c.Core, packageID: c.Socket,
			from: source{pkg: "socket", cache: "llc", node: "numa"},
		}
		if c.NUMA < 0 {
			return nil, fmt.Errorf("numa: CPU %d is on NUMA node %d, and nodes count from 0", c.ID, c.NUMA)
		}
		if c.LLC != nil {
			if p.cache = *c.LLC; p.cache < 0 {
				return nil, fmt.Errorf("llc: CPU %d has last-level cache %d, and caches count from 0: leave it out where there is none", c.ID, p.cache)
			}
		}
		places = append(places, p)
	}
	return places, nil
}

func (d *description) nodes() ([]Node, error) {
	nodes := make([]Node, 0, len(d.NUMANodes))
	for _, n := range d.NUMANodes {
		if n.ID < 0 || n.ID > cpuset.MaxID {
			return nil, fmt.Errorf("NUMA node %w", &cpuset.RangeError{ID: n.ID})
		}
		if n.MemoryKiB > maxKiB {
			return nil, fmt.Errorf("NUMA node %d: %d KiB is no amount of memory", n.ID, n.MemoryKiB)
		}
		if n.Distances != nil && len(n.Distances) != len(d.NUMANodes) {
			return nil, fmt.Errorf("NUMA node %d: it has %d distances, and there are %d nodes", n.ID, len(n.Distances), len(d.NUMANodes))
		}
		node := Node{ID: n.ID, MemoryKiB: n.MemoryKiB, Distances: n.Distances, HugePages: map[uint64]uint64{}}
		for size, count := range n.HugePages {
			kib, err := strconv.ParseUint(size, 10, 64)
			if err != nil || kib == 0 || kib > maxKiB {
				return nil, fmt.Errorf("NUMA node %d: %q is no size of huge pages in KiB", n.ID, clip(size))
			}
			node.HugePages[kib] = count
		}
		if err := checkHugePages(&node); err != nil {
			return nil, err
		}
		nodes = append(nodes, node)
	}
	return nodes, nil
}
