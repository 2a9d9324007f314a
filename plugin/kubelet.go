package plugin

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"nri-cpuset/allocator"
)

// The kubelet's own managers write cpusets too. Where one of them is on, we and the kubelet would undo each other's work, container by
// container, so we leave that part to the kubelet and say so as loudly as we can.

// kubeletManagers says which of the kubelet's managers place containers on this node.
type kubeletManagers struct {
	cpu, memory bool
}

// The kubelet's state files, in its root directory, and the policies that place containers.
const (
	cpuManagerState    = "cpu_manager_state"
	memoryManagerState = "memory_manager_state"
	maxKubeletState    = 1 << 20
)

// readKubelet looks at the state files in the kubelet's root directory. One that is not there belongs to a manager that never ran.
func readKubelet(root string) (kubeletManagers, error) {
	if root == "" {
		return kubeletManagers{}, nil
	}
	cpu, cpuErr := managerPolicy(filepath.Join(root, cpuManagerState))
	memory, memoryErr := managerPolicy(filepath.Join(root, memoryManagerState))
	return kubeletManagers{
		cpu:    cpu == string(allocator.CPUManagerStatic),
		memory: memory == string(allocator.MemoryManagerStatic),
	}, errors.Join(cpuErr, memoryErr)
}

// KubeletPins tells whether the kubelet's own CPU and memory managers pin containers, by the state files in its root directory
// (/var/lib/kubelet).
func KubeletPins(root string) (cpu, memory bool, err error) {
	k, err := readKubelet(root)
	return k.cpu, k.memory, err
}

func managerPolicy(path string) (string, error) {
	file, err := os.Open(path) //nolint:gosec // the operator's --kubelet-root-dir
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	if err != nil {
		return "", fmt.Errorf("looking for the kubelet's managers: %w", err)
	}
	defer file.Close() //nolint:errcheck // it was only read
	var state struct {
		PolicyName string `json:"policyName"`
	}
	if err := json.NewDecoder(io.LimitReader(file, maxKubeletState)).Decode(&state); err != nil {
		return "", fmt.Errorf("looking for the kubelet's managers: %s: %w", path, err)
	}
	return state.PolicyName, nil
}

// yield takes out of a policy what the kubelet does itself, and says what that is; "" for nothing.
func (k kubeletManagers) yield(p *allocator.Policy) string {
	var conflicts []string
	if k.cpu && p.CPUManager == allocator.CPUManagerStatic {
		p.CPUManager, p.Options = allocator.CPUManagerNone, allocator.Options{}
		conflicts = append(conflicts, "cpuManagerPolicy: static")
	}
	if k.memory && p.MemoryManager == allocator.MemoryManagerStatic {
		p.MemoryManager, p.ReservedMemory = allocator.MemoryManagerNone, nil
		conflicts = append(conflicts, "memoryManagerPolicy: Static")
	}
	if len(conflicts) == 0 {
		return ""
	}
	return fmt.Sprintf("the kubelet on this node has %s and pins containers itself; nri-cpuset does not, so that they do not undo each other's "+
		"work: set the kubelet's to none and remove its state file, or, if you know better, start with --kubelet-root-dir \"\"",
		strings.Join(conflicts, " and "))
}
