package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/signal"
	"runtime/debug"
	"syscall"

	"github.com/sirupsen/logrus"
	"github.com/spf13/pflag"

	"nri-cpuset/plugin"
)

func runCommand(args []string, stdout, stderr io.Writer) int {
	var o plugin.Options
	var level, format string
	flags := pflag.NewFlagSet("run", pflag.ContinueOnError)
	flags.StringVar(&o.ConfigFile, "config", "/etc/nri-cpuset/config.yaml", "configuration `FILE`; watched, applied live")
	flags.StringVar(&o.NodeName, "node-name", defaultNodeName(), "this node's `NAME`, by which the configuration's overrides are chosen; "+
		"default $NODE_NAME, then the host name")
	flags.StringVar(&o.Socket, "nri-socket", "/var/run/nri/nri.sock", "the runtime's NRI socket, a `PATH`")
	flags.StringVar(&o.Index, "plugin-index", "10", "two digits `NN` that order us among NRI plugins")
	flags.StringVar(&o.Sysfs, "sysfs", "/sys", "`DIR` where sysfs is mounted")
	flags.StringVar(&o.CgroupRoot, "cgroup-root", "/sys/fs/cgroup", "`DIR` where cgroups are mounted; \"\" never writes them directly, only through the runtime")
	flags.StringVar(&o.StateDir, "state-dir", "/run/nri-cpuset", "`DIR` for the state file; it must not outlive the boot")
	flags.StringVar(&o.Listen, "listen", "127.0.0.1:9178", "`ADDR` that serves /metrics /healthz /readyz /api/v1/state and the status page at /; \"\" for none")
	flags.StringVar(&o.PodResources, "podresources-socket", "/var/lib/kubelet/pod-resources/kubelet.sock",
		"the kubelet's PodResources socket, a `PATH`, asked for the devices of a container where it is mounted; \"\" never asks")
	flags.StringVar(&o.KubeletRoot, "kubelet-root-dir", "/var/lib/kubelet",
		"the kubelet's root `DIR`, looked at for managers that pin containers too; \"\" does not look")
	flags.StringVar(&level, "log-level", "info", "`LEVEL` of the log: error, warn, info or debug")
	flags.StringVar(&format, "log-format", "text", "`FORMAT` of the log: text or json")
	if status, stop := parseFlags(flags, args, stdout, stderr, runHelp); stop {
		return status
	}
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(gcPercent)
	}
	o.Version = versionText()
	log, err := newLog(stderr, level, format)
	if err != nil {
		return fail(stderr, "run", err)
	}
	o.Log = log
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := plugin.Run(ctx, o); err != nil {
		return fail(stderr, "run", err)
	}
	return exitDone
}

// gcPercent trades a little time of a process that is mostly idle for memory on every node.
const gcPercent = 50

const runHelp = `Run the plugin: register with the container runtime and pin containers before they start.

Example:
  nri-cpuset run --config /etc/nri-cpuset/config.yaml --node-name "$(hostname)"
`

func newLog(w io.Writer, level, format string) (*logrus.Logger, error) {
	log := logrus.New()
	log.SetOutput(w)
	parsed, err := logrus.ParseLevel(level)
	if err != nil {
		return nil, fmt.Errorf("--log-level: %w", err)
	}
	log.SetLevel(parsed)
	switch format {
	case "text":
		log.SetFormatter(&logrus.TextFormatter{FullTimestamp: true, TimestampFormat: "2006-01-02T15:04:05.000Z07:00"})
	case "json":
		log.SetFormatter(&logrus.JSONFormatter{TimestampFormat: "2006-01-02T15:04:05.000Z07:00"})
	default:
		return nil, fmt.Errorf("--log-format: %q is neither text nor json", format)
	}
	return log, nil
}

func defaultNodeName() string {
	if name := os.Getenv("NODE_NAME"); name != "" {
		return name
	}
	name, err := os.Hostname()
	if err != nil {
		return ""
	}
	return name
}
