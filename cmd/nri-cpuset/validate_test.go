package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// machine is two packages of six cores with two threads each: core 0 is CPUs 0 and 12.
const machine = "../../test/conformance/testdata/topologies/server-2s-2n-12c-24t.json"

func TestValidate(t *testing.T) {
	for _, test := range []struct {
		name       string
		text       string
		args       []string
		wantStatus int
		wantOut    []string // in standard output, in this order
		wantErr    string   // all of standard error, with FILE for the file's path
	}{
		{
			name: "without a machine", text: "cpuManagerPolicy: static\nsystemReserved: {cpu: 500m}\n",
			wantOut: []string{"cpuManagerPolicy: static\n", "  cpu: 500m\n", "auditInterval: 30s\n", "# Not checked against a machine: give --sysfs.\n"},
		},
		{
			name: "the override for the node", text: "nodes: [{names: [\"db-*\"], config: {cpuManagerPolicy: static, reservedSystemCPUs: \"0\"}}]", args: []string{"--node-name", "db-1"},
			wantOut: []string{"in force on node db-1\n", "cpuManagerPolicy: static\n"},
		},
		{
			name: "what contradicts itself on any machine", wantStatus: exitNo,
			text: "{cpuManagerPolicy: static, reservedSystemCPUs: \"0\", " +
				"cpuManagerPolicyOptions: {full-pcpus-only: \"true\", distribute-cpus-across-cores: \"true\"}}",
			wantErr: "nri-cpuset validate: FILE: cpuManagerPolicyOptions: distribute-cpus-across-cores and full-pcpus-only exclude each other\n",
		},
		{
			name: "with a machine", text: "cpuManagerPolicy: static\nsystemReserved: {cpu: \"2\"}\n", args: []string{"--sysfs", machine},
			wantOut: []string{
				"#   online     24  0-23        packages: 2, NUMA nodes: 2, cores: 12\n", "#   reserved   2   0,12        never exclusive\n",
				"#   shared     24  0-23        while nobody has exclusive CPUs\n", "#   exclusive  22  1-11,13-23  at most; node 0: 10, node 1: 12\n",
			},
		},
		{
			name: "strict reservation", text: "{cpuManagerPolicy: static, reservedSystemCPUs: \"0-3\", cpuManagerPolicyOptions: {strict-cpu-reservation: \"true\"}}",
			args:    []string{"--sysfs", machine},
			wantOut: []string{"#   reserved   4   0-3 ", "#   shared     20  4-23 ", "#   exclusive  20  4-23 "},
		},
		{
			name: "nobody is pinned", text: "", args: []string{"--sysfs", machine},
			wantOut: []string{"#   online  24  0-23  packages: 2, NUMA nodes: 2, cores: 12\n", "#   shared  24  0-23  nobody is pinned\n"},
		},
		{
			name: "each error in its line", text: "cpuManagerPolicy: dynamic\nnodes:\n- names: [a]\n  config: {full-pcpus-only: true}\n", wantStatus: exitNo,
			wantErr: "nri-cpuset validate: FILE:1: cpuManagerPolicy: \"dynamic\" is none of none, static\n" +
				"nri-cpuset validate: FILE:4: nodes[0].config.full-pcpus-only: unknown field: known are auditInterval, cpuManagerPolicy, " +
				"cpuManagerPolicyOptions, disableCPUQuotaWithExclusiveCPUs, exclusiveScope, ignoredPods, isolatedCPUs, kubeReserved, memoryManagerPolicy, " +
				"podAnnotations, reservedMemory, reservedSystemCPUs, systemReserved, topologyManagerPolicy, topologyManagerPolicyOptions, topologyManagerScope\n",
		},
		{name: "no machine there", text: "", args: []string{"--sysfs", "absent.json"}, wantStatus: exitError, wantErr: "nri-cpuset validate: opening a machine: stat absent.json: no such file or directory\n"},
		{name: "a wrong flag", text: "", args: []string{"--sysf", "x"}, wantStatus: exitError, wantErr: "nri-cpuset validate: unknown flag: --sysf; see nri-cpuset validate --help\n"},
		{name: "help", text: "", args: []string{"--help"}, wantOut: []string{"Usage: nri-cpuset validate [flags]\n", "Examples:\n  nri-cpuset validate --config", "--sysfs DIR"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "config.yaml")
			if err := os.WriteFile(file, []byte(test.text), 0o600); err != nil {
				t.Fatal(err)
			}
			var stdout, stderr bytes.Buffer
			status := validateCommand(append([]string{"--config", file, "--node-name", "web-1"}, test.args...), &stdout, &stderr)
			if status != test.wantStatus {
				t.Errorf("status: got %d, want %d", status, test.wantStatus)
			}
			rest := stdout.String()
			for _, want := range test.wantOut {
				_, after, found := strings.Cut(rest, want)
				if !found {
					t.Errorf("standard output has no %q where it should be:\n%s", want, &stdout)
				}
				rest = after
			}
			if len(test.wantOut) == 0 && rest != "" {
				t.Errorf("standard output: got %q, want nothing", rest)
			}
			if got := strings.ReplaceAll(stderr.String(), file, "FILE"); got != test.wantErr {
				t.Errorf("standard error:\ngot  %q\nwant %q", got, test.wantErr)
			}
		})
	}

	t.Run("a file that is not there", func(t *testing.T) {
		var stdout, stderr bytes.Buffer
		status := validateCommand([]string{"--config", "absent.yaml"}, &stdout, &stderr)
		if want := "nri-cpuset validate: reading the configuration: open absent.yaml: no such file or directory\n"; status != exitError || stderr.String() != want {
			t.Errorf("got status %d and %q, want %d and %q", status, &stderr, exitError, want)
		}
	})
}
