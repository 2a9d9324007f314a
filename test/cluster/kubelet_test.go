package cluster

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"nri-cpuset/test/cluster/kube"
	"nri-cpuset/test/e2e/node"
)

// startKubelet starts a node whose kubelet is alone, without an API server, and the plugin as a process of its own.
func startKubelet(t *testing.T) (*fixture, *node.Plugin) {
	t.Helper()
	n, err := kube.StartNode(t.Context(), box, bin)
	if err != nil {
		t.Fatalf("start a node: %v", err)
	}
	f := fixtureOf(t, n)
	var plugin *node.Plugin
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("containerd's log:\n%s", f.ContainerdLog())
			if plugin != nil {
				t.Logf("the plugin's log:\n%s", plugin.Log())
			}
			if f.Kubelet != nil {
				t.Logf("the kubelet's log ends with:\n%s", f.Kubelet.LogTail())
			}
		}
		if err := f.Close(); err != nil {
			t.Errorf("end the node: %v", err)
		}
	})
	if plugin, err = f.StartPlugin(t.Context(), fmt.Sprintf("cpuManagerPolicy: static\nreservedSystemCPUs: %q\n", f.rest)); err != nil {
		t.Fatalf("start the plugin: %v", err)
	}
	must(t, f.StartKubelet(t.Context(), ""))
	say(t, "containerd, the plugin and the kubelet run; CPUs %s are there to be given away", f.last)
	return f, plugin
}

// static runs a static pod of testdata and waits for its container main.
func (f *fixture) static(t *testing.T, name string) kube.Container {
	t.Helper()
	must(t, f.RunStatic(name, f.manifest(t, name)))
	return f.running(t, name, "main", 0)
}

// end takes a static pod away and waits until containerd has none of its containers running.
func (f *fixture) end(t *testing.T, name string) {
	t.Helper()
	must(t, f.RemoveStatic(name))
	f.awaitEnd(t, name)
}

func (f *fixture) awaitEnd(t *testing.T, pod string) {
	t.Helper()
	await(t, pod+" has ended", func(ctx context.Context) error {
		all, err := f.Runtime.Containers(ctx)
		for _, c := range all {
			if c.Pod == pod && c.Running {
				err = fmt.Errorf("%s still runs", fullName(c))
			}
		}
		return err
	})
}

// sharedPods runs one pod of every class that has no claim to CPUs of its own.
func (f *fixture) sharedPods(t *testing.T) []kube.Container {
	t.Helper()
	return []kube.Container{f.static(t, "burstable"), f.static(t, "besteffort"), f.static(t, "fractional")}
}

// TestKubeletClasses runs pods of every QoS class, with init containers and sidecars.
func TestKubeletClasses(t *testing.T) {
	f, _ := startKubelet(t)
	shared := f.sharedPods(t)
	f.expectOn(t, "nobody is exclusive", f.all, shared...)

	w := f.watch(t, "exclusive/init", "exclusive/main")
	main := f.static(t, "exclusive")
	init, err := f.attempt(t.Context(), "exclusive", "init", -1)
	must(t, err)
	for _, c := range []kube.Container{init, main} {
		if got := f.said(t, c); got != f.last {
			t.Errorf("the first process of %s could run on %s, want %s", fullName(c), got, f.last)
		}
	}
	f.expectOn(t, "the exclusive container runs", f.last, main)
	f.expectOn(t, "the exclusive container runs", f.rest, shared...)
	// All that the pod's quota limits is exclusive, so that it would only throttle.
	f.expectQuota(t, main, -1, -1)
	burstable, besteffort, fractional := shared[0], shared[1], shared[2]
	f.expectQuota(t, burstable, 50_000, 50_000)
	f.expectQuota(t, besteffort, -1, -1)
	f.expectQuota(t, fractional, 20_000, 20_000)
	w.expectNoOverlap(t)
	f.end(t, "exclusive")
	f.expectSoonOn(t, "the exclusive pod is gone", f.all, shared...)

	w = f.watch(t, "sidecar/main")
	main = f.static(t, "sidecar")
	proxy := f.running(t, "sidecar", "proxy", 0)
	f.expectOn(t, "beside its sidecar", f.last, main)
	f.expectOn(t, "beside an exclusive container", f.rest, append(shared, proxy)...)
	// The sidecar is limited, by its own quota and its pod's, which leaves the exclusive container its whole CPU.
	pod := f.whole*100_000 + 10_000
	f.expectQuota(t, proxy, 10_000, pod)
	f.expectQuota(t, main, -1, pod)

	f.kill(t, proxy)
	proxy = f.running(t, "sidecar", "proxy", 1)
	f.expectOn(t, "the sidecar was restarted", f.rest, proxy)
	f.expectOn(t, "the sidecar was restarted", f.last, main)
	w.expectNoOverlap(t)
	w.expectStayed(t, main)
	f.end(t, "sidecar")
	f.expectSoonOn(t, "the pod with the sidecar is gone", f.all, shared...)
}

