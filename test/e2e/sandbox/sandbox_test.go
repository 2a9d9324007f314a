package sandbox

import (
	"bufio"
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"nri-cpuset/test/e2e/cgroup"
)

// endVar says how the program in the sandbox ends. The tests start this binary again with it.
const endVar = "SANDBOX_TEST_END"

func TestMain(m *testing.M) {
	if end := os.Getenv(endVar); end != "" {
		os.Exit(Run(func(s Sandbox) int { return litter(s, end) }))
	}
	os.Exit(m.Run())
}

// litter leaves behind what containers leave behind, and ends.
func litter(s Sandbox, end string) int {
	host, err := cgroup.Find()
	check(err)
	child := filepath.Join(s.Cgroup, "kubepods", "pod1")
	check(host.Create(child))
	mount := filepath.Join(s.Dir, "mount")
	check(os.Mkdir(mount, 0o700))
	check(unix.Mount("tmpfs", mount, "tmpfs", 0, ""))
	check(os.WriteFile(filepath.Join(mount, "file"), nil, 0o600))
	orphan := exec.Command("sleep", orphanArg(s.Dir))
	orphan.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	check(orphan.Start())
	check(host.Join(child, orphan.Process.Pid))
	fmt.Println(s.Dir)
	switch end {
	case "panic":
		panic("as asked")
	case "wait":
		time.Sleep(time.Minute)
	}
	code, err := strconv.Atoi(end)
	check(err)
	return code
}

func check(err error) {
	if err != nil {
		panic(err)
	}
}

// orphanArg is an argument by which a process is known to be of one sandbox: about a day, for sleep.
func orphanArg(dir string) string {
	return "86400." + strings.TrimPrefix(filepath.Base(dir), prefix)
}

func TestNothingIsLeft(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Fatal("namespaces and cgroups need root")
	}
	tests := []struct {
		name     string
		end      string
		signal   syscall.Signal // sent to the guard
		wantCode int
		wantNext bool // only the next run can clear up
	}{
		{name: "success", end: "0"},
		{name: "failure", end: "3", wantCode: 3},
		{name: "panic", end: "panic", wantCode: 2},
		{name: "interrupted", end: "wait", signal: syscall.SIGINT, wantCode: 1},
		{name: "terminated", end: "wait", signal: syscall.SIGTERM, wantCode: 1},
		{name: "the guard is killed", end: "wait", signal: syscall.SIGKILL, wantCode: -1, wantNext: true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			tmp := t.TempDir()
			dir, code := runLitter(t, tmp, tt.end, tt.signal)
			if code != tt.wantCode {
				t.Errorf("exit code %d, want %d", code, tt.wantCode)
			}
			expectNoProcess(t, orphanArg(dir))
			if tt.wantNext {
				runLitter(t, tmp, "0", 0)
			}
			host, err := cgroup.Find()
			if err != nil {
				t.Fatal(err)
			}
			if _, err := host.Read(cgroupOf(dir)); !os.IsNotExist(err) {
				t.Errorf("the cgroup %s: %v; want that it does not exist", cgroupOf(dir), err)
			}
			if _, err := os.Lstat(dir); !os.IsNotExist(err) {
				t.Errorf("the directory %s: %v; want that it does not exist", dir, err)
			}
		})
	}
}

// runLitter runs litter, sends the guard a signal if there is one, and returns its directory and exit code.
func runLitter(t *testing.T, tmp, end string, signal syscall.Signal) (dir string, code int) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), os.Args[0])
	cmd.Env = append(os.Environ(), endVar+"="+end, "TMPDIR="+tmp)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	output, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	line, err := bufio.NewReader(output).ReadString('\n')
	if err != nil {
		t.Fatalf("the program said nothing: %v; %s", err, stderr.String())
	}
	dir = line[:len(line)-1]
	if signal != 0 {
		if err := cmd.Process.Signal(signal); err != nil {
			t.Fatal(err)
		}
	}
	_ = cmd.Wait() // the caller looks at the code
	return dir, cmd.ProcessState.ExitCode()
}

func expectNoProcess(t *testing.T, arg string) {
	t.Helper()
	for deadline := time.Now().Add(5 * time.Second); ; time.Sleep(10 * time.Millisecond) {
		files, err := filepath.Glob("/proc/[0-9]*/cmdline")
		if err != nil {
			t.Fatal(err)
		}
		var found string
		for _, file := range files {
			if cmdline, err := os.ReadFile(file); err == nil && bytes.Contains(cmdline, []byte(arg)) {
				found = file
			}
		}
		if found == "" {
			return
		}
		if time.Now().After(deadline) {
			t.Errorf("the orphan is still there: %s", found)
			return
		}
	}
}
