package doctor

import (
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// node is a node's files, and where the doctor is to look.
type node struct {
	t       *testing.T
	options Options
}

// newNode is a node with nothing wrong: 4 CPUs, cgroup v2 with the systemd driver, containerd that requires the plugin, and one that runs.
func newNode(t *testing.T) *node {
	t.Helper()
	root, err := os.MkdirTemp("", "doctor") // not t.TempDir: a socket's path has at most 107 bytes
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(root) })
	n := &node{t, Options{
		HostRoot: root, ConfigFile: filepath.Join(root, "config.yaml"), NodeName: "db-1", Socket: "/var/run/nri/nri.sock", Sysfs: "/sys",
		CgroupRoot: "/sys/fs/cgroup", StateDir: "/run/nri-cpuset", KubeletRoot: "/var/lib/kubelet",
	}}
	n.write("config.yaml", "cpuManagerPolicy: static\nreservedSystemCPUs: \"0\"\n")
	for name, text := range map[string]string{"online": "0-3", "present": "0-3", "possible": "0-3", "isolated": ""} {
		n.write("sys/devices/system/cpu/"+name, text+"\n")
	}
	for cpu := range 4 {
		for name, text := range map[string]string{
			"core_id": fmt.Sprint(cpu), "physical_package_id": "0", "thread_siblings_list": fmt.Sprint(cpu), "core_siblings_list": "0-3",
		} {
			n.write(fmt.Sprintf("sys/devices/system/cpu/cpu%d/topology/%s", cpu, name), text+"\n")
		}
	}
	n.write("sys/fs/cgroup/cgroup.controllers", "cpuset cpu io memory hugetlb pids\n")
	n.write("sys/fs/cgroup/kubepods.slice/cpuset.cpus", "\n")
	n.write("var/lib/kubelet/cpu_manager_state", `{"policyName":"none","defaultCpuSet":"","checksum":1353318690}`)
	n.write("var/lib/kubelet/memory_manager_state", `{"policyName":"None","machineState":{},"entries":{},"checksum":4047121556}`)
	n.copy("containerd-required.toml", "etc/containerd/config.toml")
	if err := os.MkdirAll(filepath.Join(root, "run/nri-cpuset"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("/run", filepath.Join(root, "var/run")); err != nil { // an absolute link, as on real nodes
		t.Fatal(err)
	}
	n.listen()
	n.serve(http.StatusOK, "ok", `{"runtime":{"name":"containerd","version":"v2.5.0","nri":"v0.12.4"}}`)
	return n
}

func (n *node) path(name string) string { return filepath.Join(n.options.HostRoot, name) }

func (n *node) write(name, text string) {
	n.t.Helper()
	if err := os.MkdirAll(filepath.Dir(n.path(name)), 0o755); err != nil {
		n.t.Fatal(err)
	}
	if err := os.WriteFile(n.path(name), []byte(text), 0o600); err != nil {
		n.t.Fatal(err)
	}
}

func (n *node) copy(fixture, name string) {
	n.t.Helper()
	text, err := os.ReadFile(filepath.Join("testdata", fixture))
	if err != nil {
		n.t.Fatal(err)
	}
	n.write(name, string(text))
}

func (n *node) remove(name string) {
	n.t.Helper()
	if err := os.RemoveAll(n.path(name)); err != nil {
		n.t.Fatal(err)
	}
}

// listen has somebody answer at the NRI socket.
func (n *node) listen() {
	n.t.Helper()
	if err := os.MkdirAll(n.path("run/nri"), 0o755); err != nil {
		n.t.Fatal(err)
	}
	listener, err := net.Listen("unix", n.path("run/nri/nri.sock"))
	if err != nil {
		n.t.Fatal(err)
	}
	n.t.Cleanup(func() { _ = listener.Close() })
}

// serve has a plugin answer.
func (n *node) serve(ready int, text, state string) {
	mux := http.NewServeMux()
	mux.HandleFunc("/readyz", func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(ready)
		fmt.Fprintln(w, text)
	})
	mux.HandleFunc("/api/v1/state", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, state) })
	server := httptest.NewServer(mux)
	n.t.Cleanup(server.Close)
	n.options.Address = strings.TrimPrefix(server.URL, "http://")
}

