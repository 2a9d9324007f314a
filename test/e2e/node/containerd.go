package node

import (
	"fmt"
	"path/filepath"
	"strings"
)

// containerdConfig returns the configuration of containerd: NRI on, one image, no CNI, the cgroupfs driver, and everything in the node's own
// directories but for what containerd keeps in /run/containerd whatever one says (see package sandbox).
func (n *Node) containerdConfig() string {
	required := ""
	if len(n.opts.RequiredPlugins) > 0 {
		required = fmt.Sprintf("[plugins.'io.containerd.nri.v1.nri'.default_validator]\n  enable = true\n  required_plugins = ['%s']\n",
			strings.Join(n.opts.RequiredPlugins, "', '"))
	}
	return strings.NewReplacer(
		"$ROOT", filepath.Join(n.dir, "root"),
		"$STATE", filepath.Join(n.run, "containerd"),
		"$SOCKET", n.containerdSocket(),
		"$DIR", n.dir,
		"$BIN", n.opts.Bin,
		"$NRI", n.NRISocket(),
		"$IMAGE", imageName,
	).Replace(`version = 3
root = '$ROOT'
state = '$STATE'
disabled_plugins = ['io.containerd.internal.v1.opt', 'io.containerd.image-verifier.v1.bindir', 'io.containerd.internal.v1.tracing']
[grpc]
  address = '$SOCKET'
[plugins.'io.containerd.cri.v1.images']
  snapshotter = 'overlayfs'
  [plugins.'io.containerd.cri.v1.images'.pinned_images]
    sandbox = '$IMAGE'
[plugins.'io.containerd.cri.v1.runtime']
  disable_apparmor = true
  restrict_oom_score_adj = true # CAP_SYS_RESOURCE may be missing
  cdi_spec_dirs = []
  [plugins.'io.containerd.cri.v1.runtime'.cni]
    conf_dir = '$DIR/cni'
  [plugins.'io.containerd.cri.v1.runtime'.containerd.runtimes.runc]
    runtime_type = 'io.containerd.runc.v2'
    [plugins.'io.containerd.cri.v1.runtime'.containerd.runtimes.runc.options]
      BinaryName = '$BIN/runc'
      SystemdCgroup = false
[plugins.'io.containerd.nri.v1.nri']
  socket_path = '$NRI'
  plugin_path = '$DIR/nri-plugins'
  plugin_config_path = '$DIR/nri-conf'
`) + required
}

func (n *Node) containerdSocket() string { return filepath.Join(n.run, "containerd.sock") }

// NRISocket returns the socket on which containerd awaits NRI plugins.
func (n *Node) NRISocket() string { return filepath.Join(n.run, "nri.sock") }
