package config

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"testing"

	"go.yaml.in/yaml/v3"

	"nri-cpuset/allocator"
)

func TestShippedExample(t *testing.T) {
	for node, want := range map[string]allocator.CPUManager{
		"web-1": allocator.CPUManagerStatic, "edge-3": allocator.CPUManagerNone, "db-1": allocator.CPUManagerStatic, "trade-7": allocator.CPUManagerStatic,
	} {
		c, err := Load("../deploy/config-example.yaml", node)
		if err != nil {
			t.Fatal(err)
		}
		if c.CPUManagerPolicy != want {
			t.Errorf("%s: cpuManagerPolicy: got %s, want %s", node, c.CPUManagerPolicy, want)
		}
	}
}

// TestShippedConfigMap shows that installing the manifest as it is moves nobody.
func TestShippedConfigMap(t *testing.T) {
	c, err := Parse([]byte(configMap(t, "../deploy/daemonset.yaml")), "db-1")
	if err != nil {
		t.Fatal(err)
	}
	if c.String() != Default().String() {
		t.Errorf("got\n%s\nwant the defaults", c)
	}
}

// configMap returns config.yaml of the ConfigMap in a manifest.
func configMap(t *testing.T, file string) string {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	decoder := yaml.NewDecoder(bytes.NewReader(text))
	for {
		var object struct {
			Kind string
			Data map[string]string
		}
		if err := decoder.Decode(&object); err != nil {
			t.Fatalf("no ConfigMap: %v", err)
		}
		if object.Kind == "ConfigMap" {
			return object.Data["config.yaml"]
		}
	}
}

// TestScenarios reads the settings of all of the kubelet's answers: JSON that the kubelet itself took.
func TestScenarios(t *testing.T) {
	files, err := filepath.Glob("../test/conformance/testdata/scenarios/*.jsonl")
	if err != nil || len(files) == 0 {
		t.Fatalf("no scenarios: %v", err)
	}
	read := 0
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		decoder := json.NewDecoder(bytes.NewReader(text))
		for {
			var scenario struct {
				Name   string
				Config json.RawMessage
			}
			if err := decoder.Decode(&scenario); errors.Is(err, io.EOF) {
				break
			} else if err != nil {
				t.Fatalf("%s: %v", file, err)
			}
			c, err := Parse(scenario.Config, "")
			if err != nil {
				t.Errorf("%s: %v", scenario.Name, err)
				continue
			}
			if _, err := c.Policy(); err != nil {
				t.Errorf("%s: %v", scenario.Name, err)
			}
			read++
		}
	}
	if read != 660 {
		t.Errorf("read the settings of %d scenarios, want 660", read)
	}
}
