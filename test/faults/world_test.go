package faults

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"sync"
	"time"

	"github.com/sirupsen/logrus"

	"nri-cpuset/config"
	"nri-cpuset/plugin"
	"nri-cpuset/plugin/kubepod"
	"nri-cpuset/test/machine"
	"nri-cpuset/test/nriruntime"
	"nri-cpuset/topology"
	"nri-cpuset/topology/cpuset"
)

const (
	machineName = "server-2s-2n-12c-24t"
	pluginName  = "10-nri-cpuset"
	// patience is how long things may take to come right: the longest pause before a reconnection, a look at the online CPUs, two audits and
	// what follows from them, on a machine that is busy with other worlds.
	patience = 30 * time.Second
)

// way is how a plugin and its runtime talk, and what the runtime is.
type way struct {
	name    string
	runtime nriruntime.Options
	direct  bool // the plugin writes cgroup files
}

var ways = []way{
	{"containerd/runtime", nriruntime.Options{Manner: nriruntime.Containerd}, false},
	{"containerd/v2", nriruntime.Options{Manner: nriruntime.Containerd, CgroupDriver: kubepod.Systemd}, true},
	{"containerd/v1", nriruntime.Options{Manner: nriruntime.Containerd, CgroupV1: true}, true},
	{"cri-o/runtime", nriruntime.Options{Manner: nriruntime.CRIO}, false},
	{"cri-o/v2", nriruntime.Options{Manner: nriruntime.CRIO, CgroupDriver: kubepod.Systemd}, true},
	{"cri-o/v1", nriruntime.Options{Manner: nriruntime.CRIO, CgroupV1: true}, true},
	{"old-containerd/v2", nriruntime.Options{Manner: nriruntime.Containerd, NRIVersion: "v0.11.0"}, true},
}

// world is a node with a runtime, a plugin that comes and goes, a kubelet's view of its pods, and a judge.
type world struct {
	way     way
	dir     string
	rt      *nriruntime.Runtime
	judge   *judge
	faults  *injector
	options plugin.Options
	history *history

	kubelet [slots]*running
	serial  int

	plugin    *plugin.Plugin // the last one
	stop      func()         // nil: no plugin runs
	stopping  sync.WaitGroup // one that is being killed
	stale     []byte         // the state file as it was a while ago
	present   cpuset.Set
	reserved  cpuset.Set
	rules     rules
	restarted bool // the runtime; containerd does not tell of the ends of pods that it has found
	needsSync bool // under judge.mu: only a Synchronize can show what a fault has done
}

func newWorld(w way, seed uint64) (_ *world, err error) {
	dir, err := os.MkdirTemp("", "faults")
	if err != nil {
		return nil, err
	}
	n := &world{way: w, dir: dir, judge: newJudge(), history: &history{}, reserved: cpuset.New(0, 12)}
	defer func() {
		if err != nil {
			err = errors.Join(err, os.RemoveAll(dir))
		}
	}()
	n.judge.report = func(violation string) { n.note("VIOLATION, here: %s", violation) }
	n.judge.unsettled = n.unsettled
	n.faults = &injector{manner: w.runtime.Manner, effect: n.effect, excuse: n.judge.excuse}
	n.options = plugin.Options{
		ConfigFile: filepath.Join(dir, "config.yaml"), NodeName: "node", Index: "10",
		Sysfs: filepath.Join(dir, "sys"), StateDir: filepath.Join(dir, "state"), Log: n.history.logger(),
	}
	if err := machine.Unpack(filepath.Join("../conformance/testdata/sysfs", machineName+".tar.gz"), n.options.Sysfs); err != nil {
		return nil, err
	}
	m, err := topology.Read(n.options.Sysfs)
	if err != nil {
		return nil, err
	}
	n.present = m.Online
	n.rules = rules{static: true, online: m.Online}
	if err := n.writeConfig(configs[0]); err != nil {
		return nil, err
	}
	o := w.runtime
	o.Seed = int64(seed)
	o.CPUs, o.Mems, o.MemoryBytes, o.CgroupFiles = m.Online, m.NodeIDs(), 64<<30, w.direct
	o.Hooks = nriruntime.Hooks{Changed: n.judge.changed, Call: n.faults.call, Update: n.faults.update, At: n.faults.at}
	if n.rt, err = nriruntime.Start(o); err != nil {
		return nil, err
	}
	n.options.Socket = n.rt.SocketPath()
	if w.direct {
		n.options.CgroupRoot = n.rt.CgroupRoot()
	}
	return n, nil
}

func (n *world) close() error {
	n.stopPlugin()
	return errors.Join(n.rt.Close(), os.RemoveAll(n.dir))
}

func (n *world) note(format string, args ...any) { n.history.add(fmt.Sprintf(format, args...)) }

// unsettled tells whether the plugin says itself that a container is not where it should be.
func (n *world) unsettled(id string) bool {
	if n.plugin == nil {
		return false
	}
	c, known := n.plugin.Node().Container(id)
	return known && c.Unsettled != ""
}

