package cluster

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"nri-cpuset/test/cluster/kube"
)

// overlay is what is installed, with kubectl apply -k.
var overlay = filepath.Join("..", "..", "deploy", "kustomize", "overlays", "containerd")

// cluster is a cluster of one node for one test.
type cluster struct {
	*fixture
	kube *kube.Cluster
}

func startCluster(t *testing.T) *cluster {
	t.Helper()
	begin := time.Now()
	k, err := kube.StartCluster(t.Context(), box, bin)
	if err != nil {
		t.Fatalf("start a cluster: %v", err)
	}
	c := &cluster{fixtureOf(t, k.Node), k}
	t.Cleanup(func() {
		if t.Failed() {
			c.dump(t)
		}
		if err := c.kube.Close(); err != nil {
			t.Errorf("end the cluster: %v", err)
		}
	})
	must(t, c.ImportPlugin(t.Context(), filepath.Join(bin, "image.tar")))
	await(t, "the node takes pods, and the namespace default has what they need", func(ctx context.Context) error {
		taints, err := c.kube.Kubectl(ctx, "get", "node", kube.NodeName, "-o", "jsonpath={.status.conditions[-1:].type}{.spec.taints}")
		if err == nil && taints != "Ready" {
			err = fmt.Errorf("its last condition and its taints are %s", taints)
		}
		if err != nil {
			return err
		}
		_, err = c.kube.Kubectl(ctx, "get", "serviceaccount/default", "configmap/kube-root-ca.crt")
		return err
	})
	say(t, "measured: a cluster was up after %v; CPUs %s are there to be given away", time.Since(begin).Round(time.Millisecond), c.last)
	return c
}

// dump shows what a person would look at.
func (c *cluster) dump(t *testing.T) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	for _, args := range [][]string{
		{"get", "pods", "-A", "-o", "wide"},
		{"get", "events", "-A"},
	} {
		output, err := c.kube.Kubectl(ctx, args...)
		t.Logf("kubectl %s:\n%s %v", strings.Join(args, " "), output, err)
	}
	containers, err := c.Runtime.Containers(ctx)
	if err != nil {
		t.Log(err)
	}
	for _, one := range containers {
		if one.Name == "nri-cpuset" {
			text, err := os.ReadFile(one.LogFile)
			t.Logf("the plugin's log, attempt %d: %v\n%s", one.Attempt, err, text)
		}
	}
	t.Logf("containerd's log:\n%s", c.ContainerdLog())
	t.Log(c.kube.LogTails())
}

// kubectl runs kubectl, which must not fail.
func (c *cluster) kubectl(t *testing.T, args ...string) string {
	t.Helper()
	say(t, "kubectl %s", strings.Join(args, " "))
	output, err := c.kube.Kubectl(t.Context(), args...)
	must(t, err)
	return output
}

// apply applies a manifest with kubectl.
func (c *cluster) apply(t *testing.T, manifest string) {
	t.Helper()
	output, err := c.kube.Apply(t.Context(), manifest)
	must(t, err)
	say(t, "kubectl apply -f -: %s", strings.ReplaceAll(output, "\n", "; "))
}

// pod runs a pod of testdata and waits for its container main.
func (c *cluster) pod(t *testing.T, name string) kube.Container {
	t.Helper()
	c.apply(t, c.manifest(t, name))
	return c.running(t, name, "main", 0)
}

// configure changes the plugin's configuration as a person would who does not like editors.
func (c *cluster) configure(t *testing.T, config string) {
	t.Helper()
	patch, err := json.Marshal(map[string]any{"data": map[string]string{"config.yaml": config}})
	must(t, err)
	c.kubectl(t, "patch", "configmap", "nri-cpuset", "-n", "nri-cpuset", "--type", "merge", "-p", string(patch))
}

