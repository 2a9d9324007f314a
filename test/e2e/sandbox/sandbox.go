// Package sandbox runs a test program in such a way that nothing it starts outlives it, however it ends.
//
// Containers are made to outlive whoever made them: their shims leave the process tree, their root file systems are mounts, and their
// cgroups are directories. [Run] therefore starts the program anew below two guards:
//
//	guard    waits for the rest, then removes the cgroups and the files
//	  init   PID 1 of a PID and a mount namespace of its own: collects the orphans
//	    the program
//
// When init ends, in order or killed, the kernel kills every process of the namespace and takes down its mounts. The guard is not part of
// that and clears up after any end but its own; should it be killed too, the kernel kills init, and the next run clears up the rest.
package sandbox

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"syscall"

	"golang.org/x/sys/unix"

	"nri-cpuset/test/e2e/cgroup"
)

// Sandbox is where the program may leave things.
type Sandbox struct {
	Dir    string // a directory on disk
	Cgroup string // the parent of all cgroups, as a path in the hierarchy
}

const (
	stageVar = "NRI_CPUSET_E2E_STAGE"
	dirVar   = "NRI_CPUSET_E2E_DIR"
	prefix   = "nri-cpuset-e2e-"
)

// Run runs program in a sandbox and returns the exit code of the whole.
func Run(program func(Sandbox) int) int {
	if os.Getenv(stageVar) == "program" {
		dir := os.Getenv(dirVar)
		return program(Sandbox{Dir: dir, Cgroup: cgroupOf(dir)})
	}
	stage := guard
	if os.Getenv(stageVar) == "init" {
		stage = initialize
	}
	code, err := stage()
	if err != nil {
		fmt.Fprintf(os.Stderr, "e2e: %v\n", err)
		return max(code, 1)
	}
	return code
}

// guard is the outermost process.
func guard() (code int, err error) {
	if os.Geteuid() != 0 {
		return 1, errors.New("these tests start containerd and make cgroups: run them as root")
	}
	host, err := cgroup.Find()
	if err != nil {
		return 1, err
	}
	delegated, err := host.Delegated()
	if err != nil {
		return 1, err
	}
	if err := clearLeftovers(host); err != nil {
		return 1, fmt.Errorf("clear up after an earlier run: %w", err)
	}
	dir, lock, err := makeDir()
	if err != nil {
		return 1, err
	}
	defer lock.Close()
	defer func() { err = errors.Join(err, clearUp(host, dir), host.Undelegate(delegated)) }()

	interrupts := make(chan os.Signal, 1)
	signal.Notify(interrupts, syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP)
	cmd := stageCommand("init", dir)
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: unix.CLONE_NEWPID | unix.CLONE_NEWNS, Pdeathsig: syscall.SIGKILL}
	if err := cmd.Start(); err != nil {
		return 1, fmt.Errorf("start in new PID and mount namespaces: %w", err)
	}
	ended := make(chan struct{})
	go func() {
		_ = cmd.Wait() // the exit code is taken from ProcessState
		close(ended)
	}()
	select {
	case <-ended:
	case s := <-interrupts:
		err = fmt.Errorf("%v: clearing up", s)
		_ = cmd.Process.Kill()
		<-ended
	}
	if code = cmd.ProcessState.ExitCode(); code < 0 {
		code = 1
	}
	return code, err
}

// initialize is PID 1 of the namespaces.
func initialize() (int, error) {
	for _, m := range []struct {
		source, target, kind string
		flags                uintptr
	}{
		{"", "/", "", unix.MS_REC | unix.MS_PRIVATE},
		{"proc", "/proc", "proc", unix.MS_NOSUID | unix.MS_NODEV | unix.MS_NOEXEC},
		// The runtime's sockets and state are in /run, some of them by a name that cannot be changed: keep them apart from the host's.
		{"tmpfs", "/run", "tmpfs", unix.MS_NOSUID | unix.MS_NODEV},
	} {
		if err := unix.Mount(m.source, m.target, m.kind, m.flags, ""); err != nil {
			return 1, fmt.Errorf("mount %s: %w", m.target, err)
		}
	}
	cmd := stageCommand("program", os.Getenv(dirVar))
	if err := cmd.Start(); err != nil {
		return 1, err
	}
	for {
		var status unix.WaitStatus
		pid, err := unix.Wait4(-1, &status, 0, nil)
		if errors.Is(err, unix.EINTR) {
			continue
		}
		if err != nil {
			return 1, fmt.Errorf("wait: %w", err)
		}
		if pid != cmd.Process.Pid || !status.Exited() && !status.Signaled() {
			continue
		}
		if status.Signaled() {
			return 1, fmt.Errorf("the tests were ended by: %v", status.Signal())
		}
		return status.ExitStatus(), nil
	}
}

func stageCommand(stage, dir string) *exec.Cmd {
	cmd := exec.Command("/proc/self/exe", os.Args[1:]...) //nolint:gosec // this very program, which ends with its parent
	cmd.Args[0] = os.Args[0]
	cmd.Env = append(os.Environ(), stageVar+"="+stage, dirVar+"="+dir, "TMPDIR="+dir)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	return cmd
}

func cgroupOf(dir string) string { return "/" + filepath.Base(dir) }

func clearUp(host *cgroup.Host, dir string) error {
	// The cgroups first: an earlier run's are found by the directory.
	if err := host.Remove(cgroupOf(dir)); err != nil {
		return err
	}
	return os.RemoveAll(dir)
}

// makeDir makes the run's directory and takes its lock, which tells other runs, until this process is gone, that the directory is in use. It
// gets its name only then: a run that starts at the same moment takes what it finds without a lock for a leftover.
func makeDir() (dir string, lock *os.File, err error) {
	name := fmt.Sprintf("%s%d", prefix, os.Getpid())
	dir = filepath.Join(os.TempDir(), name)
	unnamed := filepath.Join(os.TempDir(), "new-"+name)
	if err := os.Mkdir(unnamed, 0o700); err != nil {
		return "", nil, err
	}
	if lock, err = lockDir(unnamed); err != nil {
		return "", nil, err
	}
	return dir, lock, os.Rename(unnamed, dir)
}

func clearLeftovers(host *cgroup.Host) error {
	dirs, err := filepath.Glob(filepath.Join(os.TempDir(), prefix+"*"))
	if err != nil {
		return err
	}
	for _, dir := range dirs {
		lock, err := lockDir(dir)
		if errors.Is(err, unix.EWOULDBLOCK) {
			continue // another run, alive
		}
		if err != nil {
			return err
		}
		if err := errors.Join(clearUp(host, dir), lock.Close()); err != nil {
			return err
		}
	}
	return nil
}

func lockDir(dir string) (*os.File, error) {
	f, err := os.OpenFile(filepath.Join(dir, "lock"), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		return nil, errors.Join(fmt.Errorf("lock %s: %w", dir, err), f.Close())
	}
	return f, nil
}
