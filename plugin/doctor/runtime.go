package doctor

import (
	"context"
	"errors"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/pelletier/go-toml/v2"
)

const (
	pluginName = "nri-cpuset" // as it registers
	// dialTimeout is how long a socket may take to answer.
	dialTimeout = 2 * time.Second
	// requestTimeout is what runtimes give a plugin if they are not told otherwise; our handlers count on it.
	requestTimeout = 2 * time.Second
)

// socket connects to the NRI socket, and closes the connection at once.
func (e *examination) socket(ctx context.Context) {
	const check = "NRI socket"
	const enable = "enable NRI in the runtime and restart it; it is on by default in containerd 2.0 and CRI-O 1.30, and off in containerd 1.7"
	path, err := e.host.path(e.Socket)
	var info os.FileInfo
	if err == nil {
		info, err = os.Stat(path)
	}
	switch {
	case errors.Is(err, fs.ErrNotExist):
		e.problem(check, enable, "there is no %s", e.Socket)
		return
	case err != nil:
		e.problem(check, enable, "%v", err)
		return
	case info.Mode().Type() != fs.ModeSocket:
		e.problem(check, "remove it, and restart the runtime", "%s is no socket", e.Socket)
		return
	}
	conn, err := (&net.Dialer{Timeout: dialTimeout}).DialContext(ctx, "unix", path)
	if err != nil {
		e.problem(check, "see that the runtime runs, that this is its socket, and that it takes connections of plugins (disable_connections)",
			"%s does not answer: %v", e.Socket, err)
		return
	}
	_ = conn.Close()
	e.ok(check, "%s answers", e.Socket)
}

// runtimeConfiguration is what of a runtime's configuration matters to a plugin.
type runtimeConfiguration struct {
	runtime, file  string
	disabled       bool // NRI as a whole
	closed         bool // to plugins that connect by themselves
	socket         string
	timeout        time.Duration
	requires       []string // the default validator's required plugins, if it is enabled
	tolerates      string   // the annotation that lets a pod go without them
	pluginDir      string
	configDir      string
	hidesHugePages bool
}

// runtime looks at the runtime's configuration.
func (e *examination) runtime() {
	const check, required = "runtime configuration", "required plugin"
	c, err := e.runtimeConfiguration()
	if err != nil {
		e.warn(check, "mend the file", "%v", err)
		return
	}
	if c == nil {
		e.ok(check, "neither %s nor %s is here: the runtime's defaults, or not mounted", containerdFile, crioFile)
		e.warn(required, "docs/troubleshooting.md, \"Nothing starts on the node\": make the plugin required where unpinned containers are worse than none",
			"cannot be told; unless the runtime requires it, containers are created unpinned while the plugin is away")
		return
	}
	e.config = c
	switch {
	case c.disabled:
		e.problem(check, "enable NRI there and restart "+c.runtime, "%s disables NRI", c.file)
	case c.closed:
		e.problem(check, "allow connections there and restart "+c.runtime, "%s has NRI on, and lets no plugin connect by itself", c.file)
	case c.socket != "" && !e.sameFile(c.socket, e.Socket):
		e.problem(check, "start the plugin with --nri-socket "+c.socket, "%s has the NRI socket at %s, and the plugin is to connect to %s", c.file, c.socket, e.Socket)
	case c.timeout > 0 && c.timeout < requestTimeout:
		e.warn(check, "give plugins "+requestTimeout.String()+" or more", "%s gives plugins %s to answer: a node under load takes longer", c.file, c.timeout)
	default:
		e.ok(check, "%s", c.file)
	}
	switch {
	case !slices.Contains(c.requires, pluginName):
		e.warn(required, "docs/troubleshooting.md, \"Nothing starts on the node\": make the plugin required where unpinned containers are worse than none",
			"%s creates containers unpinned while the plugin is away", c.runtime)
	case c.tolerates == "":
		e.warn(required, "name an annotation with tolerate_missing_plugins_annotation, and put it on the plugin's own pod",
			"%s creates nothing while the plugin is away, the plugin's own pod included", c.runtime)
	default:
		e.ok(required, "%s creates nothing while the plugin is away, but for pods with the annotation %s", c.runtime, c.tolerates)
	}
}

// sameFile tells whether two paths on the node are the same place, as /run/nri and /var/run/nri are.
func (e *examination) sameFile(a, b string) bool {
	if filepath.Clean(a) == filepath.Clean(b) {
		return true
	}
	dirA, errA := e.host.path(filepath.Dir(a))
	dirB, errB := e.host.path(filepath.Dir(b))
	return errA == nil && errB == nil && dirA == dirB && filepath.Base(a) == filepath.Base(b)
}

// otherPlugins lists plugins that the runtime starts itself. Those that connect by themselves cannot be seen from outside.
func (e *examination) otherPlugins() {
	const check = "other NRI plugins"
	dirs := []string{"/opt/nri/plugins", "/etc/nri/conf.d"}
	if c := e.config; c != nil {
		for i, dir := range []string{c.pluginDir, c.configDir} {
			if dir != "" {
				dirs[i] = dir
			}
		}
	}
	var found []string
	for _, dir := range dirs {
		names, err := e.host.names(dir)
		if err != nil {
			e.warn(check, "run as root", "%v", err)
			return
		}
		for _, name := range names {
			if !strings.Contains(name, pluginName) {
				found = append(found, filepath.Join(dir, name))
			}
		}
	}
	if len(found) > 0 {
		e.warn(check, "see that none of them sets CPUs or memory nodes: of two that do, the runtime refuses the container", "%s", strings.Join(found, ", "))
		return
	}
	e.ok(check, "none in %s; those that connect by themselves are not seen", strings.Join(dirs, ", "))
}

