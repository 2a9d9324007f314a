package topology

import (
	"fmt"
	"strconv"
	"strings"
)

// readGPUNodes reads which NUMA nodes are the memory of an NVIDIA GPU, with the PCI address of the GPU: POWER9 with NVLink and Grace Hopper
// have them. The kernel shows such a node as any other one without CPUs; only the driver tells whose it is, in
// proc/driver/nvidia/gpus/ADDRESS/numa_status.
func readGPUNodes(sys tree) (map[int]string, error) {
	nodes := map[int]string{}
	proc, err := sys.proc()
	if absent(err) {
		return nodes, nil
	}
	if err != nil {
		return nil, err
	}
	defer proc.close()
	gpus, err := proc.folder("driver/nvidia/gpus")
	if absent(err) {
		return nodes, nil
	}
	if err != nil {
		return nil, err
	}
	defer gpus.close()
	addresses, err := gpus.names()
	if err != nil {
		return nil, err
	}
	for _, address := range addresses {
		gpu, err := gpus.folder(address)
		if err != nil {
			return nil, err
		}
		text, err := gpu.read("numa_status")
		gpu.close()
		if absent(err) {
			continue // a GPU whose memory is its own
		}
		if err != nil {
			return nil, err
		}
		node, err := parseNUMAStatus(text)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", gpu.path("numa_status"), err)
		}
		nodes[node] = address
	}
	return nodes, nil
}

// parseNUMAStatus finds the line "Node: 252". It returns -1 where there is none, or while the GPU's memory is on no node.
func parseNUMAStatus(text string) (node int, err error) {
	for line := range strings.Lines(text) {
		value, ok := strings.CutPrefix(line, "Node:")
		if !ok {
			continue
		}
		if node, err = strconv.Atoi(strings.TrimSpace(value)); err != nil {
			return 0, fmt.Errorf("%q names no node", clip(line))
		}
		return node, nil
	}
	return none, nil
}