func TestExamine(t *testing.T) {
	for _, test := range []struct {
		name   string
		change func(*node)
		check  string
		want   Severity
		seen   string // part of what is said
		remedy string // part of the remedy
	}{
		{"the topology is read", func(*node) {}, "topology", OK, "CPUs 0-3 online", ""},
		{
			"no sysfs", func(n *node) { n.remove("sys/devices") },
			"topology", Problem, "sys/devices", "sysfs is mounted",
		},

		{"the configuration fits", func(*node) {}, "configuration", OK, "reserved 0, 3 CPUs can be exclusive", ""},
		{
			"no configuration", func(n *node) { n.remove("config.yaml") },
			"configuration", Problem, "there is no", "ConfigMap",
		},
		{
			"a misspelt setting", func(n *node) { n.write("config.yaml", "cpuManagerPolicies: static\n") },
			"configuration", Problem, "config.yaml:1: cpuManagerPolicies", "nri-cpuset validate",
		},
		{
			"a reserved CPU that the machine has not",
			func(n *node) { n.write("config.yaml", "cpuManagerPolicy: static\nreservedSystemCPUs: \"9\"\n") },
			"configuration", Problem, "does not fit the machine", "nri-cpuset validate",
		},
		{
			"another node's settings are wrong for this machine", func(n *node) {
				n.write("config.yaml", "nodes:\n- {names: [big], config: {cpuManagerPolicy: static, reservedSystemCPUs: \"9\"}}\n")
			},
			"configuration", OK, "cpuManagerPolicy none", "",
		},

		{
			"the configuration is not looked at, so the kubelet's pinning is a problem", func(n *node) {
				n.options.ConfigFile = ""
				n.write("var/lib/kubelet/cpu_manager_state", `{"policyName":"static"}`)
			},
			"kubelet", Problem, "cpuManagerPolicy: static", "docs/migrate.md",
		},

		{"no isolated CPUs", func(*node) {}, "isolated CPUs", OK, "none", ""},
		{
			"isolated CPUs, excluded", func(n *node) { n.write("sys/devices/system/cpu/isolated", "2-3\n") },
			"isolated CPUs", OK, "2-3: nobody gets them", "",
		},
		{
			"isolated CPUs, ignored", func(n *node) {
				n.write("sys/devices/system/cpu/isolated", "2-3\n")
				n.write("config.yaml", "cpuManagerPolicy: static\nreservedSystemCPUs: \"0\"\nisolatedCPUs: ignore\n")
			},
			"isolated CPUs", Warning, "2-3", "isolatedCPUs",
		},

		{"cgroup v2, systemd", func(*node) {}, "cgroups", OK, "cgroup v2, the systemd driver", ""},
		{
			"cgroup v2 without cpuset", func(n *node) { n.write("sys/fs/cgroup/cgroup.controllers", "cpu memory\n") },
			"cgroups", Problem, "without the cpuset controller (controllers: cpu memory)", "cgroup_disable",
		},
		{
			"cgroup v1, cgroupfs", func(n *node) {
				n.remove("sys/fs/cgroup")
				n.write("sys/fs/cgroup/cpuset/kubepods/cpuset.cpus", "0-3\n")
			},
			"cgroups", OK, "cgroup v1, the cgroupfs driver", "",
		},
		{
			"no cgroups", func(n *node) { n.remove("sys/fs/cgroup") },
			"cgroups", Problem, "of neither version", "--cgroup-root",
		},
		{
			"no pods' cgroups", func(n *node) { n.remove("sys/fs/cgroup/kubepods.slice") },
			"cgroups", Warning, "no pods' cgroups", "kubelet",
		},
		{
			"pods' cgroups that cannot be written", func(n *node) { n.remove("sys/fs/cgroup/kubepods.slice/cpuset.cpus") },
			"cgroups", Problem, "cannot be written", "read-write",
		},
		{
			"cgroups are not to be written", func(n *node) { n.options.CgroupRoot = "" },
			"cgroups", Warning, "nothing is read back", "--cgroup-root",
		},

		{"the kubelet does not pin", func(*node) {}, "kubelet", OK, "do not pin", ""},
		{
			"the kubelet pins CPUs", func(n *node) { n.write("var/lib/kubelet/cpu_manager_state", `{"policyName":"static"}`) },
			"kubelet", Problem, "cpuManagerPolicy: static", "docs/migrate.md",
		},
		{
			"the kubelet binds memory, and we do not", func(n *node) { n.write("var/lib/kubelet/memory_manager_state", `{"policyName":"Static"}`) },
			"kubelet", OK, "memoryManagerPolicy: Static", "",
		},
		{
			"the kubelet pins CPUs, and we are to leave the node alone", func(n *node) {
				n.write("var/lib/kubelet/cpu_manager_state", `{"policyName":"static"}`)
				n.write("config.yaml", "cpuManagerPolicy: none\n")
			},
			"kubelet", OK, "is not to do that", "",
		},
		{
			"a state file of the kubelet's that is none", func(n *node) { n.write("var/lib/kubelet/cpu_manager_state", "{") },
			"kubelet", Warning, "cpu_manager_state", "mounted",
		},
		{
			"no kubelet", func(n *node) { n.remove("var/lib/kubelet") },
			"kubelet", Warning, "/var/lib/kubelet: no such file", "--kubelet-root-dir",
		},

		{"the NRI socket answers", func(*node) {}, "NRI socket", OK, "answers", ""},
		{
			"no NRI socket", func(n *node) { n.remove("run/nri") },
			"NRI socket", Problem, "there is no /var/run/nri/nri.sock", "enable NRI",
		},
		{
			"a file where the NRI socket should be", func(n *node) {
				n.remove("run/nri/nri.sock")
				n.write("run/nri/nri.sock", "")
			},
			"NRI socket", Problem, "is no socket", "restart the runtime",
		},
		{
			"an NRI socket that nobody listens on", func(n *node) {
				n.remove("run/nri/nri.sock")
				listener, err := net.ListenUnix("unix", &net.UnixAddr{Name: n.path("run/nri/nri.sock"), Net: "unix"})
				if err != nil {
					n.t.Fatal(err)
				}
				listener.SetUnlinkOnClose(false)
				if err := listener.Close(); err != nil {
					n.t.Fatal(err)
				}
			},
			"NRI socket", Problem, "connection refused", "the runtime runs",
		},

		{
			"containerd disables NRI", func(n *node) {
				n.write("etc/containerd/config.toml", "version = 2\n[plugins.\"io.containerd.nri.v1.nri\"]\n  disable = true\n")
			},
			"runtime configuration", Problem, "disables NRI", "restart containerd",
		},
		{
			"containerd disables the plugin NRI", func(n *node) {
				n.write("etc/containerd/config.toml", "version = 3\ndisabled_plugins = ['io.containerd.nri.v1.nri']\n")
			},
			"runtime configuration", Problem, "disables NRI", "restart containerd",
		},
		{
			"containerd lets no plugin connect", func(n *node) {
				n.write("etc/containerd/config.toml", "version = 3\n[plugins.'io.containerd.nri.v1.nri']\n  disable_connections = true\n")
			},
			"runtime configuration", Problem, "lets no plugin connect", "allow connections",
		},
		{
			"containerd has the socket elsewhere", func(n *node) {
				n.write("etc/containerd/config.toml", "version = 3\n[plugins.'io.containerd.nri.v1.nri']\n  socket_path = '/run/nri.sock'\n")
			},
			"runtime configuration", Problem, "/run/nri.sock", "--nri-socket /run/nri.sock",
		},
		{
			"containerd has the socket by another name", func(n *node) {
				n.write("etc/containerd/config.toml", "version = 3\n[plugins.'io.containerd.nri.v1.nri']\n  socket_path = '/run/nri/nri.sock'\n")
			},
			"runtime configuration", OK, "config.toml", "",
		},
		{
			"containerd is impatient", func(n *node) {
				n.write("etc/containerd/config.toml", "version = 3\n[plugins.'io.containerd.nri.v1.nri']\n  plugin_request_timeout = '500ms'\n")
			},
			"runtime configuration", Warning, "500ms", "2s",
		},
		{
			"containerd's configuration is no TOML", func(n *node) { n.write("etc/containerd/config.toml", "version = \n") },
			"runtime configuration", Warning, "config.toml", "mend",
		},
		{
			"no configuration of a runtime", func(n *node) { n.remove("etc/containerd") },
			"runtime configuration", OK, "the runtime's defaults", "",
		},
		{
			"CRI-O disables NRI", func(n *node) {
				n.remove("etc/containerd")
				n.write("etc/crio/crio.conf", "[crio.nri]\nenable_nri = true\n")
				n.write("etc/crio/crio.conf.d/10-nri.conf", "[crio.nri]\nenable_nri = false\n")
			},
			"runtime configuration", Problem, "disables NRI", "restart CRI-O",
		},

		{"containerd requires us", func(*node) {}, "required plugin", OK, "but for pods with the annotation", ""},
		{
			"containerd as it comes", func(n *node) { n.copy("containerd-2.4.2-default.toml", "etc/containerd/config.toml") },
			"required plugin", Warning, "containerd creates containers unpinned", "troubleshooting",
		},
		{
			"containerd requires us in an import", func(n *node) {
				n.write("etc/containerd/config.toml", "version = 3\nimports = ['conf.d/*.toml']\n")
				n.copy("containerd-required.toml", "etc/containerd/conf.d/nri.toml")
			},
			"required plugin", OK, "creates nothing while the plugin is away", "",
		},
		{
			"containerd requires us, and our own pod cannot start", func(n *node) {
				n.write("etc/containerd/config.toml",
					"version = 3\n[plugins.'io.containerd.nri.v1.nri'.default_validator]\n  enable = true\n  required_plugins = ['nri-cpuset']\n")
			},
			"required plugin", Warning, "own pod included", "tolerate_missing_plugins_annotation",
		},
		{
			"the validator is not enabled", func(n *node) {
				n.write("etc/containerd/config.toml",
					"version = 3\n[plugins.'io.containerd.nri.v1.nri'.default_validator]\n  required_plugins = ['nri-cpuset']\n")
			},
			"required plugin", Warning, "containerd creates containers unpinned", "",
		},
		{
			"CRI-O requires us", func(n *node) {
				n.remove("etc/containerd")
				n.copy("crio-required.conf", "etc/crio/crio.conf.d/10-nri.conf")
			},
			"required plugin", OK, "CRI-O creates nothing", "",
		},

		{"no other plugins", func(*node) {}, "other NRI plugins", OK, "none in /opt/nri/plugins", ""},
		{
			"another plugin", func(n *node) {
				n.write("opt/nri/plugins/10-topology-aware", "")
				n.write("opt/nri/plugins/10-nri-cpuset", "")
			},
			"other NRI plugins", Warning, "/opt/nri/plugins/10-topology-aware", "refuses the container",
		},

		{"no huge pages", func(*node) {}, "huge pages", OK, "none", ""},
		{"huge pages that are not placed", func(n *node) { n.hugePages("None") }, "huge pages", OK, "not placed", ""},
		{"huge pages that are placed", func(n *node) { n.hugePages("Static") }, "huge pages", OK, "the hugetlb controller is there", ""},
		{
			"huge pages that containerd does not tell of", func(n *node) {
				n.hugePages("Static")
				n.copy("containerd-2.4.2-default.toml", "etc/containerd/config.toml")
			},
			"huge pages", Warning, "containerd does not tell", "disable_hugetlb_controller = false",
		},
		{
			"huge pages without a controller", func(n *node) {
				n.hugePages("Static")
				n.write("sys/fs/cgroup/cgroup.controllers", "cpuset cpu memory\n")
			},
			"huge pages", Warning, "no hugetlb controller", "enable",
		},

		{"a state directory", func(*node) {}, "state directory", OK, "/run/nri-cpuset", ""},
		{
			"no state directory yet", func(n *node) { n.remove("run/nri-cpuset") },
			"state directory", OK, "the plugin makes it", "",
		},
		{
			"others can write the state directory", func(n *node) {
				if err := os.Chmod(n.path("run/nri-cpuset"), 0o777); err != nil {
					n.t.Fatal(err)
				}
			},
			"state directory", Problem, "mode 0777", "chmod",
		},
		{
			"a state file was set aside",
			func(n *node) { n.write("run/nri-cpuset/state.json.corrupt-20261120T030000.000Z", "") },
			"state directory", Warning, "state.json.corrupt-20261120T030000.000Z", "log",
		},
		{
			"a file in place of the state directory", func(n *node) {
				n.remove("run/nri-cpuset")
				n.write("run/nri-cpuset", "")
			},
			"state directory", Problem, "is no directory", "remove",
		},

		{"a plugin that is ready", func(*node) {}, "nri-cpuset", OK, "ready", ""},
		{
			"a plugin that is not ready",
			func(n *node) { n.serve(http.StatusServiceUnavailable, "not synchronized with the runtime", "{}") },
			"nri-cpuset", Problem, "not synchronized with the runtime", "troubleshooting",
		},
		{
			"no plugin", func(n *node) {
				listener, err := net.Listen("tcp", "127.0.0.1:0")
				if err != nil {
					n.t.Fatal(err)
				}
				n.options.Address = listener.Addr().String()
				_ = listener.Close() // now nobody listens there
			},
			"nri-cpuset", Warning, "nobody answers", "quickstart",
		},
		{
			"a plugin with a wrong configuration", func(n *node) { n.serve(http.StatusOK, "ok", `{"configError":"config.yaml:3: no"}`) },
			"nri-cpuset's configuration", Problem, "config.yaml:3: no", "mend",
		},
		{
			"somebody else answers", func(n *node) { n.serve(http.StatusOK, "ok", "<html>") },
			"nri-cpuset's state", Warning, "/api/v1/state", "log",
		},
		{"a runtime that fails closed", func(*node) {}, "runtime", OK, "containerd v2.5.0 with nri v0.12.4", ""},
		{
			"a runtime that fails open", func(n *node) {
				n.serve(http.StatusOK, "ok", `{"runtime":{"name":"containerd","version":"v2.4.2","nri":"v0.12.3"}}`)
			},
			"runtime", Warning, "created unpinned", "0.12.4",
		},
		{
			"a runtime that must not be called",
			func(n *node) {
				n.serve(http.StatusOK, "ok", `{"runtime":{"name":"cri-o","version":"1.34.0","nri":"v0.10.0"}}`)
			},
			"runtime", Warning, "its records follow only when something happens", "0.12.4",
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			n := newNode(t)
			test.change(n)
			report, err := Examine(t.Context(), n.options)
			if err != nil {
				t.Fatal(err)
			}
			for _, f := range report.Findings {
				if f.Check != test.check {
					continue
				}
				if f.Severity != test.want || !strings.Contains(f.Seen, test.seen) || !strings.Contains(f.Remedy, test.remedy) {
					t.Errorf("%+v\nwant %s, %q, %q", f, test.want, test.seen, test.remedy)
				}
				if (f.Severity == OK) != (f.Remedy == "") {
					t.Errorf("%s, and the remedy is %q", f.Severity, f.Remedy)
				}
				return
			}
			t.Errorf("no finding of %q in %+v", test.check, report.Findings)
		})
	}
}