// awaitDescribed waits until `kubectl describe` says all of these.
func (c *cluster) awaitDescribed(t *testing.T, pod string, wants ...string) {
	t.Helper()
	await(t, fmt.Sprintf("kubectl describe pod %s says %q", pod, wants), func(ctx context.Context) error {
		text, err := c.kube.Kubectl(ctx, "describe", "pod", pod)
		if err != nil {
			return err
		}
		for _, want := range wants {
			if !strings.Contains(text, want) {
				return fmt.Errorf("no %q in:\n%s", want, text)
			}
		}
		for line := range strings.Lines(text) {
			if strings.Contains(line, "nri-cpuset refuses") {
				say(t, "kubectl describe pod %s: %s", pod, strings.TrimSpace(line))
			}
		}
		return nil
	})
}

// resize changes the CPUs of a Guaranteed pod's container main, in place.
func (c *cluster) resize(t *testing.T, main kube.Container, cpu string) {
	t.Helper()
	c.kubectl(t, "patch", "pod", main.Pod, "--subresource", "resize", "--patch",
		fmt.Sprintf(`{"spec":{"containers":[{"name":"main","resources":{"requests":{"cpu":%q},"limits":{"cpu":%q}}}]}}`, cpu, cpu))
}

// expectSame asserts that a container is the very one that it was.
func (c *cluster) expectSame(t *testing.T, containers ...kube.Container) {
	t.Helper()
	for _, was := range containers {
		now, err := c.attempt(t.Context(), was.Pod, was.Name, -1)
		must(t, err)
		if now.ID != was.ID || !now.Running {
			t.Errorf("%s is %s, running %v; want %s, running", fullName(was), now.ID, now.Running, was.ID)
		}
	}
}

// plugin returns the container of the DaemonSet's pod, once that is ready.
func (c *cluster) plugin(t *testing.T) kube.Container {
	t.Helper()
	c.kubectl(t, "rollout", "status", "-n", "nri-cpuset", "daemonset/nri-cpuset", "--timeout", patience.String())
	name := c.kubectl(t, "get", "pods", "-n", "nri-cpuset", "--field-selector", "status.phase=Running", "-o", "jsonpath={.items[*].metadata.name}")
	return c.running(t, name, "nri-cpuset", 0)
}

// tillConfigured is longer than the kubelet takes to bring a changed ConfigMap to the node: it looks each 5 s.
const tillConfigured = 15 * time.Second

const none = "cpuManagerPolicy: none\n"

// fullPCPUs is the policy that a person would switch on: all but the last core reserved, whole cores only.
func (c *cluster) fullPCPUs() string {
	return fmt.Sprintf("cpuManagerPolicy: static\nreservedSystemCPUs: %q\ncpuManagerPolicyOptions: {full-pcpus-only: \"true\"}\n", c.rest)
}

// installation returns what deploy/ installs with another configuration, as a person would who edits the file first.
func (c *cluster) installation(t *testing.T, config string) string {
	t.Helper()
	shipped := c.kubectl(t, "kustomize", overlay)
	const from = "    cpuManagerPolicy: none\n"
	if !strings.Contains(shipped, from) {
		t.Fatalf("%s does not say %q any more:\n%s", overlay, from, shipped)
	}
	return strings.Replace(shipped, from, "    "+strings.ReplaceAll(strings.TrimSpace(config), "\n", "\n    ")+"\n", 1)
}

