package main

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"

	"github.com/spf13/pflag"

	"nri-cpuset/allocator"
	"nri-cpuset/config"
	"nri-cpuset/topology"
	"nri-cpuset/topology/cpuset"
)

const validateHelp = `Check a configuration file for a node, without running. Prints the settings in force on that node and, with --sysfs, what they reserve of its
machine and what they leave to give. Without --sysfs, whether the settings go together and fit the machine is not checked.

The exit status is 0 where the file is valid, 1 where it is not, and 2 where it or the machine cannot be read.

Examples:
  nri-cpuset validate --config config.yaml --node-name db-1
  nri-cpuset validate --config config.yaml --sysfs /sys
`

type validateFlags struct {
	config, node, sysfs string
}

func validateCommand(args []string, stdout, stderr io.Writer) int {
	var f validateFlags
	flags := pflag.NewFlagSet("validate", pflag.ContinueOnError)
	flags.StringVar(&f.config, "config", "/etc/nri-cpuset/config.yaml", "the configuration `FILE`")
	flags.StringVar(&f.node, "node-name", defaultNodeName(), "the node's `NAME`, by which the configuration's overrides are chosen")
	flags.StringVar(&f.sysfs, "sysfs", "", "the machine, a `DIR` with sysfs or a described machine's .json file")
	if status, stop := parseFlags(flags, args, stdout, stderr, validateHelp); stop {
		return status
	}
	err := f.run(stdout)
	invalid, isInvalid := errors.AsType[*invalidError](err)
	switch {
	case err == nil:
		return exitDone
	case isInvalid:
		for line := range strings.Lines(invalid.Error()) {
			fmt.Fprintf(stderr, "nri-cpuset validate: %s\n", strings.TrimSuffix(line, "\n"))
		}
		return exitNo
	default:
		return fail(stderr, "validate", err)
	}
}

// invalidError is the answer no: a file that can be read and is wrong.
type invalidError struct{ error }

func (e *invalidError) Unwrap() error { return e.error }

func (f *validateFlags) run(stdout io.Writer) error {
	cfg, err := config.Load(f.config, f.node)
	if _, isWrong := errors.AsType[*config.Error](err); isWrong {
		return &invalidError{err}
	} else if err != nil {
		return err
	}
	policy, err := cfg.Policy()
	if err == nil {
		err = policy.Check()
	}
	if err != nil {
		return &invalidError{fmt.Errorf("%s: %w", f.config, err)}
	}
	var given *allocator.Allocator
	if f.sysfs != "" {
		machine, err := readMachine(f.sysfs)
		if err != nil {
			return err
		}
		if given, err = allocator.New(machine, policy); err != nil {
			return &invalidError{fmt.Errorf("%s: on node %s, with the machine of %s: %w", f.config, f.node, f.sysfs, err)}
		}
	}

	fmt.Fprintf(stdout, "# %s: the settings in force on node %s\n%s", f.config, f.node, cfg)
	if given == nil {
		fmt.Fprint(stdout, "\n# Not checked against a machine: give --sysfs.\n")
		return nil
	}
	fmt.Fprintf(stdout, "\n# the machine of %s\n", f.sysfs)
	return printPools(stdout, given)
}

// printPools writes what a policy makes of a machine on which nothing is taken, as comments, so that all of the output is YAML.
func printPools(stdout io.Writer, a *allocator.Allocator) error {
	m := a.Machine()
	table := tabwriter.NewWriter(stdout, 0, 0, 2, ' ', 0)
	row := func(name string, cpus cpuset.Set, note string) {
		fmt.Fprintf(table, "#   %s\t%d\t%s\t%s\n", name, cpus.Len(), cpus, note)
	}
	row("online", m.Online, fmt.Sprintf("packages: %d, NUMA nodes: %d, cores: %d", len(m.Packages), len(m.Nodes), len(m.Cores)))
	if a.Policy().CPUManager == allocator.CPUManagerNone {
		row("shared", m.Online, "nobody is pinned")
		return table.Flush()
	}
	row("reserved", a.Reserved(), "never exclusive")
	if !m.Isolated.IsEmpty() {
		row("isolated", m.Isolated, string(a.Policy().Isolated))
	}
	row("shared", a.Shared(a.NewUsage()), "while nobody has exclusive CPUs")
	row("exclusive", a.Assignable(), "at most; "+perNode(m, a.Assignable()))
	return table.Flush()
}

// perNode tells how many of the CPUs are on each NUMA node.
func perNode(m *topology.Machine, cpus cpuset.Set) string {
	var parts []string
	for i := range m.Nodes {
		if n := m.Nodes[i].CPUs.IntersectLen(cpus); n > 0 {
			parts = append(parts, fmt.Sprintf("node %d: %d", m.Nodes[i].ID, n))
		}
	}
	return strings.Join(parts, ", ")
}