// hugePages gives the machine huge pages, and the configuration a memory manager.
func (n *node) hugePages(policy string) {
	n.t.Helper()
	const dir = "sys/devices/system/node/"
	n.write(dir+"online", "0\n")
	n.write(dir+"possible", "0\n")
	n.write(dir+"has_cpu", "0\n")
	n.write(dir+"has_memory", "0\n")
	n.write(dir+"node0/cpulist", "0-3\n")
	n.write(dir+"node0/distance", "10\n")
	n.write(dir+"node0/meminfo", "Node 0 MemTotal:        8388608 kB\n")
	n.write(dir+"node0/hugepages/hugepages-2048kB/nr_hugepages", "512\n")
	text := "cpuManagerPolicy: static\nreservedSystemCPUs: \"0\"\nmemoryManagerPolicy: " + policy + "\n"
	if policy == "Static" {
		text += "reservedMemory:\n- {numaNode: 0, limits: {memory: 1Gi}}\n"
	}
	n.write("config.yaml", text)
}

// TestHealthyNode wants nothing but ok of a node on which everything is as it should be.
func TestHealthyNode(t *testing.T) {
	report, err := Examine(t.Context(), newNode(t).options)
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range report.Findings {
		if f.Severity != OK {
			t.Errorf("%+v", f)
		}
	}
	if got := report.Count(OK); got != len(report.Findings) || got < 12 {
		t.Errorf("%d of %d are ok, want all of 12 at least", got, len(report.Findings))
	}
}

func TestExamineNothing(t *testing.T) {
	n := newNode(t)
	n.options.HostRoot = n.path("config.yaml")
	if report, err := Examine(t.Context(), n.options); err == nil {
		t.Errorf("a host root that is a file: %+v, want an error", report)
	}
}

// TestHostStaysInside: links are followed as on the node itself, so none leads to our own files.
func TestHostStaysInside(t *testing.T) {
	n := newNode(t)
	n.write("etc/real", "inside")
	for name, target := range map[string]string{"absolute": "/etc/real", "up": "../../../../../../etc/real", "relative": "real"} {
		if err := os.Symlink(target, n.path("etc/"+name)); err != nil {
			t.Fatal(err)
		}
		if text, err := (host{n.options.HostRoot}).read("/etc/" + name); err != nil || string(text) != "inside" {
			t.Errorf("%s -> %s reads %q, %v; want the node's own file", name, target, text, err)
		}
	}
	if err := os.Symlink("/etc/passwd", n.path("etc/passwd-of-ours")); err != nil {
		t.Fatal(err)
	}
	if text, err := (host{n.options.HostRoot}).read("/etc/passwd-of-ours"); err == nil {
		t.Errorf("a link to a file that only we have reads %q", text)
	}
}
