// Package node is a Kubernetes node without Kubernetes: a real containerd with its shims and runc, the plugin as a process of its own, and a
// client that asks the runtime for pods in the way the kubelet does, cgroups included. Everything in it may be killed and started again.
//
// It expects to run in a [sandbox.Sandbox], which ends what a test leaves behind.
package node

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/credentials/insecure"
	cri "k8s.io/cri-api/pkg/apis/runtime/v1"

	"nri-cpuset/test/e2e/cgroup"
	"nri-cpuset/test/e2e/sandbox"
)

// startTimeout is how long containerd or the plugin may take until it is ready. It takes a second; the machine may be busy.
const startTimeout = 30 * time.Second

// Options say how a node differs from the ordinary one.
type Options struct {
	// Bin is the directory of the programs: containerd, containerd-shim-runc-v2, ctr, runc, busybox and nri-cpuset.
	Bin string
	// RequiredPlugins are the NRI plugins without which containerd creates no container: required_plugins of its default validator.
	RequiredPlugins []string
}

// Node is a node that runs.
type Node struct {
	opts    Options
	dir     string // on disk: images, container root file systems, logs
	run     string // in memory: sockets and what must not outlive the boot
	Cgroups *cgroup.Host
	parent  string // the parent of the node's cgroups
	nextPod int

	Kubepods string // the cgroup in which all pods' are, as a path in the hierarchy

	containerd process
	conn       *grpc.ClientConn
	runtime    cri.RuntimeServiceClient
	pods       map[string]*Pod // by sandbox id
	plugin     *Plugin
}

// Start starts containerd and imports the image.
func Start(ctx context.Context, in sandbox.Sandbox, opts Options) (n *Node, err error) {
	host, err := cgroup.Find()
	if err != nil {
		return nil, err
	}
	if opts.Bin, err = filepath.Abs(opts.Bin); err != nil {
		return nil, err
	}
	n = &Node{opts: opts, Cgroups: host, pods: map[string]*Pod{}}
	if n.dir, err = os.MkdirTemp(in.Dir, "node"); err != nil {
		return nil, err
	}
	// Short, for the path of a Unix socket has 107 bytes at most.
	if n.run, err = os.MkdirTemp("/run", "node"); err != nil {
		return nil, err
	}
	n.parent = filepath.Join(in.Cgroup, filepath.Base(n.run))
	n.Kubepods = filepath.Join(n.parent, "kubepods")
	if err := host.Create(n.Kubepods); err != nil {
		return nil, err
	}

	config := filepath.Join(n.dir, "containerd.toml")
	if err := os.WriteFile(config, []byte(n.containerdConfig()), 0o600); err != nil {
		return nil, err
	}
	n.containerd = process{
		name:    "containerd",
		args:    []string{filepath.Join(n.opts.Bin, "containerd"), "--config", config},
		logFile: filepath.Join(n.dir, "containerd.log"),
	}
	if n.conn, err = grpc.NewClient("unix://"+n.containerdSocket(), grpc.WithTransportCredentials(insecure.NewCredentials()),
		// A restarted containerd is back within a second: do not let the client wait longer than that to notice.
		grpc.WithConnectParams(grpc.ConnectParams{Backoff: backoff.Config{BaseDelay: 10 * time.Millisecond, Multiplier: 1.5, MaxDelay: 100 * time.Millisecond}}),
	); err != nil {
		return nil, err
	}
	n.runtime = cri.NewRuntimeServiceClient(n.conn)
	if err := n.StartContainerd(ctx); err != nil {
		return nil, errors.Join(err, n.Close())
	}
	if err := n.importImage(ctx); err != nil {
		return nil, errors.Join(err, n.Close())
	}
	return n, nil
}

// StartContainerd starts a containerd that was killed. Its containers, if there are any, have been running meanwhile.
func (n *Node) StartContainerd(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	return n.containerd.start(ctx, func(ctx context.Context) error {
		status, err := n.runtime.Status(ctx, &cri.StatusRequest{})
		if err != nil {
			return err
		}
		for _, c := range status.GetStatus().GetConditions() {
			if c.GetType() == cri.RuntimeReady && c.GetStatus() {
				return nil
			}
		}
		return fmt.Errorf("the runtime is not ready: %v", status.GetStatus())
	})
}

// KillContainerd ends containerd as the kernel's OOM killer would, with SIGKILL. The containers go on.
func (n *Node) KillContainerd() error { return n.containerd.signal(syscall.SIGKILL) }

// ContainerdLog returns everything that containerd has written.
func (n *Node) ContainerdLog() string { return n.containerd.log() }

func (n *Node) importImage(ctx context.Context) error {
	archive := filepath.Join(n.dir, "image.tar")
	f, err := os.Create(archive)
	if err != nil {
		return err
	}
	if err := errors.Join(writeImage(f, filepath.Join(n.opts.Bin, "busybox")), f.Close()); err != nil {
		return err
	}
	//nolint:gosec // a program of ours
	ctr := exec.CommandContext(ctx, filepath.Join(n.opts.Bin, "ctr"), "--address", n.containerdSocket(), "--namespace", "k8s.io", "images", "import", archive)
	if output, err := ctr.CombinedOutput(); err != nil {
		return fmt.Errorf("import the image: %w: %s", err, output)
	}
	// containerd's CRI service learns of the image from an event.
	images := cri.NewImageServiceClient(n.conn)
	for deadline := time.Now().Add(10 * time.Second); ; time.Sleep(10 * time.Millisecond) {
		status, err := images.ImageStatus(ctx, &cri.ImageStatusRequest{Image: &cri.ImageSpec{Image: imageName}})
		if err != nil {
			return err
		}
		if status.GetImage() != nil {
			return nil
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("the CRI service does not know the image %s 10 s after its import", imageName)
		}
	}
}

// Close removes the pods and ends the daemons. It is an error if anything of the node is left.
func (n *Node) Close() error {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute+time.Duration(len(n.pods))*time.Second)
	defer cancel()
	var errs []error
	if n.containerd.running() {
		for _, pod := range n.pods {
			errs = append(errs, pod.Remove(ctx))
		}
	}
	if n.plugin != nil && n.plugin.process.running() {
		errs = append(errs, n.plugin.Kill())
	}
	if n.containerd.running() {
		errs = append(errs, n.containerd.signal(syscall.SIGTERM))
	}
	return errors.Join(append(errs, n.conn.Close(), n.Cgroups.Remove(n.parent))...)
}
