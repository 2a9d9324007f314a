package kube

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/credentials/insecure"
	cri "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// Runtime tells what containerd has of the pods, over the CRI. A test asks it only which container is which: where they run, it reads from
// the kernel.
type Runtime struct {
	conn *grpc.ClientConn
	cri  cri.RuntimeServiceClient

	mu      sync.Mutex
	cgroups map[string]string // by container ID
}

// Container is one container as containerd has it.
type Container struct {
	Pod, Name string // the kubelet's names
	ID        string
	Attempt   uint32
	Running   bool
	Cgroup    string // as a path in the hierarchy
	LogFile   string
}

func connectRuntime(endpoint string) (*Runtime, error) {
	conn, err := grpc.NewClient(endpoint, grpc.WithTransportCredentials(insecure.NewCredentials()),
		// A restarted containerd is back within a second: do not let the client wait longer than that to notice.
		grpc.WithConnectParams(grpc.ConnectParams{Backoff: backoff.Config{BaseDelay: 10 * time.Millisecond, Multiplier: 1.5, MaxDelay: 100 * time.Millisecond}}),
	)
	if err != nil {
		return nil, err
	}
	return &Runtime{conn: conn, cri: cri.NewRuntimeServiceClient(conn), cgroups: map[string]string{}}, nil
}

// Containers returns all containers, those that have ended included.
func (r *Runtime) Containers(ctx context.Context) ([]Container, error) {
	reply, err := r.cri.ListContainers(ctx, &cri.ListContainersRequest{})
	if err != nil {
		return nil, err
	}
	var all []Container
	for _, c := range reply.GetContainers() {
		labels, name := c.GetLabels(), c.GetMetadata().GetName()
		pod, namespace, uid := labels["io.kubernetes.pod.name"], labels["io.kubernetes.pod.namespace"], labels["io.kubernetes.pod.uid"]
		group, err := r.cgroup(ctx, c.GetId())
		if err != nil {
			return nil, err
		}
		all = append(all, Container{
			Pod: strings.TrimSuffix(pod, "-"+NodeName), Name: name, ID: c.GetId(),
			Attempt: c.GetMetadata().GetAttempt(), Running: c.GetState() == cri.ContainerState_CONTAINER_RUNNING, Cgroup: group,
			LogFile: filepath.Join("/var/log/pods", namespace+"_"+pod+"_"+uid, name, fmt.Sprintf("%d.log", c.GetMetadata().GetAttempt())),
		})
	}
	return all, nil
}

// cgroup returns where containerd has put a container, from the specification that it has given to runc.
func (r *Runtime) cgroup(ctx context.Context, id string) (string, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if path, known := r.cgroups[id]; known {
		return path, nil
	}
	status, err := r.cri.ContainerStatus(ctx, &cri.ContainerStatusRequest{ContainerId: id, Verbose: true})
	if err != nil {
		return "", err
	}
	var info struct {
		RuntimeSpec struct {
			Linux struct {
				CgroupsPath string `json:"cgroupsPath"`
			} `json:"linux"`
		} `json:"runtimeSpec"`
	}
	if err := json.Unmarshal([]byte(status.GetInfo()["info"]), &info); err != nil {
		return "", fmt.Errorf("what containerd says of container %s: %w", id, err)
	}
	r.cgroups[id] = info.RuntimeSpec.Linux.CgroupsPath
	return r.cgroups[id], nil
}

// ExitReason returns why a container has ended, in containerd's words: Completed, Error, OOMKilled; empty while it runs.
func (r *Runtime) ExitReason(ctx context.Context, id string) (string, error) {
	status, err := r.cri.ContainerStatus(ctx, &cri.ContainerStatusRequest{ContainerId: id})
	return status.GetStatus().GetReason(), err
}

// awaitImage waits until the CRI knows an image. It learns of an import from an event.
func (r *Runtime) awaitImage(ctx context.Context, name string) error {
	images := cri.NewImageServiceClient(r.conn)
	for deadline := time.Now().Add(10 * time.Second); ; time.Sleep(10 * time.Millisecond) {
		status, err := images.ImageStatus(ctx, &cri.ImageStatusRequest{Image: &cri.ImageSpec{Image: name}})
		if err != nil || status.GetImage() != nil {
			return err
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("containerd has no image %s 10 s later", name)
		}
	}
}

// removeAllPods stops and removes every pod, without grace.
func (r *Runtime) removeAllPods(ctx context.Context) error {
	pods, err := r.cri.ListPodSandbox(ctx, &cri.ListPodSandboxRequest{})
	if err != nil {
		return err
	}
	var errs []error
	for _, pod := range pods.GetItems() {
		_, stop := r.cri.StopPodSandbox(ctx, &cri.StopPodSandboxRequest{PodSandboxId: pod.GetId()})
		_, remove := r.cri.RemovePodSandbox(ctx, &cri.RemovePodSandboxRequest{PodSandboxId: pod.GetId()})
		errs = append(errs, stop, remove)
	}
	return errors.Join(errs...)
}