// TestCluster is the life of nri-cpuset in a cluster: installed, switched on and off, and uninstalled.
func TestCluster(t *testing.T) {
	c := startCluster(t)
	begin := time.Now()
	c.kubectl(t, "apply", "-k", overlay)
	plugin := c.plugin(t)
	say(t, "measured: the DaemonSet was ready %v after kubectl apply", time.Since(begin).Round(time.Millisecond))

	// As it is shipped it touches nobody.
	exclusive := c.pod(t, "exclusive")
	shared := []kube.Container{c.pod(t, "burstable"), c.pod(t, "besteffort"), c.pod(t, "fractional")}
	burstable, fractional := shared[0], shared[2]
	everybody := append(shared, exclusive)
	whole := c.whole * 100_000
	asMade := func(when string) {
		t.Helper()
		c.expectSoonOn(t, when, c.all, everybody...)
		c.expectQuota(t, exclusive, whole, whole)
		c.expectQuota(t, burstable, 50_000, 50_000)
		c.expectQuota(t, fractional, 20_000, 20_000)
	}
	asMade("with the policy none")

	w := c.watch(t, "exclusive/main")
	c.configure(t, c.fullPCPUs())
	took := c.expectSoonOn(t, "the policy is static", c.last, exclusive)
	say(t, "measured: the container was pinned %v after kubectl patch configmap", took.Round(time.Millisecond))
	c.expectSoonOn(t, "the policy is static", c.rest, append(shared, plugin)...)
	c.expectQuota(t, exclusive, -1, -1)
	c.expectQuota(t, burstable, 50_000, 50_000)
	w.expectNoOverlap(t)

	// A configuration that is wrong changes nothing, and does not make the pod unready.
	w = c.watch(t, "exclusive/main")
	c.configure(t, "cpuManagerPolicy: statik\n")
	time.Sleep(tillConfigured)
	if got := c.kubectl(t, "get", "daemonset", "-n", "nri-cpuset", "nri-cpuset", "-o", "jsonpath={.status.numberReady}"); got != "1" {
		t.Errorf("%s pods of the DaemonSet are ready while the configuration is wrong, want 1", got)
	}
	c.configure(t, c.fullPCPUs())
	time.Sleep(tillConfigured)

	// An update replaces the plugin, and moves nobody else.
	c.expectSame(t, plugin)
	c.kubectl(t, "rollout", "restart", "-n", "nri-cpuset", "daemonset/nri-cpuset")
	updated := c.plugin(t)
	if updated.Pod == plugin.Pod {
		t.Errorf("the DaemonSet's pod is still %s after its restart", updated.Pod)
	}
	c.expectSoonOn(t, "it has placed itself", c.rest, updated)
	w.expectNoOverlap(t)
	w.expectStayed(t, everybody...)

	c.configure(t, none)
	asMade("the policy is none again")
	c.expectSame(t, append(everybody, updated)...)

	c.kubectl(t, "delete", "-k", overlay, "--timeout", patience.String())
	c.awaitEnd(t, updated.Pod)
	asMade("it is uninstalled")
	c.expectSame(t, everybody...)
	// Nor is anything left in the runtime's record, which every later change of the container begins with.
	c.resize(t, exclusive, "500m")
	c.expectQuota(t, exclusive, 50_000, whole)
	c.expectOn(t, "it is resized after the plugin has gone", c.all, exclusive)
	c.kubectl(t, "delete", "pod", "burstable")
	after := c.pod(t, "burstable")
	c.expectOn(t, "it is uninstalled and gone", c.all, after)
}

// TestClusterResize resizes an exclusive container in place through the API, out of its CPUs and back into them.
func TestClusterResize(t *testing.T) {
	c := startCluster(t)
	c.apply(t, c.installation(t, c.fullPCPUs()))
	c.plugin(t)
	single, shared := c.pod(t, "single"), c.pod(t, "burstable")
	c.expectOn(t, "before", c.last, single)
	c.expectOn(t, "before", c.rest, shared)

	c.resize(t, single, "500m")
	c.expectSoonOn(t, "nobody asks for whole CPUs any more", c.all, single, shared)
	c.expectQuota(t, single, 50_000, 50_000)

	w := c.watch(t, "single/main")
	whole := fmt.Sprint(c.whole)
	c.resize(t, single, whole)
	c.expectSoonOn(t, "it asks for whole CPUs again", c.last, single)
	c.expectOn(t, "it asks for whole CPUs again", c.rest, shared)
	c.expectQuota(t, single, -1, -1)
	w.expectNoOverlap(t)

	// Nothing is left to give, which Kubernetes cannot know: a pod is refused, and a resize as a whole, until there is something again.
	c.resize(t, single, "500m")
	c.expectSoonOn(t, "it has given its CPUs back", c.all, single, shared)
	c.configure(t, fmt.Sprintf("cpuManagerPolicy: static\nreservedSystemCPUs: %q\n", c.all))
	time.Sleep(tillConfigured)
	c.apply(t, strings.Replace(c.manifest(t, "single"), "name: single", "name: second", 1))
	c.awaitDescribed(t, "second", "CreateContainerError", "nri-cpuset refuses container main of pod default/second: UnexpectedAdmissionError")
	c.kubectl(t, "delete", "pod", "second")
	c.resize(t, single, whole)
	c.awaitDescribed(t, "single", "nri-cpuset refuses to resize container main of pod default/single")
	c.expectOn(t, "a resize is refused", c.all, single, shared)
	c.configure(t, c.fullPCPUs())
	c.expectSoonOn(t, "there is a core to give away again", c.last, single)
	c.expectSoonOn(t, "there is a core to give away again", c.rest, shared)
	c.expectQuota(t, single, -1, -1)
	c.expectSame(t, single, shared)
}

