package plugin

import (
	"context"
	"fmt"
	"os"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
	podresources "k8s.io/kubelet/pkg/apis/podresources/v1"

	"nri-cpuset/allocator"
	"nri-cpuset/topology/cpuset"
)

const (
	// podResourcesBudget is the most that a container waits for the kubelet's answer.
	podResourcesBudget = 100 * time.Millisecond
	// podResourcesPause is how long a kubelet that did not answer in time is left alone.
	podResourcesPause = 10 * time.Second
)

// podResources asks the kubelet's PodResources socket which devices its device manager gave a container, and where they sit. A kubelet that
// is slow, absent or too old has no opinion: it costs a container at most podResourcesBudget, and never its start.
type podResources struct {
	socket string // empty: nobody is asked

	mu     sync.Mutex
	client podresources.PodResourcesListerClient
	pause  time.Time // until then nobody is asked
}

// devices returns the devices of one container, by resource name.
func (p *podResources) devices(ctx context.Context, namespace, pod, container string) ([]allocator.Device, error) {
	client, err := p.connect()
	if client == nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, podResourcesBudget)
	defer cancel()
	answer, err := client.Get(ctx, &podresources.GetPodResourcesRequest{PodName: pod, PodNamespace: namespace})
	if err != nil {
		if code := status.Code(err); code == codes.DeadlineExceeded || code == codes.Unavailable {
			p.rest()
		}
		return nil, fmt.Errorf("asking the kubelet's PodResources socket: %w", err)
	}
	for _, c := range answer.GetPodResources().GetContainers() {
		if c.GetName() == container {
			return devicesOf(c), nil
		}
	}
	return nil, nil
}

// connect returns the client; nil where there is no socket, or it is left alone for now.
func (p *podResources) connect() (podresources.PodResourcesListerClient, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.socket == "" || time.Now().Before(p.pause) {
		return nil, nil
	}
	if _, err := os.Stat(p.socket); err != nil {
		return nil, nil // not mounted: that is a choice, and no error
	}
	if p.client == nil {
		connection, err := grpc.NewClient("unix:"+p.socket, grpc.WithTransportCredentials(insecure.NewCredentials()))
		if err != nil {
			return nil, fmt.Errorf("preparing for the kubelet's PodResources socket: %w", err)
		}
		p.client = podresources.NewPodResourcesListerClient(connection)
	}
	return p.client, nil
}

func (p *podResources) rest() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.pause = time.Now().Add(podResourcesPause)
}

// devicesOf joins what the kubelet says of one resource: several devices of one kind have to be near together.
func devicesOf(c *podresources.ContainerResources) []allocator.Device {
	nodes := map[string]cpuset.Set{}
	var names []string
	for _, d := range c.GetDevices() {
		name := d.GetResourceName()
		if _, seen := nodes[name]; !seen {
			names = append(names, name)
		}
		set := nodes[name]
		for _, n := range d.GetTopology().GetNodes() {
			if id := n.GetID(); id >= 0 && id <= cpuset.MaxID {
				set.Add(int(id))
			}
		}
		nodes[name] = set
	}
	var devices []allocator.Device
	for _, name := range names {
		if set := nodes[name]; !set.IsEmpty() {
			devices = append(devices, allocator.Device{Name: name, Nodes: set})
		}
	}
	return devices
}
