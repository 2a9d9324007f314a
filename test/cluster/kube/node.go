// Package kube is a Kubernetes node and a one-node cluster made of the real programs: the kubelet on a real containerd, and etcd, the API
// server, the controller manager and the scheduler beside it. Everything in it may be killed and started again.
//
// It expects to run in what [Run] prepares, which ends what a test leaves behind.
package kube

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"

	"nri-cpuset/test/e2e/node"
	"nri-cpuset/test/e2e/sandbox"
)

// NodeName is the node's name in the cluster.
const NodeName = "node-1"

// Node is a node that runs: containerd with a network for pods, and the kubelet once it is started.
type Node struct {
	*node.Node
	Kubelet *Daemon
	Runtime *Runtime

	bin    string
	dir    string // on disk
	run    string // containerd's sockets
	parent string // the cgroup of everything
}

// StartNode starts containerd with the programs in bin: those of [node.Options], and the CNI plugins ptp, host-local and loopback.
func StartNode(ctx context.Context, in sandbox.Sandbox, bin string) (n *Node, err error) {
	n = &Node{}
	if n.bin, err = filepath.Abs(bin); err != nil {
		return nil, err
	}
	if n.dir, err = os.MkdirTemp(in.Dir, "kube"); err != nil {
		return nil, err
	}
	// A directory of its own, so that what is in there is this node's.
	if n.Node, err = node.Start(ctx, sandbox.Sandbox{Dir: n.dir, Cgroup: in.Cgroup}, node.Options{Bin: n.bin}); err != nil {
		return nil, err
	}
	n.run = filepath.Dir(n.NRISocket())
	n.parent = filepath.Join(in.Cgroup, filepath.Base(n.run))
	if n.Runtime, err = connectRuntime(n.runtimeEndpoint()); err != nil {
		return nil, errors.Join(err, n.Node.Close())
	}
	if err := errors.Join(n.prepareCgroups(), n.mountDirs(), n.connectPods()); err != nil {
		return nil, errors.Join(err, n.Close())
	}
	return n, nil
}

func (n *Node) runtimeEndpoint() string { return "unix://" + filepath.Join(n.run, "containerd.sock") }

// KubepodsCgroup is the parent of all pods' cgroups.
func (n *Node) KubepodsCgroup() string { return filepath.Join(n.parent, "kubepods") }

// prepareCgroups makes the parent where the kubelet looks for it though it uses none of it: in the hierarchy without controllers.
func (n *Node) prepareCgroups() error {
	const systemd = "/sys/fs/cgroup/systemd"
	if _, err := os.Stat(systemd); errors.Is(err, os.ErrNotExist) {
		return nil // cgroup v2
	}
	return os.MkdirAll(filepath.Join(systemd, n.KubepodsCgroup()), 0o755) //nolint:gosec // the mode of every cgroup
}

// mounts are where the node's directories have to be found: by the plugin's DaemonSet, which expects the NRI socket where containerd has it
// by default, and by the kubelet, which has these names built in. Below the others they are, as all of the node, its own.
func (n *Node) mounts() map[string]string {
	return map[string]string{
		"/run/nri":            n.run,
		"/var/lib/kubelet":    filepath.Join(n.dir, "kubelet"),
		"/var/log/pods":       filepath.Join(n.dir, "pods"),
		"/var/log/containers": filepath.Join(n.dir, "containers"),
	}
}

func (n *Node) mountDirs() error {
	for path, dir := range n.mounts() {
		if err := errors.Join(os.MkdirAll(path, 0o755), os.MkdirAll(dir, 0o755)); err != nil { //nolint:gosec // the modes that these directories have
			return err
		}
		if err := unix.Mount(dir, path, "", unix.MS_BIND, ""); err != nil {
			return fmt.Errorf("bind %s to %s: %w", dir, path, err)
		}
	}
	return nil
}

func (n *Node) unmountDirs() error {
	var errs []error
	for path := range n.mounts() {
		// With what the kubelet has mounted below: the volumes of pods that it did not get to end.
		if err := unix.Unmount(path, unix.MNT_DETACH); err != nil {
			errs = append(errs, fmt.Errorf("unmount %s: %w", path, err))
		}
	}
	return errors.Join(errs...)
}

// network is a CNI network of pairs of devices: each pod's own, and its end on the node.
const network = `{
  "cniVersion": "1.0.0",
  "name": "pods",
  "plugins": [{"type": "ptp", "ipam": {"type": "host-local", "ranges": [[{"subnet": "198.51.100.0/24"}]], "routes": [{"dst": "0.0.0.0/0"}]}}]
}
`