// TestClusterHelm installs, upgrades and uninstalls with Helm.
func TestClusterHelm(t *testing.T) {
	c := startCluster(t)
	chart := filepath.Join("..", "..", "deploy", "helm", "nri-cpuset")
	c.helm(t, "install", "nri-cpuset", chart, "--create-namespace", "--wait", "--timeout", patience.String())
	plugin := c.plugin(t)
	exclusive, shared := c.pod(t, "single"), c.pod(t, "burstable")
	c.expectOn(t, "as it is shipped it touches nobody", c.all, exclusive, shared)

	// The configuration is applied while running: nothing is restarted.
	static := []string{"upgrade", "nri-cpuset", chart, "--set", "config.cpuManagerPolicy=static", "--set-string", "config.reservedSystemCPUs=" + strings.ReplaceAll(c.rest, ",", `\,`)}
	c.helm(t, static...)
	c.expectSoonOn(t, "the policy is static", c.last, exclusive)
	c.expectSoonOn(t, "the policy is static", c.rest, shared, plugin)
	c.expectQuota(t, exclusive, -1, -1)
	c.expectSame(t, plugin)

	// A flag is not: the plugin is replaced, and nobody moves.
	w := c.watch(t, "single/main")
	c.helm(t, append(static, "--set", "log.level=debug", "--wait", "--timeout", patience.String())...)
	updated := c.plugin(t)
	if updated.Pod == plugin.Pod {
		t.Errorf("the DaemonSet's pod is still %s after its flags have changed", updated.Pod)
	}
	w.expectNoOverlap(t)
	w.expectStayed(t, exclusive, shared)

	c.helm(t, "upgrade", "nri-cpuset", chart, "--reset-values", "--wait", "--timeout", patience.String())
	c.expectSoonOn(t, "the policy is none again", c.all, exclusive, shared)
	c.expectQuota(t, exclusive, c.whole*100_000, c.whole*100_000)
	c.helm(t, "uninstall", "nri-cpuset", "--wait", "--timeout", patience.String())
	c.expectOn(t, "it is uninstalled", c.all, exclusive, shared)
	c.expectSame(t, exclusive, shared)
}

// helm runs helm in the namespace nri-cpuset; it must not fail.
func (c *cluster) helm(t *testing.T, args ...string) {
	t.Helper()
	args = append(args, "--namespace", "nri-cpuset")
	say(t, "helm %s", strings.Join(args, " "))
	_, err := c.kube.Helm(t.Context(), args...)
	must(t, err)
}

// TestClusterFirstPod measures what a new user waits for: from kubectl apply, of nri-cpuset with a policy and of a pod, until the pod is on its
// own.
func TestClusterFirstPod(t *testing.T) {
	c := startCluster(t)
	begin := time.Now()
	c.apply(t, c.installation(t, fmt.Sprintf("cpuManagerPolicy: static\nreservedSystemCPUs: %q\n", c.rest)))
	c.apply(t, c.manifest(t, "exclusive"))
	main := c.running(t, "exclusive", "main", 0)
	c.expectSoonOn(t, "installed with a policy", c.last, main)
	took := time.Since(begin).Round(time.Millisecond)
	say(t, "measured: from kubectl apply to the first pinned pod: %v", took)
	if limit := 30 * time.Second; took > limit {
		t.Errorf("from kubectl apply to the first pinned pod: %v, want at most %v", took, limit)
	}
	c.expectQuota(t, main, -1, -1)
	shared := c.pod(t, "burstable")
	c.expectOn(t, "beside the first pinned pod", c.rest, shared)
}