// TestKubeletRestartsInPlace crashes an exclusive container, and lets another be killed for its memory: both come back to their CPUs, which
// nobody has had meanwhile.
func TestKubeletRestartsInPlace(t *testing.T) {
	f, _ := startKubelet(t)
	shared := f.sharedPods(t)

	first := f.static(t, "exclusive")
	f.expectOn(t, "before the crash", f.rest, shared...)
	w := f.watch(t, "exclusive/main")
	f.kill(t, first)
	second := f.running(t, "exclusive", "main", 1)
	f.expectOn(t, "after the crash", f.last, second)
	f.expectQuota(t, second, -1, -1)
	w.expectNoOverlap(t)
	w.expectStayed(t, append(shared, second)...)
	f.end(t, "exclusive")
	f.expectSoonOn(t, "the exclusive pod is gone", f.all, shared...)

	w = f.watch(t, "oom/main")
	must(t, f.RunStatic("oom", f.manifest(t, "oom")))
	second = f.running(t, "oom", "main", 1)
	first, err := f.attempt(t.Context(), "oom", "main", 0)
	must(t, err)
	if reason, err := f.Runtime.ExitReason(t.Context(), first.ID); err != nil || reason != "OOMKilled" {
		t.Errorf("the first attempt ended for %q, %v; want OOMKilled, or this test tests nothing", reason, err)
	}
	for _, c := range []kube.Container{first, second} {
		if got := f.said(t, c); got != f.last {
			t.Errorf("the first process of attempt %d could run on %s, want %s", c.Attempt, got, f.last)
		}
	}
	f.expectOn(t, "after the OOM kill", f.last, second)
	f.expectOn(t, "after the OOM kill", f.rest, shared...)
	w.expectNoOverlap(t)
}

// TestKubeletKilled kills the kubelet and starts it again: it looks at all pods anew, and nobody moves. What it missed, it makes good.
func TestKubeletKilled(t *testing.T) {
	f, _ := startKubelet(t)
	shared := f.sharedPods(t)
	first := f.static(t, "exclusive")
	f.expectOn(t, "before", f.last, first)
	f.expectQuota(t, first, -1, -1)

	w := f.watch(t, "exclusive/main")
	must(t, f.Kubelet.Kill())
	say(t, "the kubelet is killed")
	must(t, f.Kubelet.Start(t.Context()))
	say(t, "the kubelet is back")
	time.Sleep(15 * time.Second) // it looks at every pod each 5 s
	f.expectQuota(t, first, -1, -1)
	f.expectQuota(t, shared[0], 50_000, 50_000)
	w.expectNoOverlap(t)
	w.expectStayed(t, append(shared, first)...)

	w = f.watch(t, "exclusive/main")
	must(t, f.Kubelet.Kill())
	f.kill(t, first)
	say(t, "the kubelet is killed, and then the exclusive container")
	time.Sleep(time.Second)
	f.expectOn(t, "an exclusive container waits for the kubelet to restart it", f.rest, shared...)
	must(t, f.Kubelet.Start(t.Context()))
	second := f.running(t, "exclusive", "main", 1)
	f.expectOn(t, "the kubelet is back", f.last, second)
	f.expectQuota(t, second, -1, -1)
	w.expectNoOverlap(t)
	w.expectStayed(t, append(shared, second)...)

	must(t, f.Kubelet.Kill())
	must(t, f.RemoveStatic("exclusive"))
	say(t, "the kubelet is killed, and the exclusive pod's manifest taken away")
	must(t, f.Kubelet.Start(t.Context()))
	f.awaitEnd(t, "exclusive")
	f.expectSoonOn(t, "the exclusive pod is gone", f.all, shared...)
}