// effect is told of faults that have their effect. Where the plugin writes and reads the kernel's own files, nothing that the runtime does is an
// excuse.
func (n *world) effect(what string, hidden bool) {
	n.note("fault: %s", what)
	n.judge.set(func() { n.needsSync = n.needsSync || hidden && !n.way.direct })
	if !n.way.direct {
		n.judge.excuse(what)
	}
}

// startPlugin starts a plugin in this process. It does not wait until it is connected.
func (n *world) startPlugin() {
	n.stopping.Wait()
	if n.stop != nil {
		return
	}
	p, err := plugin.Open(n.options)
	if err != nil {
		n.judge.fail("the plugin does not start: %v", err)
		return
	}
	n.judge.set(func() { n.plugin = p })
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- p.Run(ctx) }()
	n.stop = func() {
		cancel()
		if err := <-ended; err != nil {
			n.judge.fail("the plugin ended with: %v", err)
		}
	}
}

// stopPlugin ends the plugin, and waits until the runtime has noticed.
func (n *world) stopPlugin() {
	n.stopping.Wait()
	if n.stop == nil {
		return
	}
	n.judge.setAway(true)
	n.stop()
	n.stop = nil
	n.waitGone()
}

// killPlugin ends the plugin while the next steps are under way.
func (n *world) killPlugin(after time.Duration) {
	n.stopping.Wait()
	if n.stop == nil {
		return
	}
	n.judge.setAway(true)
	end := n.stop
	n.stop = nil
	n.stopping.Go(func() {
		time.Sleep(after)
		end()
		n.waitGone()
	})
}

// waitGone waits until the runtime has noticed that the plugin is not there.
func (n *world) waitGone() {
	if !n.eventually(func() bool { return !n.rt.Connected(pluginName) }) {
		n.judge.fail("the runtime does not notice that the plugin has gone")
	}
}

// lookForPlugin notes a plugin that is back.
func (n *world) lookForPlugin() {
	if n.stop == nil {
		return
	}
	connected := n.rt.Connected(pluginName)
	n.judge.set(func() {
		if !connected && !n.judge.away {
			n.judge.away = true
			if n.judge.grace == "" {
				n.judge.violation("the runtime has dropped the plugin, for no reason that we have given")
			}
		}
		n.judge.away = !connected
	})
}

func (n *world) away() bool {
	n.judge.mu.Lock()
	defer n.judge.mu.Unlock()
	return n.judge.away
}

func (n *world) disconnect() {
	if n.stop == nil {
		return
	}
	n.judge.setAway(true)
	n.rt.Disconnect()
	n.waitReconnecting()
}

// waitReconnecting waits for the end of the connections of which Disconnect has just made an end.
func (n *world) waitReconnecting() { n.eventually(func() bool { return !n.rt.Connected(pluginName) }) }

func (n *world) eventually(done func() bool) bool {
	for deadline := time.Now().Add(patience); !done(); time.Sleep(2 * time.Millisecond) {
		if time.Now().After(deadline) {
			return false
		}
	}
	return true
}

// settle ends all faults and waits until everything is right.
func (n *world) settle() {
	n.faults.disarm()
	if err := n.rt.Up(); err != nil {
		n.judge.fail("the runtime does not come up: %v", err)
		return
	}
	n.startPlugin()
	var needsSync bool
	n.judge.set(func() { needsSync, n.needsSync = n.needsSync, false })
	if needsSync || n.restarted && !n.way.direct {
		n.eventually(func() bool { return n.rt.Connected(pluginName) })
		n.disconnect()
	}
	if !n.eventually(func() bool { return n.rt.Connected(pluginName) }) {
		n.judge.fail("the plugin does not come back within %s", patience)
		return
	}
	n.judge.setAway(false)
	n.rt.Settle()
	n.resizeAgain()
	var wrong []string
	if !n.eventually(func() bool { n.nudge(); wrong = n.wrong(); return len(wrong) == 0 }) {
		n.judge.fail("not put right within %s:\n  %s", patience, strings.Join(wrong, "\n  "))
	}
	n.stale, _ = os.ReadFile(n.stateFile()) // there is none yet where nobody has got anything
}

// nudge lets a few things happen where the plugin can have nothing changed but in a reply.
func (n *world) nudge() {
	if n.way.runtime.NRIVersion == "" {
		return
	}
	pod, err := n.rt.RunPod(kubepod.Pod{Name: "nudge", Containers: []kubepod.Container{{Name: "a"}}})
	if err != nil {
		n.note("run nudge: %v", err)
		return
	}
	_, err = n.rt.Create(pod, "a")
	if err := errors.Join(err, n.rt.RemovePod(pod)); err != nil {
		n.note("nudge: %v", err)
	}
}

func (n *world) stateFile() string { return filepath.Join(n.options.StateDir, "state.json") }

