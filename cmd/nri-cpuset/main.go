// Command nri-cpuset pins the CPUs and the memory of Kubernetes containers before they start.
package main

import (
	"fmt"
	"io"
	"os"
	"runtime/debug"
	"text/tabwriter"
)

// Set by the Makefile; `go build` alone leaves them to the build information.
var (
	version  = ""
	revision = ""
)

// Exit statuses: what was asked was done; it ran, and the answer is no; it could not run.
const (
	exitDone  = 0
	exitNo    = 1
	exitError = 2
)

// command is one of our commands. Its function gets what follows its name, and returns the exit status.
type command struct {
	name, summary string
	run           func(args []string, stdout, stderr io.Writer) int
}

func commands() []command {
	return []command{
		{"run", "the plugin: pin containers before they start", runCommand},
		{"simulate", "replay pods on a machine, real or described, without a runtime", simulateCommand},
		{"topology", "what the machine looks like", topologyCommand},
		{"status", "who owns which CPU, and why, on this node", statusCommand},
		{"validate", "check a configuration file for a node, without running", validateCommand},
		{"doctor", "check a node: what is missing, what is in the way, and what to do", doctorCommand},
		{"version", "which version this is", versionCommand},
	}
}

func main() { os.Exit(dispatch(os.Args[1:], os.Stdout, os.Stderr)) }

func dispatch(args []string, stdout, stderr io.Writer) int {
	if len(args) == 0 {
		usage(stderr)
		return exitError
	}
	switch args[0] {
	case "help", "-h", "--help":
		usage(stdout)
		return exitDone
	case "--version":
		return versionCommand(nil, stdout, stderr)
	}
	for _, c := range commands() {
		if c.name == args[0] {
			return c.run(args[1:], stdout, stderr)
		}
	}
	fmt.Fprintf(stderr, "nri-cpuset: there is no command %q; nri-cpuset --help lists them\n", args[0])
	return exitError
}

func usage(w io.Writer) {
	fmt.Fprint(w, "nri-cpuset pins the CPUs and the memory of Kubernetes containers before they start.\n\nUsage: nri-cpuset COMMAND [flags]\n\n")
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	for _, c := range commands() {
		fmt.Fprintf(table, "  %s\t%s\n", c.name, c.summary)
	}
	_ = table.Flush()
	fmt.Fprint(w, "\nnri-cpuset COMMAND --help explains a command's flags, with an example.\n")
}

// versionText is the version and revision, as far as they are known.
func versionText() string {
	v, r := version, revision
	if info, ok := debug.ReadBuildInfo(); ok {
		if v == "" {
			v = info.Main.Version
		}
		for _, s := range info.Settings {
			if s.Key == "vcs.revision" && r == "" {
				r = s.Value
			}
		}
	}
	if v == "" || v == "(devel)" {
		v = "devel"
	}
	if r == "" {
		return v
	}
	return v + " (" + r + ")"
}

func versionCommand(_ []string, stdout, _ io.Writer) int {
	fmt.Fprintln(stdout, "nri-cpuset", versionText())
	return exitDone
}
