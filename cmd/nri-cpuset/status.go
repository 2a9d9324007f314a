package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"text/tabwriter"
	"time"

	"github.com/spf13/pflag"

	"nri-cpuset/plugin"
)

const statusHelp = `Show who owns which CPU on this node, and why: what the running plugin says at /api/v1/state.

Example:
  nri-cpuset status --address 127.0.0.1:9178
`

func statusCommand(args []string, stdout, stderr io.Writer) int {
	var address, output string
	flags := pflag.NewFlagSet("status", pflag.ContinueOnError)
	flags.StringVar(&address, "address", "127.0.0.1:9178", "`ADDR` that the plugin serves (its --listen)")
	flags.StringVar(&output, "output", "text", "`FORMAT`: text or json")
	if status, stop := parseFlags(flags, args, stdout, stderr, statusHelp); stop {
		return status
	}
	if output != "text" && output != "json" {
		return fail(stderr, "status", fmt.Errorf("--output %q is neither text nor json", output))
	}
	text, err := fetch("http://" + address + "/api/v1/state")
	if err != nil {
		return fail(stderr, "status", fmt.Errorf("the plugin does not answer at %s (is it running, with that --listen?): %w", address, err))
	}
	if output == "json" {
		_, _ = stdout.Write(text)
		return exitDone
	}
	var r plugin.Report
	if err := json.Unmarshal(text, &r); err != nil {
		return fail(stderr, "status", fmt.Errorf("what %s says is no state: %w", address, err))
	}
	writeStatus(stdout, &r)
	return exitDone
}

// maxState bounds what is read of an answer.
const maxState = 64 << 20

func fetch(url string) ([]byte, error) {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return nil, err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("it answers %s", response.Status)
	}
	return io.ReadAll(io.LimitReader(response.Body, maxState))
}

func writeStatus(w io.Writer, r *plugin.Report) {
	fmt.Fprintf(w, "node %s, nri-cpuset %s, policy %s\n", r.Node, r.Version, r.Policy)
	if r.Runtime == nil {
		fmt.Fprintln(w, "NOT CONNECTED to a runtime")
	} else {
		fmt.Fprintf(w, "runtime %s %s, NRI %s\n", r.Runtime.Name, r.Runtime.Version, r.Runtime.NRI)
	}
	if r.ConfigErr != "" {
		fmt.Fprintf(w, "THE CONFIGURATION FILE IS NOT USED: %s\n", r.ConfigErr)
	}
	if r.StateErr != "" {
		fmt.Fprintf(w, "THE STATE FILE CANNOT BE WRITTEN: %s\n", r.StateErr)
	}
	fmt.Fprintf(w, "online %s, shared %s, exclusive %s, reserved %s, isolated %s\n\n",
		orDash(r.Online.String()), orDash(r.Shared.String()), orDash(r.Exclusive.String()), orDash(r.Reserved.String()), orDash(r.Isolated.String()))
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "POD\tCONTAINER\tCPUS\tMEMS\tPHASE\tSINCE\tWHY")
	for i := range r.Containers {
		c := &r.Containers[i]
		cpus := "shared"
		if c.Exclusive {
			cpus = c.CPUs.String()
		}
		why := c.Why
		if c.Unsettled != "" {
			why = "UNSETTLED: " + c.Unsettled
		}
		fmt.Fprintf(table, "%s/%s\t%s\t%s\t%s\t%s\t%s\t%s\n", c.Namespace, c.Pod, c.Name, cpus, orDash(c.Mems.String()), c.Phase,
			c.Since.UTC().Format(time.RFC3339), why)
	}
	_ = table.Flush()
	for i, refusal := range r.Refusals {
		if i == 0 {
			fmt.Fprintln(w, "\nrefused lately:")
		}
		fmt.Fprintf(w, "  %s %s/%s %s: %s\n", refusal.Time.UTC().Format(time.RFC3339), refusal.Namespace, refusal.Pod, refusal.Container, refusal.Message)
	}
}

func orDash(s string) string {
	if s == "" {
		return "-"
	}
	return s
}
