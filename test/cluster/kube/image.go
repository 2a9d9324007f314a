package kube

import (
	"archive/tar"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
)

// Busybox is the image of the test's pods, which [node.Start] has imported.
const Busybox = "localhost/nri-cpuset-e2e:test"

// PluginImage is the image that deploy/ names, with what a runtime adds to a name that says no registry.
const PluginImage = "docker.io/library/nri-cpuset:latest"

// ImportPlugin gives containerd the plugin's image: the archive, or one made of the binary in bin, as the Dockerfile does, if there is none.
func (n *Node) ImportPlugin(ctx context.Context, archive string) error {
	if archive == "" {
		archive = filepath.Join(n.dir, "image.tar")
		f, err := os.Create(archive)
		if err != nil {
			return err
		}
		if err := errors.Join(writeImage(f, filepath.Join(n.bin, "nri-cpuset")), f.Close()); err != nil {
			return fmt.Errorf("make an image of nri-cpuset: %w", err)
		}
	}
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

// writeImage writes an archive as `docker save` does, of an image with one program in it.
func writeImage(w io.Writer, program string) error {
	binary, err := os.ReadFile(program)
	if err != nil {
		return err
	}
	var layer bytes.Buffer
	if err := writeTar(&layer, file{"nri-cpuset", binary}); err != nil {
		return err
	}
	config, err := json.Marshal(map[string]any{
		"architecture": runtime.GOARCH,
		"os":           "linux",
		"config":       map[string]any{"Entrypoint": []string{"/nri-cpuset"}},
		"rootfs":       map[string]any{"type": "layers", "diff_ids": []string{fmt.Sprintf("sha256:%x", sha256.Sum256(layer.Bytes()))}},
	})
	if err != nil {
		return err
	}
	manifest, err := json.Marshal([]map[string]any{{"Config": "config.json", "RepoTags": []string{PluginImage}, "Layers": []string{"layer.tar"}}})
	if err != nil {
		return err
	}
	return writeTar(w, file{"config.json", config}, file{"layer.tar", layer.Bytes()}, file{"manifest.json", manifest})
}

type file struct {
	name    string
	content []byte
}

func writeTar(w io.Writer, files ...file) error {
	t := tar.NewWriter(w)
	for _, f := range files {
		if err := t.WriteHeader(&tar.Header{Name: f.name, Mode: 0o755, Size: int64(len(f.content))}); err != nil {
			return err
		}
		if _, err := t.Write(f.content); err != nil {
			return err
		}
	}
	return t.Close()
}
