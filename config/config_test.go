package config

import "testing"

func TestIgnores(t *testing.T) {
	own := map[string]string{"app.kubernetes.io/name": "nri-cpuset", "pod-template-generation": "1"}
	for _, test := range []struct {
		name      string
		text      string
		namespace string
		labels    map[string]string
		want      bool
	}{
		{"our own pod, by default", "", "anywhere", own, true},
		{"nobody else, by default", "", "kube-system", map[string]string{"app.kubernetes.io/name": "coredns"}, false},
		{"no labels, by default", "", "kube-system", nil, false},
		{"not even our own, where nobody is named", "ignoredPods: []", "anywhere", own, false},
		{"a namespace", "ignoredPods: [{namespaces: [a, kube-system]}]", "kube-system", nil, true},
		{"another namespace", "ignoredPods: [{namespaces: [a, kube-system]}]", "kube-public", nil, false},
		{"a pattern of namespaces", `ignoredPods: [{namespaces: ["kube-*"]}]`, "kube-public", nil, true},
		{"both labels", "ignoredPods: [{labels: {a: x, b: y}}]", "n", map[string]string{"a": "x", "b": "y", "c": "z"}, true},
		{"one label of two", "ignoredPods: [{labels: {a: x, b: y}}]", "n", map[string]string{"a": "x"}, false},
		{"a label with another value", "ignoredPods: [{labels: {a: x}}]", "n", map[string]string{"a": "y"}, false},
		{"an empty value is a value", `ignoredPods: [{labels: {a: ""}}]`, "n", map[string]string{"b": ""}, false},
		{"namespace and label", "ignoredPods: [{namespaces: [n], labels: {a: x}}]", "n", map[string]string{"a": "x"}, true},
		{"namespace without label", "ignoredPods: [{namespaces: [n], labels: {a: x}}]", "n", nil, false},
		{"the second entry", "ignoredPods: [{namespaces: [m]}, {labels: {a: x}}]", "n", map[string]string{"a": "x"}, true},
	} {
		t.Run(test.name, func(t *testing.T) {
			c, err := Parse([]byte(test.text), "")
			if err != nil {
				t.Fatal(err)
			}
			if got := c.Ignores(test.namespace, test.labels); got != test.want {
				t.Errorf("got %v, want %v", got, test.want)
			}
		})
	}
}
