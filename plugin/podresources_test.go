package plugin

import (
	"context"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/containerd/nri/pkg/api"
	"github.com/google/go-cmp/cmp"
	"github.com/sirupsen/logrus"
	"google.golang.org/grpc"
	podresources "k8s.io/kubelet/pkg/apis/podresources/v1"

	"nri-cpuset/allocator"
	"nri-cpuset/config"
	"nri-cpuset/topology"
	"nri-cpuset/topology/cpuset"
)

// kubelet plays the kubelet's PodResources service.
type kubelet struct {
	podresources.UnimplementedPodResourcesListerServer
	delay  time.Duration
	answer *podresources.GetPodResourcesResponse
	asked  atomic.Int32
}

func (k *kubelet) Get(ctx context.Context, _ *podresources.GetPodResourcesRequest) (*podresources.GetPodResourcesResponse, error) {
	k.asked.Add(1)
	select {
	case <-time.After(k.delay):
	case <-ctx.Done():
	}
	return k.answer, ctx.Err()
}

func (k *kubelet) listen(t *testing.T) string {
	t.Helper()
	socket := filepath.Join(t.TempDir(), "kubelet.sock")
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	server := grpc.NewServer()
	podresources.RegisterPodResourcesListerServer(server, k)
	go func() { _ = server.Serve(listener) }()
	t.Cleanup(server.Stop)
	return socket
}

func device(resource string, nodes ...int64) *podresources.ContainerDevices {
	d := &podresources.ContainerDevices{ResourceName: resource, DeviceIds: []string{"0"}}
	if len(nodes) > 0 {
		d.Topology = &podresources.TopologyInfo{}
	}
	for _, n := range nodes {
		d.Topology.Nodes = append(d.Topology.Nodes, &podresources.NUMANode{ID: n})
	}
	return d
}

func TestPodResources(t *testing.T) {
	k := &kubelet{answer: &podresources.GetPodResourcesResponse{PodResources: &podresources.PodResources{
		Containers: []*podresources.ContainerResources{
			{Name: "other", Devices: []*podresources.ContainerDevices{device("example.com/gpu", 0)}},
			{Name: "c", Devices: []*podresources.ContainerDevices{
				device("example.com/gpu", 1), device("example.com/nic", 1, 2), device("example.com/gpu", 3), device("example.com/key"),
				device("example.com/odd", -1, 1<<40),
			}},
		},
	}}}
	p := podResources{socket: k.listen(t)}
	got, err := p.devices(t.Context(), "default", "p", "c")
	want := []allocator.Device{
		{Name: "example.com/gpu", Nodes: cpuset.New(1, 3)},
		{Name: "example.com/nic", Nodes: cpuset.New(1, 2)},
	}
	if diff := cmp.Diff(want, got); diff != "" || err != nil {
		t.Errorf("devices (-want +got), %v:\n%s", err, diff)
	}
	if got, err := p.devices(t.Context(), "default", "p", "unknown"); err != nil || got != nil {
		t.Errorf("devices of a container that the kubelet does not know: %v, %v; want none", got, err)
	}
}

// A kubelet that does not answer costs a container no more than the budget, and the next ones nothing.
func TestPodResourcesOfASlowKubelet(t *testing.T) {
	k := &kubelet{delay: time.Minute}
	p := podResources{socket: k.listen(t)}
	start := time.Now()
	if _, err := p.devices(t.Context(), "default", "p", "c"); err == nil {
		t.Error("a kubelet that does not answer gives no error")
	}
	if took := time.Since(start); took > 10*podResourcesBudget { // the machine may be busy
		t.Errorf("a slow kubelet cost %s, where %s are the limit", took, podResourcesBudget)
	}
	for range 5 {
		if got, err := p.devices(t.Context(), "default", "p", "c"); got != nil || err != nil {
			t.Errorf("while it is left alone: %v, %v", got, err)
		}
	}
	if asked := k.asked.Load(); asked > 1 {
		t.Errorf("it was asked %d times, want once and then left alone", asked)
	}
}

func TestPodResourcesAbsent(t *testing.T) {
	for _, socket := range []string{"", filepath.Join(t.TempDir(), "kubelet.sock")} {
		p := podResources{socket: socket}
		if got, err := p.devices(t.Context(), "default", "p", "c"); got != nil || err != nil {
			t.Errorf("with socket %q: %v, %v; want no opinion", socket, got, err)
		}
	}
}

// Of two NUMA nodes the container gets the one where its device is.
func TestDevicesAlign(t *testing.T) {
	k := &kubelet{answer: &podresources.GetPodResourcesResponse{PodResources: &podresources.PodResources{
		Containers: []*podresources.ContainerResources{{Name: "c", Devices: []*podresources.ContainerDevices{device("example.com/gpu", 1)}}},
	}}}
	f := openDescribed(t, "server-2s-2n-12c-24t", static1+"topologyManagerPolicy: single-numa-node\n", k.listen(t))
	f.run(t, "a", 4096, 400000, "/kubepods")
	f.wants(t, "a", "6-7,18-19")
	if w, _ := f.Node().Container("a"); !strings.Contains(w.Placement.Why, "node 1") {
		t.Errorf("why: %q, want the node to be named", w.Placement.Why)
	}
}

// A device file leads to its NUMA node through sysfs, and one that is not there has no opinion.
func TestDeviceFiles(t *testing.T) {
	root := tree(t, map[string]string{"devices/pci0000:00/0000:00:01.0/numa_node": "1\n", "devices/pci0000:00/0000:00:01.0/gpu/gpu0/dev": "195:0\n"})
	if err := os.MkdirAll(filepath.Join(root, "dev/char"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("../../devices/pci0000:00/0000:00:01.0/gpu/gpu0", filepath.Join(root, "dev/char/195:0")); err != nil {
		t.Fatal(err)
	}
	log := logrus.New()
	log.SetOutput(io.Discard)
	d := devices{sysfs: root, log: logrus.NewEntry(log)}
	ctr := &api.Container{Linux: &api.LinuxContainer{Devices: []*api.LinuxDevice{
		{Type: "c", Major: 1, Minor: 3}, {Type: "x", Major: -1, Minor: -1}, {Type: "c", Major: 195, Minor: 0},
	}}}
	want := []allocator.Device{{Name: "char 195:0", Nodes: cpuset.New(1)}}
	if diff := cmp.Diff(want, d.files(ctr)); diff != "" {
		t.Errorf("files (-want +got):\n%s", diff)
	}
}

// openDescribed is a plugin on a described machine that asks a kubelet.
func openDescribed(t *testing.T, machine, text, kubelet string) *fixture {
	t.Helper()
	m, err := topology.ReadDescription("../test/conformance/testdata/topologies/" + machine + ".json")
	if err != nil {
		t.Fatal(err)
	}
	cfg, err := config.Parse([]byte(text), "n")
	if err != nil {
		t.Fatal(err)
	}
	log := logrus.New()
	log.SetOutput(io.Discard)
	p, err := New(m, cfg, nil, nil, Options{Log: log, PodResources: kubelet})
	if err != nil {
		t.Fatal(err)
	}
	return &fixture{Plugin: p}
}
