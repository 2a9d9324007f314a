package vm

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"nri-cpuset/test/e2e/node"
)

// testPolicy changes the configuration under running containers, from policy none to static and back.
func (f *fixture) testPolicy(t *testing.T) {
	f.expectFences(t, "the policy is none", allCPUs)
	c := f.run(t, "whole", exclusive(2))
	free := seen{allCPUs, allMems, 200_000, 200_000}
	f.expect(t, "the policy is none", allCPUs, wants{c, free})

	f.configure(t, static)
	f.expectSoon(t, "the policy is static", "0-1,4-15", wants{c, pinned("2-3")})
	exposed := f.watchExposure(t, c, "")
	stays := f.watchStay(t, c)
	f.configure(t, static+"cpuManagerPolicyOptions: {full-pcpus-only: \"true\"}\n")
	f.expectSoon(t, "with full-pcpus-only", "0-1,4-15", wants{c, pinned("2-3")})
	f.configure(t, "cpuManagerPolicy: estatic\n")
	if r := f.reported(t); r.ConfigError == "" {
		t.Errorf("the configuration is wrong, and the plugin reports %+v", r)
	}
	f.expect(t, "the configuration is wrong", "0-1,4-15", wants{c, pinned("2-3")})
	stays()

	f.configure(t, strings.Replace(static, "0-1", "0-3", 1))
	f.expectSoon(t, "its CPUs are reserved", "0-3,6-15", wants{c, pinned("4-5")})
	exposed()
	f.configure(t, none)
	f.expectSoon(t, "the policy is none again", allCPUs, wants{c, free})
	f.expectFences(t, "the policy is none again", allCPUs)
}

// testKilled kills the plugin with SIGKILL. Nobody moves, and what happened meanwhile is caught up with.
func (f *fixture) testKilled(t *testing.T) {
	c := f.run(t, "exclusive", exclusive(2))
	gone := f.run(t, "gone", exclusive(4))
	before := []wants{{c, pinned("2-3")}, {gone, pinned("4-7")}}
	f.expectSoon(t, "before", "0-1,8-15", before...)
	exposed := f.watchExposure(t, c, "")

	stays := f.watchStay(t, c, gone)
	f.kill(t)
	f.expect(t, "the plugin is away", "0-1,8-15", before...)
	do(t, f.plugin.Start)
	f.expect(t, "the plugin is back", "0-1,8-15", before...)
	stays()

	f.kill(t)
	f.remove(t, gone.Pod())
	f.expect(t, "one has gone while the plugin is away", "0-1,8-15", wants{c, pinned("2-3")})
	do(t, f.plugin.Start)
	f.expectSoon(t, "the plugin is back, one has gone", "0-1,4-15", wants{c, pinned("2-3")})
	exposed()

	f.kill(t)
	if err := f.configMap.write(none); err != nil {
		t.Fatal(err)
	}
	do(t, f.plugin.Start)
	f.expectSoon(t, "the policy is none when the plugin is back", allCPUs, wants{c, seen{allCPUs, allMems, 200_000, 200_000}})
	f.expectFences(t, "the policy is none when the plugin is back", allCPUs)
}

func (f *fixture) kill(t *testing.T) {
	t.Helper()
	if err := f.plugin.Kill(); err != nil {
		t.Fatal(err)
	}
}

// testSharedCPU: those who share lose a CPU that goes offline, and have it again when it is back; the exclusive one does not notice.
func (f *fixture) testSharedCPU(t *testing.T) {
	c := f.run(t, "exclusive", exclusive(2))
	f.expectSoon(t, "all are online", "0-1,4-15", wants{c, pinned("2-3")})
	exposed := f.watchExposure(t, c, "")
	f.online(t, 15, false)
	f.expectSoon(t, "CPU 15 is offline", "0-1,4-14", wants{c, pinned("2-3")})
	f.waitOwn(t, "0-1,4-14") // the plugin has seen it as well
	late := f.run(t, "late", node.Resources{})
	expectSaid(t, late, "0-1,4-14", allMems)
	f.online(t, 15, true)
	f.expectSoon(t, "CPU 15 is online again", "0-1,4-15", wants{c, pinned("2-3")}, wants{late, seen{"0-1,4-15", allMems, -1, -1}})
	exposed()
}

// testExclusiveCPU: an exclusive container whose CPU goes offline gets another and keeps the rest.
func (f *fixture) testExclusiveCPU(t *testing.T) {
	c := f.run(t, "exclusive", exclusive(2))
	f.expectSoon(t, "all are online", "0-1,4-15", wants{c, pinned("2-3")})
	exposed := f.watchExposure(t, c, "")
	f.online(t, 3, false)
	f.expectSoon(t, "CPU 3 is offline", "0-1,5-15", wants{c, pinned("2,4")})
	f.online(t, 3, true)
	f.expectSoon(t, "CPU 3 is online again", "0-1,3,5-15", wants{c, pinned("2,4")})

	if err := c.Update(t.Context(), exclusive(14)); err != nil {
		t.Fatal(err)
	}
	f.expectSoon(t, "it has all that can be given", "0-1", wants{c, pinned("2-15")})
	f.online(t, 9, false)
	f.expectSoon(t, "CPU 9 is offline, and no other is free", "0-1", wants{c, pinned("2-8,10-15")})
	f.waitUnsettled(t, true)
	f.online(t, 9, true)
	f.expectSoon(t, "CPU 9 is online again", "0-1", wants{c, pinned("2-15")})
	f.waitUnsettled(t, false)
	exposed()
}

// testReservedCPU: a reserved CPU that is offline is one the less, and keeps nothing else from being adapted.
func (f *fixture) testReservedCPU(t *testing.T) {
	c := f.run(t, "exclusive", exclusive(2))
	f.expectSoon(t, "all are online", "0-1,4-15", wants{c, pinned("2-3")})
	exposed := f.watchExposure(t, c, "")
	f.online(t, 1, false)
	f.expectSoon(t, "CPU 1 is offline", "0,4-15", wants{c, pinned("2-3")})
	f.online(t, 3, false)
	f.expectSoon(t, "CPUs 1 and 3 are offline", "0,5-15", wants{c, pinned("2,4")})
	f.online(t, 3, true)
	f.online(t, 1, true)
	f.expectSoon(t, "CPUs 1 and 3 are online again", "0-1,3,5-15", wants{c, pinned("2,4")})
	exposed()
}

// waitUnsettled waits until the plugin tells of a container that has less than it should have, or of none.
func (f *fixture) waitUnsettled(t *testing.T, want bool) {
	t.Helper()
	for begin := time.Now(); f.reported(t).unsettled() != want; time.Sleep(20 * time.Millisecond) {
		if time.Since(begin) > soon {
			t.Errorf("after %v, that a container is not where it should be: reported %v, want %v", soon, !want, want)
			return
		}
	}
}

// online takes a CPU online or offline, and online at the latest when the test ends.
func (f *fixture) online(t *testing.T, cpu int, on bool) {
	t.Helper()
	path := fmt.Sprintf("/sys/devices/system/cpu/cpu%d/online", cpu)
	value := "0"
	if on {
		value = "1"
	}
	if err := os.WriteFile(path, []byte(value), 0); err != nil {
		t.Fatal(err)
	}
	if !on {
		t.Cleanup(func() {
			if err := os.WriteFile(path, []byte("1"), 0); err != nil {
				t.Error(err)
			}
		})
	}
}