// connectPods gives containerd a network for pods. Its configuration names a directory of its own for that, and /opt/cni/bin.
func (n *Node) connectPods() error {
	const plugins = "/opt/cni/bin"
	if err := os.MkdirAll(plugins, 0o755); err != nil { //nolint:gosec // the mode of /opt itself
		return err
	}
	for _, name := range []string{"ptp", "host-local", "loopback"} {
		if err := os.Symlink(filepath.Join(n.bin, name), filepath.Join(plugins, name)); err != nil && !errors.Is(err, os.ErrExist) {
			return err
		}
	}
	dirs, err := filepath.Glob(filepath.Join(n.dir, "node*", "cni"))
	if err != nil || len(dirs) != 1 {
		return fmt.Errorf("containerd's CNI configuration below %s is in %q (%w), want one directory", n.dir, dirs, err)
	}
	return os.WriteFile(filepath.Join(dirs[0], "10-pods.conflist"), []byte(network), 0o600)
}

// StartKubelet starts the kubelet: with a kubeconfig as the node of a cluster, without one alone, with static pods.
func (n *Node) StartKubelet(ctx context.Context, kubeconfig string) error {
	if err := os.MkdirAll(n.manifests(), 0o700); err != nil {
		return err
	}
	config := filepath.Join(n.dir, "kubelet.yaml")
	if err := os.WriteFile(config, []byte(n.kubeletConfig()), 0o600); err != nil {
		return err
	}
	n.Kubelet = &Daemon{
		args: []string{
			filepath.Join(n.bin, "kubelet"), "--config", config, "--hostname-override", NodeName, "--node-ip", nodeAddress,
		},
		logFile: filepath.Join(n.dir, "kubelet.log"),
		healthz: "http://127.0.0.1:10248/healthz",
	}
	if kubeconfig != "" {
		n.Kubelet.args = append(n.Kubelet.args, "--kubeconfig", kubeconfig)
	}
	return n.Kubelet.Start(ctx)
}

// kubeletConfig turns off what is not the subject and would reach outside: swap, disk pressure, DNS, and the managers whose work the plugin
// does, which are off by default too.
func (n *Node) kubeletConfig() string {
	return fmt.Sprintf(`apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
containerRuntimeEndpoint: %s
cgroupDriver: cgroupfs
cgroupRoot: %s
staticPodPath: %s
cpuManagerPolicy: none
memoryManagerPolicy: None
failCgroupV1: false
failSwapOn: false
evictionHard: {}
imageGCHighThresholdPercent: 100
address: 127.0.0.1
healthzBindAddress: 127.0.0.1
readOnlyPort: 0
authentication: {anonymous: {enabled: true}, webhook: {enabled: false}}
authorization: {mode: AlwaysAllow}
resolvConf: ""
volumePluginDir: /var/lib/kubelet/volumeplugins
fileCheckFrequency: 1s
syncFrequency: 5s
crashLoopBackOff: {maxContainerRestartPeriod: 2s}
`, n.runtimeEndpoint(), n.parent, n.manifests())
}

func (n *Node) manifests() string { return filepath.Join(n.dir, "manifests") }

// RunStatic gives the kubelet the manifest of a static pod, which has the name that the manifest says, followed by the node's.
func (n *Node) RunStatic(name, manifest string) error {
	// Written elsewhere and renamed: the kubelet watches the directory and would read half a file.
	next := filepath.Join(n.dir, name+".next")
	if err := os.WriteFile(next, []byte(manifest), 0o600); err != nil {
		return err
	}
	return os.Rename(next, filepath.Join(n.manifests(), name+".yaml"))
}

// RemoveStatic takes the manifest away; the kubelet ends the pod.
func (n *Node) RemoveStatic(name string) error {
	return os.Remove(filepath.Join(n.manifests(), name+".yaml"))
}

// Close ends the kubelet, removes all pods and ends containerd. It is an error if anything of the node is left.
func (n *Node) Close() error {
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	var errs []error
	if n.Kubelet.Running() {
		errs = append(errs, n.Kubelet.Kill())
	}
	return errors.Join(append(errs, n.Runtime.removeAllPods(ctx), n.Runtime.conn.Close(), n.Node.Close(), n.unmountDirs())...)
}
