// Package doctor looks at a node from outside of a running plugin: whether what nri-cpuset needs is there, and what stands against it. It
// changes nothing; the one thing it disturbs is the runtime's log, where a connection to the NRI socket that is closed at once leaves a line.
//
// All files are below [Options.HostRoot], so that a pod can look at its node, and a test at a fixture.
package doctor

import (
	"context"
	"fmt"
	"os"
	"slices"

	"nri-cpuset/allocator"
	"nri-cpuset/topology"
)

// Options say where things are. But for ConfigFile and Address they are paths on the node, below HostRoot.
type Options struct {
	HostRoot    string // where the node's files are: / on the node itself
	ConfigFile  string // the configuration; in a pod it is a mount of its own, so HostRoot does not apply; empty: not looked at
	NodeName    string // by which the configuration's overrides are chosen
	Socket      string // the runtime's NRI socket
	Sysfs       string // where sysfs is mounted
	CgroupRoot  string // where cgroups are mounted; empty: cgroups are not written
	StateDir    string // the plugin's state directory
	KubeletRoot string // the kubelet's root directory
	Address     string // HOST:PORT where a running plugin answers; empty: it is not asked
}

// Severity is how bad a finding is.
type Severity string

// From nothing to do, over what weakens a promise or is worth a look, to what keeps the plugin from doing its work.
const (
	OK      Severity = "ok"
	Warning Severity = "warning"
	Problem Severity = "problem"
)

// Finding is the outcome of one check.
type Finding struct {
	Check    string   `json:"check"`
	Severity Severity `json:"severity"`
	Seen     string   `json:"seen"`
	Remedy   string   `json:"remedy,omitempty"` // what to do; empty where there is nothing to do
}

// Report is what was found on a node.
type Report struct {
	Node     string    `json:"node"`
	Findings []Finding `json:"findings"`
}

// Count returns how many findings are that bad.
func (r *Report) Count(s Severity) int {
	n := 0
	for i := range r.Findings {
		if r.Findings[i].Severity == s {
			n++
		}
	}
	return n
}

// Examine makes all checks. The error says that none could be made: HostRoot is no directory.
func Examine(ctx context.Context, o Options) (*Report, error) {
	if info, err := os.Stat(o.HostRoot); err != nil {
		return nil, fmt.Errorf("--host-root: %w", err)
	} else if !info.IsDir() {
		return nil, fmt.Errorf("--host-root %s is no directory", o.HostRoot)
	}
	e := &examination{Options: o, host: host{root: o.HostRoot}, report: &Report{Node: o.NodeName}}
	e.kernel()
	e.topology()
	e.configuration()
	e.isolated()
	e.cgroups()
	e.kubelet()
	e.socket(ctx)
	e.runtime()
	e.otherPlugins()
	e.hugePages()
	e.stateDirectory()
	e.running(ctx)
	return e.report, nil
}

// examination is one run, with what earlier checks have found out for later ones.
type examination struct {
	Options
	host   host
	report *Report

	machine *topology.Machine     // nil: not readable
	policy  *allocator.Policy     // nil: not readable
	config  *runtimeConfiguration // nil: none seen
}

func (e *examination) ok(check, format string, args ...any) {
	e.add(Finding{Check: check, Severity: OK, Seen: fmt.Sprintf(format, args...)})
}

func (e *examination) warn(check, remedy, format string, args ...any) {
	e.add(Finding{Check: check, Severity: Warning, Seen: fmt.Sprintf(format, args...), Remedy: remedy})
}

func (e *examination) problem(check, remedy, format string, args ...any) {
	e.add(Finding{Check: check, Severity: Problem, Seen: fmt.Sprintf(format, args...), Remedy: remedy})
}

func (e *examination) add(f Finding) { e.report.Findings = append(e.report.Findings, f) }

// pins tells whether the configuration has the plugin pin CPUs; where it is not known, it may.
func (e *examination) pins() bool {
	return e.policy == nil || e.policy.CPUManager == allocator.CPUManagerStatic
}

// bindsMemory tells whether the configuration has the plugin bind memory; where it is not known, it may.
func (e *examination) bindsMemory() bool {
	return e.policy == nil || e.policy.MemoryManager == allocator.MemoryManagerStatic
}

// has tells whether a list of words, as the kernel writes them, has a word.
func has(words []string, word string) bool { return slices.Contains(words, word) }