const (
	containerdFile = "/etc/containerd/config.toml"
	crioFile       = "/etc/crio/crio.conf"
)

// runtimeConfiguration reads containerd's or CRI-O's configuration; nil where there is none of either.
func (e *examination) runtimeConfiguration() (*runtimeConfiguration, error) {
	if e.host.exists(containerdFile) {
		t, err := e.containerdTable()
		if err != nil {
			return nil, err
		}
		return containerd(t), nil
	}
	files := e.host.glob("/etc/crio/crio.conf.d/*")
	if e.host.exists(crioFile) {
		files = append([]string{crioFile}, files...)
	}
	if len(files) == 0 {
		return nil, nil
	}
	all := table{}
	for _, file := range files {
		t, err := e.readTable(file)
		if err != nil {
			return nil, err
		}
		all.merge(t)
	}
	return crio(all), nil
}

// containerdTable reads containerd's configuration with its imports. Those of an import are not followed further than one file deep.
func (e *examination) containerdTable() (table, error) {
	main, err := e.readTable(containerdFile)
	if err != nil {
		return nil, err
	}
	imports, given := main["imports"].([]any)
	if !given {
		imports = []any{"/etc/containerd/conf.d/*.toml"} // containerd's own default
	}
	for _, i := range imports {
		pattern, _ := i.(string)
		if !filepath.IsAbs(pattern) {
			pattern = filepath.Join(filepath.Dir(containerdFile), pattern)
		}
		for _, file := range e.host.glob(pattern) {
			t, err := e.readTable(file)
			if err != nil {
				return nil, err
			}
			main.merge(t)
		}
	}
	return main, nil
}

// containerd reads the sections of version 2 and 3 of its configuration (internal/nri/config.go, internal/cri/config/config.go).
func containerd(t table) *runtimeConfiguration {
	c := &runtimeConfiguration{runtime: "containerd", file: containerdFile, hidesHugePages: true}
	plugins := t.at("plugins")
	nri := plugins.at("io.containerd.nri.v1.nri")
	c.disabled = nri.bool("disable") || slices.Contains(t.strings("disabled_plugins"), "io.containerd.nri.v1.nri")
	c.closed = nri.bool("disable_connections")
	c.socket, c.pluginDir, c.configDir = nri.string("socket_path"), nri.string("plugin_path"), nri.string("plugin_config_path")
	c.timeout = nri.duration("plugin_request_timeout")
	if validator := nri.at("default_validator"); validator.bool("enable") {
		c.requires, c.tolerates = validator.strings("required_plugins"), validator.string("tolerate_missing_plugins_annotation")
	}
	for _, section := range []string{"io.containerd.cri.v1.runtime", "io.containerd.grpc.v1.cri"} {
		if hides, given := plugins.at(section)["disable_hugetlb_controller"].(bool); given {
			c.hidesHugePages = hides
		}
	}
	return c
}

// crio reads the section crio.nri (CRI-O's internal/config/nri/nri.go).
func crio(t table) *runtimeConfiguration {
	c := &runtimeConfiguration{runtime: "CRI-O", file: filepath.Dir(crioFile)}
	nri := t.at("crio").at("nri")
	enabled, given := nri["enable_nri"].(bool)
	c.disabled = given && !enabled
	c.closed = nri.bool("nri_disable_connections")
	c.socket, c.pluginDir, c.configDir = nri.string("nri_listen"), nri.string("nri_plugin_dir"), nri.string("nri_plugin_config_dir")
	c.timeout = nri.duration("nri_plugin_request_timeout")
	if validator := nri.at("default_validator"); validator.bool("nri_enable_default_validator") {
		c.requires = validator.strings("nri_validator_required_plugins")
		c.tolerates = validator.string("nri_validator_tolerate_missing_plugins_annotation")
	}
	return c
}

// table is a TOML table. What is not there, or of another type, reads as the type's zero value: the runtime itself tells what it thinks of it.
type table map[string]any

func (e *examination) readTable(file string) (table, error) {
	text, err := e.host.read(file)
	if err != nil {
		return nil, err
	}
	t := table{}
	if err := toml.Unmarshal(text, &t); err != nil {
		return nil, &fs.PathError{Op: "parse", Path: file, Err: err}
	}
	return t, nil
}

func (t table) at(name string) table {
	inner, _ := t[name].(map[string]any)
	return inner
}

func (t table) bool(name string) bool {
	b, _ := t[name].(bool)
	return b
}

func (t table) string(name string) string {
	s, _ := t[name].(string)
	return s
}

func (t table) strings(name string) []string {
	list, _ := t[name].([]any)
	var texts []string
	for _, item := range list {
		if s, ok := item.(string); ok {
			texts = append(texts, s)
		}
	}
	return texts
}

func (t table) duration(name string) time.Duration {
	d, err := time.ParseDuration(t.string(name))
	if err != nil {
		return 0
	}
	return d
}

// merge puts another file's table over t: tables are merged, all else is replaced.
func (t table) merge(over table) {
	for name, value := range over {
		inner, isTable := value.(map[string]any)
		old, wasTable := t[name].(map[string]any)
		if isTable && wasTable {
			table(old).merge(inner)
		} else {
			t[name] = value
		}
	}
}