// wrong returns what is wrong although everything has had its time.
func (n *world) wrong() []string {
	cfg, err := config.Load(n.options.ConfigFile, n.options.NodeName)
	books := n.plugin.Node().Snapshot()
	if err == nil { // otherwise the last good one is in force
		policy, err := cfg.Policy()
		if err != nil {
			return []string{err.Error()}
		}
		if !reflect.DeepEqual(policy, books.Rules.Allocator.Policy()) || books.Rules.LiftQuota == n.rules.keepQuota {
			return []string{"the configuration is not in force"}
		}
	}
	if err := n.plugin.Node().Check(); err != nil {
		return []string{err.Error()}
	}
	s, err := n.rt.Snapshot()
	if err != nil {
		return []string{err.Error()}
	}
	wrong := n.leaks(books.Containers)
	return append(wrong, n.judge.settled(s, books, n.rules)...)
}

// configs are what the operator may want: the first one at the beginning, and more often than the others.
var configs = []operatorsWish{
	{"cpuManagerPolicy: static\nreservedSystemCPUs: \"0,12\"\n", true, true, false},
	{"cpuManagerPolicy: none\n", true, false, false},
	{"cpuManagerPolicy: static\nreservedSystemCPUs: \"0,12\"\ncpuManagerPolicyOptions: {full-pcpus-only: \"true\"}\n", true, true, false},
	{"cpuManagerPolicy: static\nreservedSystemCPUs: \"0,12\"\ncpuManagerPolicyOptions: {distribute-cpus-across-numa: \"true\"}\n", true, true, false},
	{"cpuManagerPolicy: static\nreservedSystemCPUs: \"0,12\"\ncpuManagerPolicyOptions: {strict-cpu-reservation: \"true\"}\n", true, true, false},
	{"cpuManagerPolicy: static\nreservedSystemCPUs: \"0-1,12-13\"\n", true, true, false},
	{"cpuManagerPolicy: static\nsystemReserved: {cpu: 3500m}\n", true, true, false},
	{"cpuManagerPolicy: static\nreservedSystemCPUs: \"0,12\"\ndisableCPUQuotaWithExclusiveCPUs: false\n", true, true, true},
	{"cpuManagerPolicy: static\nreservedSystemCPUs: \"0,12\"\ntopologyManagerPolicy: single-numa-node\n", true, true, false},
	{"cpuManagerPolicy: static\nreservedSystemCPUs: \"0,12\"\ntopologyManagerPolicy: restricted\ntopologyManagerScope: pod\n", true, true, false},
	{"cpuManagerPolicy: statik\n", false, false, false},
}

// operatorsWish is a configuration and what follows from it.
type operatorsWish struct {
	text                     string
	valid, static, keepQuota bool
}

func (n *world) writeConfig(c operatorsWish) error {
	// By rename, so that no half of it is ever read.
	next := n.options.ConfigFile + ".next"
	if err := os.WriteFile(next, []byte(c.text+"auditInterval: 1s\n"), 0o600); err != nil {
		return err
	}
	return os.Rename(next, n.options.ConfigFile)
}

func (n *world) configure(c operatorsWish) {
	if c.valid && c.static != n.rules.static {
		n.judge.excuse("the policy has changed")
	}
	n.judge.set(func() { n.judge.mayMove = true })
	if err := n.writeConfig(c); err != nil {
		n.judge.fail("%v", err)
	}
	if c.valid {
		n.rules.static, n.rules.keepQuota = c.static, c.keepQuota
	}
}

// setOnline takes CPUs away and brings them back, in the kernel and in sysfs.
func (n *world) setOnline(cpus cpuset.Set) {
	n.judge.excuse("CPUs come and go")
	err := n.rt.SetOnline(cpus)
	name := filepath.Join(n.options.Sysfs, "devices/system/cpu/online")
	err = errors.Join(err, os.WriteFile(name+".next", []byte(cpus.String()+"\n"), 0o600), os.Rename(name+".next", name))
	if err != nil {
		n.judge.fail("%v", err)
	}
	n.rules.online = cpus
}

// history keeps the last things that happened.
type history struct {
	mu    sync.Mutex
	lines []string
}

func (h *history) add(line string) {
	const most = 400
	h.mu.Lock()
	defer h.mu.Unlock()
	h.lines = append(h.lines, time.Now().Format("05.000 ")+line)
	if len(h.lines) > 2*most {
		h.lines = append(h.lines[:0], h.lines[most:]...)
	}
}

func (h *history) last(n int) []string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return append([]string(nil), h.lines[max(0, len(h.lines)-n):]...)
}

func (h *history) logger() *logrus.Logger {
	log := logrus.New()
	log.SetOutput(io.Discard)
	log.AddHook(h)
	return log
}

// Levels implements logrus.Hook.
func (*history) Levels() []logrus.Level { return logrus.AllLevels }

// Fire implements logrus.Hook.
func (h *history) Fire(e *logrus.Entry) error {
	line := "    plugin: " + e.Message
	for name, value := range e.Data {
		if name != "node" {
			line += fmt.Sprintf(" %s=%v", name, value)
		}
	}
	h.add(line)
	return nil
}
