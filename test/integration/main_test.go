// Package integration tries the plugin against the real NRI adaptation, over a socket, with a runtime behind it that has no containers
// (package nriruntime) and a judge that asks the kernel only (package oracle).
package integration

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/signal"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/sirupsen/logrus"

	"nri-cpuset/plugin"
)

// asPlugin makes this test's own binary be the plugin, so that it can be killed as a process. It holds the processOptions.
const asPlugin = "NRI_CPUSET_TEST_PLUGIN"

// processOptions are what of plugin.Options can be handed to a process.
type processOptions struct {
	ConfigFile, NodeName, Socket, Index, Sysfs, CgroupRoot, StateDir string
}

func TestMain(m *testing.M) {
	if text, given := os.LookupEnv(asPlugin); given {
		os.Exit(runPlugin(text))
	}
	status := m.Run()
	if status == 0 {
		if left := leftGoroutines(5 * time.Second); left != "" {
			fmt.Fprintf(os.Stderr, "goroutines are left:\n%s\n", left)
			status = 1
		}
	}
	os.Exit(status)
}

func runPlugin(text string) int {
	var p processOptions
	if err := json.Unmarshal([]byte(text), &p); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 2
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	err := plugin.Run(ctx, plugin.Options{
		ConfigFile: p.ConfigFile, NodeName: p.NodeName, Socket: p.Socket, Index: p.Index,
		Sysfs: p.Sysfs, CgroupRoot: p.CgroupRoot, StateDir: p.StateDir, Log: logrus.New(),
	})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

// leftGoroutines waits until nothing of ours or of the NRI runs any more, and returns the stacks of what still does.
func leftGoroutines(patience time.Duration) string {
	for deadline := time.Now().Add(patience); ; time.Sleep(20 * time.Millisecond) {
		stacks := make([]byte, 4<<20)
		stacks = stacks[:runtime.Stack(stacks, true)]
		var left []string
		for s := range strings.SplitSeq(string(stacks), "\n\n") {
			ours := strings.Contains(s, "nri-cpuset/") || strings.Contains(s, "containerd/nri") || strings.Contains(s, "containerd/ttrpc")
			if ours && !strings.Contains(s, "integration.TestMain") {
				left = append(left, s)
			}
		}
		if len(left) == 0 {
			return ""
		}
		if time.Now().After(deadline) {
			return strings.Join(left, "\n\n")
		}
	}
}

// quiet is a log that a test sees only when it fails, or runs verbosely.
func quiet(t testing.TB) *logrus.Logger {
	log := logrus.New()
	log.SetOutput(io.Discard)
	log.SetLevel(logrus.DebugLevel)
	log.AddHook(&testHook{t: t, formatter: &logrus.TextFormatter{DisableColors: true}})
	return log
}
