package bench

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"nri-cpuset/test/nriruntime"
	"nri-cpuset/topology/cpuset"
)

// BenchmarkProcess measures the plugin's process with 500 containers: from its start to its registration and to readiness (the containers
// synchronized, their cgroups written), its memory, and how often it wakes while nothing happens. The machine is this one.
func BenchmarkProcess(b *testing.B) {
	binary := filepath.Join(b.TempDir(), "nri-cpuset")
	build := exec.CommandContext(b.Context(), "go", "build", "-trimpath", "-buildvcs=false", "-ldflags", "-s -w", "-o", binary, "./cmd/nri-cpuset")
	build.Dir = "../.."
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		b.Fatalf("%v\n%s", err, out)
	}
	online, err := os.ReadFile("/sys/devices/system/cpu/online")
	if err != nil {
		b.Fatal(err)
	}
	rt, err := nriruntime.Start(nriruntime.Options{Manner: nriruntime.Containerd, CPUs: cpuset.MustParse(string(online)), CgroupFiles: true})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		if err := rt.Close(); err != nil {
			b.Error(err)
		}
	})
	for i := range 500 {
		runShared(b, rt, pod(b, fmt.Sprintf("shared-%d", i), `"requests":{"cpu":"100m"}`))
	}
	for range b.N {
		measureProcess(b, rt, binary)
	}
	b.ReportMetric(0, "ns/op")
}

const (
	idle = 20 * time.Second
	// settling is the longest wait for the runtime's records to follow: 500 containers, a few a call.
	settling = 3 * time.Minute
	// quiet is how many wakeups a second there are at most when they have.
	quiet = 10
)

func measureProcess(b *testing.B, rt *nriruntime.Runtime, binary string) {
	b.Helper()
	dir := b.TempDir()
	config := filepath.Join(dir, "config.yaml")
	if err := os.WriteFile(config, []byte("cpuManagerPolicy: static\nreservedSystemCPUs: \"0\"\n"), 0o600); err != nil {
		b.Fatal(err)
	}
	var log bytes.Buffer
	command := exec.CommandContext(b.Context(), binary, "run", "--config", config, "--nri-socket", rt.SocketPath(), "--cgroup-root", rt.CgroupRoot(),
		"--state-dir", filepath.Join(dir, "state"), "--listen", "", "--kubelet-root-dir", "", "--podresources-socket", "", "--node-name", "bench")
	command.Stderr = &log
	start := time.Now()
	if err := command.Start(); err != nil {
		b.Fatal(err)
	}
	wait(b, rt, "10-nri-cpuset")
	registered := time.Since(start)
	deadline := time.Now().Add(settling)
	for busy := true; busy && time.Now().Before(deadline); {
		busy = wakeups(b, command.Process.Pid, 2*time.Second) > quiet
	}
	before := status(b, command.Process.Pid)
	time.Sleep(idle)
	after := status(b, command.Process.Pid)
	perSecond := float64(after["threads_switches"]-before["threads_switches"]) / idle.Seconds()
	if err := command.Process.Signal(os.Interrupt); err != nil {
		b.Fatal(err)
	}
	if err := command.Wait(); err != nil {
		b.Fatalf("%v\n%s", err, log.String())
	}
	if strings.Contains(log.String(), "level=warning") {
		b.Logf("the plugin said:\n%.4000s", log.String())
	}
	b.ReportMetric(float64(registered.Microseconds())/1000, "ms-to-registered")
	b.ReportMetric(float64(after["VmRSS"])/1024, "RSS-MiB")
	b.ReportMetric(float64(after["VmHWM"])/1024, "peak-RSS-MiB")
	b.ReportMetric(perSecond, "wakeups/s")
}

// wakeups counts how often all threads of a process went to sleep, a second.
func wakeups(b *testing.B, pid int, during time.Duration) float64 {
	b.Helper()
	before := status(b, pid)
	time.Sleep(during)
	return float64(status(b, pid)["threads_switches"]-before["threads_switches"]) / during.Seconds()
}

// status reads the numbers of /proc/PID/status, and adds up the switches of all threads.
func status(b *testing.B, pid int) map[string]int64 {
	b.Helper()
	numbers := numbersOf(b, fmt.Sprintf("/proc/%d/status", pid))
	threads, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/status", pid))
	if err != nil {
		b.Fatal(err)
	}
	for _, thread := range threads {
		numbers["threads_switches"] += numbersOf(b, thread)["voluntary_ctxt_switches"]
	}
	return numbers
}

func numbersOf(b *testing.B, path string) map[string]int64 {
	b.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		b.Fatal(err)
	}
	numbers := map[string]int64{}
	for line := range strings.Lines(string(text)) {
		name, value, _ := strings.Cut(line, ":")
		fields := strings.Fields(value)
		if len(fields) == 0 {
			continue
		}
		if n, err := strconv.ParseInt(fields[0], 10, 64); err == nil {
			numbers[name] = n
		}
	}
	return numbers
}
