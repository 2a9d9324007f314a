package node

import (
	"archive/tar"
	"bytes"
	"crypto/sha256"
	"debug/elf"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
)

// imageName is the one image of the tests. It serves as the pause image too.
const imageName = "localhost/nri-cpuset-e2e:test"

// applets are the names by which busybox is called in the image.
var applets = []string{"sh", "sleep", "true", "cat"}

// descriptor is an OCI content descriptor, see the image-spec's descriptor.md.
type descriptor struct {
	MediaType   string            `json:"mediaType"`
	Digest      string            `json:"digest"`
	Size        int               `json:"size"`
	Annotations map[string]string `json:"annotations,omitempty"`
}

// writeImage writes an OCI image layout, as a tar, of an image with nothing in it but a static busybox.
func writeImage(w io.Writer, busybox string) error {
	if err := checkStatic(busybox); err != nil {
		return err
	}
	program, err := os.ReadFile(busybox)
	if err != nil {
		return err
	}
	layer, err := writeLayer(program)
	if err != nil {
		return err
	}

	files := []tarFile{{name: "oci-layout", content: []byte(`{"imageLayoutVersion":"1.0.0"}`)}}
	blob := func(mediaType string, content []byte) descriptor {
		digest := fmt.Sprintf("%x", sha256.Sum256(content))
		files = append(files, tarFile{name: "blobs/sha256/" + digest, content: content})
		return descriptor{MediaType: mediaType, Digest: "sha256:" + digest, Size: len(content)}
	}
	blobOf := func(mediaType string, value any) descriptor {
		content, err := json.Marshal(value)
		if err != nil {
			panic(err) // maps of strings
		}
		return blob(mediaType, content)
	}
	layerBlob := blob("application/vnd.oci.image.layer.v1.tar", layer)
	configBlob := blobOf("application/vnd.oci.image.config.v1+json", map[string]any{
		"architecture": runtime.GOARCH,
		"os":           runtime.GOOS,
		"config":       map[string]any{"Entrypoint": []string{"/bin/sleep", "inf"}, "Env": []string{"PATH=/bin"}},
		"rootfs":       map[string]any{"type": "layers", "diff_ids": []string{layerBlob.Digest}}, // not compressed: the layer's own digest
	})
	manifest := blobOf("application/vnd.oci.image.manifest.v1+json", map[string]any{
		"schemaVersion": 2,
		"mediaType":     "application/vnd.oci.image.manifest.v1+json",
		"config":        configBlob,
		"layers":        []descriptor{layerBlob},
	})
	manifest.Annotations = map[string]string{"io.containerd.image.name": imageName}
	index, err := json.Marshal(map[string]any{"schemaVersion": 2, "manifests": []descriptor{manifest}})
	if err != nil {
		return err
	}
	return writeTar(w, append(files, tarFile{name: "index.json", content: index}))
}

func writeLayer(busybox []byte) ([]byte, error) {
	files := []tarFile{
		{name: "bin/", kind: tar.TypeDir},
		{name: "bin/busybox", content: busybox},
	}
	for _, applet := range applets {
		files = append(files, tarFile{name: "bin/" + applet, kind: tar.TypeSymlink, link: "busybox"})
	}
	for _, dir := range []string{"dev/", "etc/", "proc/", "sys/", "tmp/"} {
		files = append(files, tarFile{name: dir, kind: tar.TypeDir})
	}
	var layer bytes.Buffer
	err := writeTar(&layer, files)
	return layer.Bytes(), err
}

type tarFile struct {
	name    string
	kind    byte // a regular file if 0
	link    string
	content []byte
}

func writeTar(w io.Writer, files []tarFile) error {
	t := tar.NewWriter(w)
	for _, f := range files {
		kind := f.kind
		if kind == 0 {
			kind = tar.TypeReg
		}
		if err := t.WriteHeader(&tar.Header{Typeflag: kind, Name: f.name, Linkname: f.link, Mode: 0o755, Size: int64(len(f.content))}); err != nil {
			return err
		}
		if _, err := t.Write(f.content); err != nil {
			return err
		}
	}
	return t.Close()
}

// checkStatic tells whether a program runs without any library, as it must in an image with nothing else in it.
func checkStatic(path string) error {
	f, err := elf.Open(path)
	if err != nil {
		return fmt.Errorf("the program of the test image: %w", err)
	}
	defer f.Close()
	for _, segment := range f.Progs {
		if segment.Type == elf.PT_INTERP {
			return errors.New(path + " is linked dynamically: install a static busybox (Debian: busybox-static)")
		}
	}
	return nil
}
