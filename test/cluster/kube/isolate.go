package kube

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"nri-cpuset/test/e2e/sandbox"
)

// nodeAddress is the node's address, on the loopback device of a network of its own. The kubelet takes none of 127.0.0.0/8; this one is
// meant for examples (RFC 5737) and nobody's.
const nodeAddress = "192.0.2.1"

// networkVar says that the program runs in a network of its own.
const networkVar = "NRI_CPUSET_CLUSTER_NETWORK"

// Run runs program as [sandbox.Run] does, and takes from it what the kubelet would change of the host besides: the network, where no device
// but the loopback is and no port is taken; the directories whose names the kubelet has built in; and the kernel's settings that it insists on.
func Run(program func(sandbox.Sandbox) int) int {
	return sandbox.Run(func(s sandbox.Sandbox) int {
		var code int
		var err error
		if os.Getenv(networkVar) == "" {
			code, err = runInNetwork()
		} else if err = isolate(s.Dir); err == nil {
			code = program(s)
		}
		if err != nil {
			fmt.Fprintf(os.Stderr, "cluster: %v\n", err)
			return 1
		}
		return code
	})
}

// runInNetwork starts this program again in a network namespace of its own, and returns its exit code.
func runInNetwork() (int, error) {
	cmd := exec.Command("/proc/self/exe", os.Args[1:]...) //nolint:gosec,noctx // this very program; the sandbox ends it
	cmd.Args[0] = os.Args[0]
	cmd.Env = append(os.Environ(), networkVar+"=1")
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	cmd.SysProcAttr = &unix.SysProcAttr{Cloneflags: unix.CLONE_NEWNET}
	err := cmd.Run()
	if exit := (*exec.ExitError)(nil); errors.As(err, &exit) && exit.Exited() {
		return exit.ExitCode(), nil
	}
	return 0, err
}

// isolate prepares the namespaces for a kubelet: dir is where the sandbox keeps its files.
func isolate(dir string) error {
	loopback, err := netlink.LinkByName("lo")
	if err != nil {
		return fmt.Errorf("the loopback device: %w", err)
	}
	address, err := netlink.ParseAddr(nodeAddress + "/32")
	if err != nil {
		return err
	}
	if err := errors.Join(netlink.LinkSetUp(loopback), netlink.AddrAdd(loopback, address)); err != nil {
		return fmt.Errorf("the loopback device: %w", err)
	}
	for _, path := range []string{"/var/lib", "/var/log", "/opt"} {
		if err := shadow(path, filepath.Join(dir, "shadow", path)); err != nil {
			return err
		}
	}
	if err := pretendTunables(filepath.Join(dir, "shadow", "sysctl")); err != nil {
		return err
	}
	// As on a host: what is mounted later is to be seen in containers that ask for it. The sandbox has cut all ties to the host before.
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_SHARED, ""); err != nil {
		return fmt.Errorf("share the mounts with the containers: %w", err)
	}
	return nil
}

// shadow lets what is written below a directory go to another one. Only this mount namespace sees it.
func shadow(path, to string) error {
	upper, work := filepath.Join(to, "upper"), filepath.Join(to, "work")
	if err := errors.Join(os.MkdirAll(upper, 0o755), os.MkdirAll(work, 0o700)); err != nil { //nolint:gosec // the mode of /var/lib itself
		return err
	}
	if err := unix.Mount("overlay", path, "overlay", 0, fmt.Sprintf("lowerdir=%s,upperdir=%s,workdir=%s", path, upper, work)); err != nil {
		return fmt.Errorf("an overlay over %s: %w", path, err)
	}
	return nil
}

// tunables are what the kubelet wants of the kernel, see setupKernelTunables in its pkg/kubelet/cm/container_manager_linux.go.
var tunables = map[string]string{
	"vm/overcommit_memory":      "1",
	"vm/panic_on_oom":           "0",
	"kernel/panic":              "10",
	"kernel/panic_on_oops":      "1",
	"kernel/keys/root_maxkeys":  "1000000",
	"kernel/keys/root_maxbytes": "25000000",
}

// pretendTunables lets the kernel's settings look as the kubelet wants them, so that it does not set the host's.
func pretendTunables(dir string) error {
	for name, value := range tunables {
		file := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
			return err
		}
		if err := os.WriteFile(file, []byte(value+"\n"), 0o600); err != nil {
			return err
		}
		if err := unix.Mount(file, filepath.Join("/proc/sys", name), "", unix.MS_BIND, ""); err != nil {
			return fmt.Errorf("a file over /proc/sys/%s: %w", name, err)
		}
	}
	return nil
}
