package kubepod

import (
	"encoding/json"
	"strings"
	"testing"
)

// parse reads a pod in the form that a scenario has it in.
func parse(t *testing.T, text string) *Pod {
	t.Helper()
	var p Pod
	decoder := json.NewDecoder(strings.NewReader(text))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&p); err != nil {
		t.Fatalf("decoding %s: %v", text, err)
	}
	return &p
}

func TestQoS(t *testing.T) {
	for _, test := range []struct {
		name string
		pod  string
		want QoS
	}{
		{"nothing asked", `{"name":"p","containers":[{"name":"c"}]}`, BestEffort},
		{"zeros asked", `{"name":"p","containers":[{"name":"c","requests":{"cpu":"0"}}]}`, BestEffort},
		{"another resource only", `{"name":"p","containers":[{"name":"c","limits":{"hugepages-2Mi":"2Mi"}}]}`, BestEffort},
		{"a request only", `{"name":"p","containers":[{"name":"c","requests":{"cpu":"100m"}}]}`, Burstable},
		{"limits alone", `{"name":"p","containers":[{"name":"c","limits":{"cpu":"2","memory":"1Gi"}}]}`, Guaranteed},
		{
			"requests equal to limits in other words",
			`{"name":"p","containers":[{"name":"c","requests":{"cpu":"2000m","memory":"1024Mi"},"limits":{"cpu":2,"memory":"1Gi"}}]}`, Guaranteed,
		},
		{"memory not limited", `{"name":"p","containers":[{"name":"c","requests":{"cpu":"2","memory":"1Gi"},"limits":{"cpu":"2"}}]}`, Burstable},
		{"a lower request", `{"name":"p","containers":[{"name":"c","requests":{"cpu":"1"},"limits":{"cpu":"2","memory":"1Gi"}}]}`, Burstable},
		{
			"a second container without limits",
			`{"name":"p","containers":[{"name":"c","limits":{"cpu":"2","memory":"1Gi"}},{"name":"d"}]}`, Burstable,
		},
		{
			"an init container without limits",
			`{"name":"p","initContainers":[{"name":"i"}],"containers":[{"name":"c","limits":{"cpu":"2","memory":"1Gi"}}]}`, Burstable,
		},
		{"limits everywhere", `{"name":"p","initContainers":[{"name":"i","limits":{"cpu":"100m","memory":"1Mi"}}],
			"containers":[{"name":"c","limits":{"cpu":"2","memory":"1Gi"}}]}`, Guaranteed},
	} {
		t.Run(test.name, func(t *testing.T) {
			if got := parse(t, test.pod).QoS(); got != test.want {
				t.Errorf("QoS() = %s, want %s", got, test.want)
			}
		})
	}
}

func TestCheck(t *testing.T) {
	for _, test := range []struct {
		name string
		pod  string
		want string // part of the error; empty: none
	}{
		{"good", `{"name":"p","initContainers":[{"name":"s","restartPolicy":"Always"}],"containers":[{"name":"c","requests":{"cpu":"1"}}]}`, ""},
		{"no name", `{"containers":[{"name":"c"}]}`, "without a name"},
		{"no containers", `{"name":"p","containers":[]}`, "no containers"},
		{"a container without a name", `{"name":"p","containers":[{}]}`, "container without a name"},
		{"one name twice", `{"name":"p","initContainers":[{"name":"c"}],"containers":[{"name":"c"}]}`, `two containers named "c"`},
		{"request above limit", `{"name":"p","containers":[{"name":"c","requests":{"cpu":"2"},"limits":{"cpu":"1"}}]}`, "2 cpu is above its limit of 1"},
		{"negative request", `{"name":"p","containers":[{"name":"c","requests":{"cpu":"-1"}}]}`, "-1 cpu is negative"},
		{"negative limit", `{"name":"p","containers":[{"name":"c","limits":{"memory":"-1"}}]}`, "-1 memory is negative"},
		{"unknown restart policy", `{"name":"p","initContainers":[{"name":"c","restartPolicy":"Sometimes"}],"containers":[{"name":"d"}]}`, "Sometimes"},
		{"restart policy of an app container", `{"name":"p","containers":[{"name":"c","restartPolicy":"Always"}]}`, "only an init container"},
	} {
		t.Run(test.name, func(t *testing.T) {
			err := parse(t, test.pod).Check()
			if test.want == "" {
				if err != nil {
					t.Errorf("Check() = %v, want nil", err)
				}
				return
			}
			if err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("Check() = %v, want an error with %q", err, test.want)
			}
		})
	}
}

// The numbers are the kubelet's, worked out by hand from KEP-753's formula.
func TestTotal(t *testing.T) {
	for _, test := range []struct {
		name string
		pod  string
		want int64 // thousandths of a CPU
	}{
		{"containers add up", `{"name":"p","containers":[{"name":"a","requests":{"cpu":"1500m"}},{"name":"b","requests":{"cpu":"2"}}]}`, 3500},
		{"an init container that needs less", `{"name":"p","initContainers":[{"name":"i","requests":{"cpu":"1"}}],
			"containers":[{"name":"a","requests":{"cpu":"2"}}]}`, 2000},
		{"init containers run one after the other", `{"name":"p","initContainers":[{"name":"i","requests":{"cpu":"3"}},{"name":"j","requests":{"cpu":"4"}}],
			"containers":[{"name":"a","requests":{"cpu":"2"}}]}`, 4000},
		{"a sidecar stays", `{"name":"p","initContainers":[{"name":"s","restartPolicy":"Always","requests":{"cpu":"1"}}],
			"containers":[{"name":"a","requests":{"cpu":"2"}}]}`, 3000},
		{"an init container beside the sidecar before it", `{"name":"p","initContainers":[{"name":"s","restartPolicy":"Always","requests":{"cpu":"1"}},
			{"name":"i","requests":{"cpu":"4"}}],"containers":[{"name":"a","requests":{"cpu":"2"}}]}`, 5000},
		{"an init container before the sidecar", `{"name":"p","initContainers":[{"name":"i","requests":{"cpu":"4"}},
			{"name":"s","restartPolicy":"Always","requests":{"cpu":"1"}}],"containers":[{"name":"a","requests":{"cpu":"2"}}]}`, 4000},
	} {
		t.Run(test.name, func(t *testing.T) {
			got := parse(t, test.pod).total(milliCPU)
			if got != test.want {
				t.Errorf("total() = %d, want %d", got, test.want)
			}
		})
	}
}
