package deploy

import (
	"maps"
	"path/filepath"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/kustomize/api/krusty"
	"sigs.k8s.io/kustomize/kyaml/filesys"

	"nri-cpuset/config"
)

// build is kustomize build.
func build(t *testing.T, dir string) map[string]object {
	t.Helper()
	built, err := krusty.MakeKustomizer(krusty.MakeDefaultOptions()).Run(filesys.MakeFsOnDisk(), dir)
	if err != nil {
		t.Fatal(err)
	}
	text, err := built.AsYaml()
	if err != nil {
		t.Fatal(err)
	}
	return objects(t, text)
}

func overlay(t *testing.T, name string) map[string]object {
	t.Helper()
	return build(t, filepath.Join(shipped, "kustomize/overlays", name))
}

// TestQuickStart shows that kubectl apply -f and kubectl apply -k install the same.
func TestQuickStart(t *testing.T) {
	got := objects(t, []byte(read(t, shipped+"/daemonset.yaml")))
	for name, want := range map[string]map[string]object{"base": build(t, base), "overlays/containerd": overlay(t, "containerd")} {
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("deploy/daemonset.yaml differs from %s (-%s +daemonset.yaml):\n%s", name, name, diff)
		}
	}
}

// TestMounts lists what of a node the plugin gets to see, and what of that it may write.
func TestMounts(t *testing.T) {
	want := map[string]string{
		"/etc/nri-cpuset":       "configMap ro",
		"/var/run/nri":          "/var/run/nri ro",
		"/sys":                  "/sys ro",
		"/sys/fs/cgroup":        "/sys/fs/cgroup rw",
		"/run/nri-cpuset":       "/run/nri-cpuset rw",
		"/var/lib/kubelet":      "/var/lib/kubelet ro",
		"/var/lib/kubelet/pods": "emptyDir ro",
	}
	if diff := cmp.Diff(want, mounts(build(t, base)["DaemonSet"])); diff != "" {
		t.Errorf("mounts (-want +got):\n%s", diff)
	}
}

// TestOverlays lists all that an overlay changes in the base.
func TestOverlays(t *testing.T) {
	selinux := map[string]any{"type": "spc_t"}
	for _, tc := range []struct {
		name, image string
		kinds       []string // beside the base's
	}{
		{name: "crio", image: "localhost/nri-cpuset:latest"},
		{
			name: "openshift", image: "image-registry.openshift-image-registry.svc:5000/nri-cpuset/nri-cpuset:latest",
			kinds: []string{"Role", "RoleBinding", "SecurityContextConstraints"},
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got, want := overlay(t, tc.name), build(t, base)
			if kinds, wantKinds := sortedKinds(got), slices.Sorted(slices.Values(append(sortedKinds(want), tc.kinds...))); !slices.Equal(kinds, wantKinds) {
				t.Errorf("kinds %q, want %q", kinds, wantKinds)
			}
			c := container(want["DaemonSet"]).(map[string]any)
			c["image"] = tc.image
			at(c, "securityContext").(map[string]any)["seLinuxOptions"] = selinux
			for _, kind := range []string{"DaemonSet", "ConfigMap", "ServiceAccount"} {
				if diff := cmp.Diff(want[kind], got[kind]); diff != "" {
					t.Errorf("%s (-want +got):\n%s", kind, diff)
				}
			}
		})
	}
}

// TestConstraint compares OpenShift's constraint with what the DaemonSet asks for: no less, or its pods are not admitted, and no more.
func TestConstraint(t *testing.T) {
	built := overlay(t, "openshift")
	scc, daemonSet := built["SecurityContextConstraints"], built["DaemonSet"]
	pod, security := at(daemonSet, "spec", "template", "spec"), at(container(daemonSet), "securityContext")
	kinds := map[string]bool{}
	for _, v := range at(pod, "volumes").([]any) {
		for key := range v.(map[string]any) {
			if key != "name" {
				kinds[key] = true
			}
		}
	}
	var volumes []any
	for _, kind := range slices.Sorted(maps.Keys(kinds)) {
		volumes = append(volumes, kind)
	}
	isTrue := func(value any) any { return value == true }
	for field, want := range map[string]any{
		"allowHostNetwork":         isTrue(at(pod, "hostNetwork")),
		"allowHostPorts":           at(container(daemonSet), "ports", 0, "hostPort") != nil,
		"allowHostPID":             isTrue(at(pod, "hostPID")),
		"allowHostIPC":             isTrue(at(pod, "hostIPC")),
		"allowPrivilegedContainer": isTrue(at(security, "privileged")),
		"allowPrivilegeEscalation": at(security, "allowPrivilegeEscalation"),
		"allowHostDirVolumePlugin": kinds["hostPath"],
		"readOnlyRootFilesystem":   at(security, "readOnlyRootFilesystem"),
		"requiredDropCapabilities": at(security, "capabilities", "drop"),
		"allowedCapabilities":      at(security, "capabilities", "add"),
		"volumes":                  volumes,
		"runAsUser":                map[string]any{"type": "MustRunAs", "uid": at(security, "runAsUser")},
		"seLinuxContext":           map[string]any{"type": "MustRunAs", "seLinuxOptions": at(security, "seLinuxOptions")},
		"seccompProfiles":          []any{"runtime/default"}, // what SCCs call RuntimeDefault
	} {
		if diff := cmp.Diff(want, scc[field]); diff != "" {
			t.Errorf("%s (-the DaemonSet's +the constraint's):\n%s", field, diff)
		}
	}
	if got := at(built["Role"], "rules", 0, "resourceNames", 0); got != at(scc, "metadata", "name") {
		t.Errorf("the Role is for constraint %v, want %v", got, at(scc, "metadata", "name"))
	}
	if got := at(built["RoleBinding"], "subjects", 0, "name"); got != at(pod, "serviceAccountName") {
		t.Errorf("the Role is bound to %v, want %v", got, at(pod, "serviceAccountName"))
	}
}

// TestComponents adds both components to the base, as an overlay of a user's does.
func TestComponents(t *testing.T) {
	built := build(t, "testdata/monitored")
	c := container(built["DaemonSet"])
	if diff := cmp.Diff([]any{"run", "--listen=:9178"}, at(c, "args")); diff != "" {
		t.Errorf("args (-want +got):\n%s", diff)
	}
	wantPort := []any{map[string]any{"name": "http", "containerPort": 9178, "hostPort": 9178}}
	if diff := cmp.Diff(wantPort, at(c, "ports")); diff != "" {
		t.Errorf("ports (-want +got):\n%s", diff)
	}
	if got := at(built["PodMonitor"], "spec", "podMetricsEndpoints", 0, "port"); got != "http" {
		t.Errorf("PodMonitor scrapes port %v, want http", got)
	}
	if built["PrometheusRule"] == nil {
		t.Error("no PrometheusRule")
	}
	text, _ := at(built["ConfigMap"], "data", "config.yaml").(string)
	c2, err := config.Parse([]byte(text), "n1")
	if err != nil {
		t.Fatal(err)
	}
	if c2.CPUManagerPolicy != "static" {
		t.Errorf("cpuManagerPolicy %s, want the overlay's static", c2.CPUManagerPolicy)
	}
}

func sortedKinds(all map[string]object) []string { return slices.Sorted(maps.Keys(all)) }
