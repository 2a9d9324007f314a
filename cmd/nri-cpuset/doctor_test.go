package main

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"nri-cpuset/plugin/doctor"
)

func TestDoctor(t *testing.T) {
	bare := t.TempDir() // a node with nothing on it
	file := filepath.Join(bare, "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		name           string
		args           []string
		status         int
		stdout, stderr string
	}{
		{"help", []string{"--help"}, exitDone, "Usage: nri-cpuset doctor", ""},
		{"a node with problems", []string{"--host-root", bare}, exitNo, "problem  NRI socket", ""},
		{"the sum", []string{"--host-root", bare, "--node-name", "db-1"}, exitNo, "\nnode db-1: problems: ", ""},
		{"a remedy", []string{"--host-root", bare}, exitNo, "-> enable NRI in the runtime", ""},
		{"no such root", []string{"--host-root", filepath.Join(bare, "no")}, exitError, "", "--host-root"},
		{"a root that is a file", []string{"--host-root", file}, exitError, "", "is no directory"},
		{"no such output", []string{"--output", "yaml"}, exitError, "", "text or json"},
		{"no such address", []string{"--address", "here"}, exitError, "", "HOST:PORT"},
		{"no such flag", []string{"--fix"}, exitError, "", "unknown flag"},
	} {
		t.Run(test.name, func(t *testing.T) {
			var stdout, stderr bytes.Buffer
			args := append([]string{"doctor", "--config", filepath.Join(bare, "config.yaml"), "--address", ""}, test.args...)
			if got := dispatch(args, &stdout, &stderr); got != test.status {
				t.Errorf("status %d, want %d", got, test.status)
			}
			if !strings.Contains(stdout.String(), test.stdout) || !strings.Contains(stderr.String(), test.stderr) {
				t.Errorf("stdout:\n%s\nstderr:\n%s\nwant %q and %q", &stdout, &stderr, test.stdout, test.stderr)
			}
		})
	}
}

func TestDoctorJSON(t *testing.T) {
	var stdout, stderr bytes.Buffer
	args := []string{"doctor", "--host-root", t.TempDir(), "--config", "/no/such.yaml", "--address", "", "--node-name", "db-1", "--output", "json"}
	if got := dispatch(args, &stdout, &stderr); got != exitNo {
		t.Errorf("status %d, want %d: %s", got, exitNo, &stderr)
	}
	var report doctor.Report
	if err := json.Unmarshal(stdout.Bytes(), &report); err != nil {
		t.Fatalf("%v in:\n%s", err, &stdout)
	}
	if report.Node != "db-1" || report.Count(doctor.Problem) == 0 || !strings.Contains(stdout.String(), `"severity": "problem"`) {
		t.Errorf("%s\nwant node db-1 with problems", &stdout)
	}
}
