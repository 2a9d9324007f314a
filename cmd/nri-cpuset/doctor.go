package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"text/tabwriter"

	"github.com/spf13/pflag"

	"nri-cpuset/plugin/doctor"
)

const doctorHelp = `Check a node: whether NRI is on and answers, whether the kubelet pins containers too, cgroups, isolated CPUs, huge pages, the configuration, other
NRI plugins, and a running nri-cpuset. Each finding is ok, a warning or a problem, and says what to do. Nothing is changed.

In a pod, mount the node's root directory and name it with --host-root; all paths but --config are below it.

The exit status is 0 where there is no problem, 1 where there is one, and 2 where nothing could be checked.

Examples:
  nri-cpuset doctor
  nri-cpuset doctor --host-root /host --config /etc/nri-cpuset/config.yaml --output json
`

func doctorCommand(args []string, stdout, stderr io.Writer) int {
	var o doctor.Options
	flags := pflag.NewFlagSet("doctor", pflag.ContinueOnError)
	flags.StringVar(&o.HostRoot, "host-root", "/", "`DIR` where the node's files are")
	flags.StringVar(&o.ConfigFile, "config", "/etc/nri-cpuset/config.yaml", "the configuration `FILE`; not below --host-root; \"\" does not look at it")
	flags.StringVar(&o.NodeName, "node-name", defaultNodeName(), "the node's `NAME`, by which the configuration's overrides are chosen")
	flags.StringVar(&o.Socket, "nri-socket", "/var/run/nri/nri.sock", "the runtime's NRI socket, a `PATH`")
	flags.StringVar(&o.Sysfs, "sysfs", "/sys", "`DIR` where sysfs is mounted")
	flags.StringVar(&o.CgroupRoot, "cgroup-root", "/sys/fs/cgroup", "`DIR` where cgroups are mounted; \"\" as for run")
	flags.StringVar(&o.StateDir, "state-dir", "/run/nri-cpuset", "`DIR` of the state file")
	flags.StringVar(&o.KubeletRoot, "kubelet-root-dir", "/var/lib/kubelet", "the kubelet's root `DIR`")
	flags.StringVar(&o.Address, "address", "127.0.0.1:9178", "`ADDR` that a running plugin serves, its --listen; \"\" does not ask")
	output := flags.String("output", "text", "`FORMAT` to print: text or json")
	if status, stop := parseFlags(flags, args, stdout, stderr, doctorHelp); stop {
		return status
	}
	if *output != "text" && *output != "json" {
		return fail(stderr, "doctor", fmt.Errorf("--output is %q: give text or json", *output))
	}
	if o.Address != "" && !isHostPort(o.Address) {
		return fail(stderr, "doctor", fmt.Errorf("--address is %q: give HOST:PORT, as in the plugin's --listen", o.Address))
	}
	report, err := doctor.Examine(context.Background(), o)
	if err != nil {
		return fail(stderr, "doctor", err)
	}
	if *output == "json" {
		encoder := json.NewEncoder(stdout)
		encoder.SetEscapeHTML(false)
		encoder.SetIndent("", " ")
		err = encoder.Encode(report)
	} else {
		err = writeDoctor(stdout, report)
	}
	switch {
	case err != nil:
		return fail(stderr, "doctor", err)
	case report.Count(doctor.Problem) > 0:
		return exitNo
	default:
		return exitDone
	}
}

// writeDoctor writes a line for each finding, and one for its remedy.
func writeDoctor(w io.Writer, r *doctor.Report) error {
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	for i := range r.Findings {
		f := &r.Findings[i]
		fmt.Fprintf(table, "%s\t%s\t%s\n", f.Severity, f.Check, f.Seen)
		if f.Remedy != "" {
			fmt.Fprintf(table, "\t\t-> %s\n", f.Remedy)
		}
	}
	if err := table.Flush(); err != nil {
		return err
	}
	_, err := fmt.Fprintf(w, "\nnode %s: problems: %d, warnings: %d\n", r.Node, r.Count(doctor.Problem), r.Count(doctor.Warning))
	return err
}