// TestKubeletPluginKilled kills the plugin under the kubelet: nobody moves, and a restart of a container in that time is made good.
func TestKubeletPluginKilled(t *testing.T) {
	f, plugin := startKubelet(t)
	shared := f.sharedPods(t)
	first := f.static(t, "exclusive")
	w := f.watch(t, "exclusive/main")
	must(t, plugin.Kill())
	must(t, plugin.Start(t.Context()))
	time.Sleep(time.Second)
	w.expectNoOverlap(t)
	w.expectStayed(t, append(shared, first)...)

	// containerd creates without us while we are away: this is what happens then, and how it ends.
	w = f.watch(t, "exclusive/main")
	must(t, plugin.Kill())
	f.kill(t, first)
	second := f.running(t, "exclusive", "main", 1)
	must(t, plugin.Start(t.Context()))
	f.expectSoonOn(t, "the plugin is back", f.last, second)
	f.expectOn(t, "the plugin is back", f.rest, shared...)
	f.expectQuota(t, second, -1, -1)
	w.expectNoOverlap(t)
	w.expectStayed(t, shared...)
}

// TestKubeletContainerdKilled kills containerd under the kubelet and the plugin: nobody moves, and what runs is looked after as before.
func TestKubeletContainerdKilled(t *testing.T) {
	f, plugin := startKubelet(t)
	shared := f.sharedPods(t)
	first := f.static(t, "exclusive")
	w := f.watch(t, "exclusive/main")
	must(t, f.KillContainerd())
	time.Sleep(time.Second)
	must(t, f.StartContainerd(t.Context()))
	must(t, plugin.WaitReady(t.Context()))
	say(t, "containerd is back, and the plugin connected")
	time.Sleep(time.Second)
	f.expectOn(t, "containerd is back", f.last, first)
	f.expectQuota(t, first, -1, -1)

	f.kill(t, first)
	second := f.running(t, "exclusive", "main", 1)
	f.expectOn(t, "restarted in place", f.last, second)
	f.expectQuota(t, second, -1, -1)
	w.expectNoOverlap(t)
	w.expectStayed(t, append(shared, first, second)...)

	// containerd sends no events of pods that are older than itself.
	f.end(t, "exclusive")
	took := f.expectSoonOn(t, "the exclusive pod is gone", f.all, shared...)
	say(t, "measured: its CPUs were given back after %v", took.Round(time.Millisecond))
}

// TestKubeletRefusal asks for more whole CPUs than there are to give away. The pod waits, says why, and gets them when they are free.
func TestKubeletRefusal(t *testing.T) {
	f, _ := startKubelet(t)
	shared := f.static(t, "besteffort")
	first := f.static(t, "exclusive")
	w := f.watch(t, "exclusive/main", "second/main")
	must(t, f.RunStatic("second", strings.Replace(f.manifest(t, "exclusive"), "name: exclusive", "name: second", 1)))
	await(t, "the kubelet says why the second pod waits", func(ctx context.Context) error {
		pods, err := kubeletPods(ctx)
		if err != nil {
			return err
		}
		for _, wants := range []string{"CreateContainerError", "UnexpectedAdmissionError"} {
			if !strings.Contains(pods["second-"+kube.NodeName], wants) {
				return fmt.Errorf("no %s in %s", wants, pods["second-"+kube.NodeName])
			}
		}
		say(t, "the kubelet says: %s", pods["second-"+kube.NodeName])
		return nil
	})
	f.expectOn(t, "while another waits", f.last, first)
	f.expectOn(t, "while another waits", f.rest, shared)
	f.end(t, "exclusive")
	second := f.running(t, "second", "main", 0)
	f.expectOn(t, "the first has ended", f.last, second)
	f.expectOn(t, "the first has ended", f.rest, shared)
	w.expectNoOverlap(t)
}

// kubeletPods returns what the kubelet says of containers that wait, by the name of the pod.
func kubeletPods(ctx context.Context) (map[string]string, error) {
	var reply struct {
		Items []struct {
			Metadata struct{ Name string }
			Status   struct {
				InitContainerStatuses, ContainerStatuses []struct {
					State struct {
						Waiting struct{ Reason, Message string }
					}
				}
			}
		}
	}
	if err := kube.GetJSON(ctx, "https://127.0.0.1:10250/pods", &reply); err != nil {
		return nil, err
	}
	pods := map[string]string{}
	for _, pod := range reply.Items {
		for _, c := range append(pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses...) {
			pods[pod.Metadata.Name] += strings.TrimSpace(c.State.Waiting.Reason+" "+c.State.Waiting.Message) + "\n"
		}
	}
	return pods, nil
}
