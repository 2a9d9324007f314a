package kube

import (
	"context"
	"fmt"
	"os/exec"
	"path/filepath"
)

// PluginImage is the image that deploy/ names, with what a runtime adds to a name that says no registry.
const PluginImage = "docker.io/library/nri-cpuset:latest"

// ImportPlugin gives containerd the plugin's image, an OCI archive that `make image` has written.
func (n *Node) ImportPlugin(ctx context.Context, archive string) error {
	//nolint:gosec // a program of ours
	ctr := exec.CommandContext(ctx, filepath.Join(n.bin, "ctr"), "--address", filepath.Join(n.run, "containerd.sock"), "--namespace", "k8s.io",
		"images", "import", archive)
	output, err := ctr.CombinedOutput()
	if err == nil {
		err = n.Runtime.awaitImage(ctx, PluginImage)
	}
	if err != nil {
		return fmt.Errorf("import %s: %w: %s", archive, err, output)
	}
	return nil
}
