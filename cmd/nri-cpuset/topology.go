package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"

	"github.com/spf13/pflag"

	"nri-cpuset/topology"
)

const topologyHelp = `Show the machine as placement sees it: packages, NUMA nodes, last-level caches, cores, threads and PCI devices.

In the picture the threads of one core stand together, as in 0·64, and the cores of one last-level cache are in [brackets].

The exit status is 0 where the machine was read, 1 where what it says of itself is malformed or contradictory, and 2 where it cannot be read.

Examples:
  nri-cpuset topology
  nri-cpuset topology --output json | jq .numaNodes
  nri-cpuset topology --sysfs machine.json
`

func topologyCommand(args []string, stdout, stderr io.Writer) int {
	flags := pflag.NewFlagSet("topology", pflag.ContinueOnError)
	sysfs := flags.String("sysfs", "/sys", "the machine, a `DIR` with sysfs or a described machine's .json file")
	output := flags.String("output", "text", "`FORMAT` to print: text, a picture, or json")
	if status, stop := parseFlags(flags, args, stdout, stderr, topologyHelp); stop {
		return status
	}
	if *output != "text" && *output != "json" {
		return fail(stderr, "topology", fmt.Errorf("--output is %q: give text or json", *output))
	}
	machine, err := readMachine(*sysfs)
	if err != nil {
		status := fail(stderr, "topology", err)
		if _, unreadable := errors.AsType[*fs.PathError](err); !unreadable {
			status = exitNo
		}
		return status
	}
	if *output == "json" {
		err = json.NewEncoder(stdout).Encode(machine)
	} else {
		err = machine.Draw(stdout, topology.DrawOptions{})
	}
	if err != nil {
		return fail(stderr, "topology", err)
	}
	return exitDone
}

// readMachine reads the machine that a --sysfs flag names: a folder with sysfs, or a described machine's file.
func readMachine(path string) (*topology.Machine, error) { return topology.Open(path) }
