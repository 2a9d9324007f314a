package main

import (
	"archive/tar"
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/distribution/reference"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

// write writes the archive: the OCI image layout in a tar, whose index has one entry, the index of all platforms by its name. It returns how many
// bytes of layers there are to pull for each.
func write(output, name, sboms string, r release, binaries []binary) ([]int64, error) {
	full, err := reference.ParseNormalizedNamed(name)
	if err != nil {
		return nil, fmt.Errorf("--name %q: %w", name, err)
	}
	full = reference.TagNameOnly(full)
	index := mutate.IndexMediaType(empty.Index, types.OCIImageIndex)
	var sizes []int64
	for _, b := range binaries {
		bom, err := billOf(b, r)
		if err != nil {
			return nil, err
		}
		if sboms != "" {
			//nolint:gosec // for everybody to read
			if err := os.WriteFile(filepath.Join(sboms, "nri-cpuset-"+b.arch+".cdx.json"), bom, 0o644); err != nil {
				return nil, err
			}
		}
		layer, err := layerOf(b, r, bom)
		if err != nil {
			return nil, err
		}
		size, err := layer.Size()
		if err != nil {
			return nil, err
		}
		sizes = append(sizes, size)
		image, err := imageOf(b, r, layer)
		if err != nil {
			return nil, err
		}
		index = mutate.AppendManifests(index, mutate.IndexAddendum{
			Add: image, Descriptor: v1.Descriptor{Platform: &v1.Platform{OS: b.os, Architecture: b.arch}},
		})
	}
	return sizes, writeLayout(output, mutate.AppendManifests(empty.Index, mutate.IndexAddendum{
		Add: index,
		Descriptor: v1.Descriptor{Annotations: map[string]string{
			"io.containerd.image.name":          full.String(),
			"org.opencontainers.image.ref.name": full.String(),
		}},
	}))
}

// layerOf is the one layer of an image: the program, what it is made of, and its license.
func layerOf(b binary, r release, bom []byte) (v1.Layer, error) {
	var content bytes.Buffer
	if err := writeFiles(&content,
		file{"nri-cpuset", 0o755, b.content},
		file{"nri-cpuset.cdx.json", 0o644, bom}, // where scanners look for it
		file{"LICENSE", 0o644, r.license},
	); err != nil {
		return nil, err
	}
	return tarball.LayerFromOpener(func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(content.Bytes())), nil },
		tarball.WithMediaType(types.OCILayer))
}

// imageOf is the image for one platform. It runs as the Dockerfile's does.
func imageOf(b binary, r release, layer v1.Layer) (v1.Image, error) {
	image, err := mutate.Append(mutate.ConfigMediaType(mutate.MediaType(empty.Image, types.OCIManifestSchema1), types.OCIConfigJSON),
		mutate.Addendum{Layer: layer, History: v1.History{Created: v1.Time{Time: r.created}, CreatedBy: "make image"}})
	if err != nil {
		return nil, err
	}
	config, err := image.ConfigFile()
	if err != nil {
		return nil, err
	}
	config = config.DeepCopy()
	config.OS, config.Architecture, config.Created = b.os, b.arch, v1.Time{Time: r.created}
	config.Config = v1.Config{
		Entrypoint: []string{"/nri-cpuset"},
		Cmd:        []string{"run"},
		Labels: map[string]string{
			"org.opencontainers.image.title":       "nri-cpuset",
			"org.opencontainers.image.description": "Pins the CPUs and the memory of Kubernetes containers before they start",
			"org.opencontainers.image.licenses":    "Apache-2.0",
			"org.opencontainers.image.version":     r.version,
			"org.opencontainers.image.revision":    r.revision,
		},
	}
	return mutate.ConfigFile(image, config)
}

// writeLayout writes an index and all below it as an OCI image layout in a tar.
func writeLayout(output string, index v1.ImageIndex) error {
	dir, err := os.MkdirTemp("", "image-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir) //nolint:errcheck // nothing of it is needed any more
	if _, err := layout.Write(dir, index); err != nil {
		return err
	}
	file, err := os.Create(output) //nolint:gosec // the caller's own file
	if err != nil {
		return err
	}
	return errors.Join(writeTree(file, dir), file.Close())
}

type file struct {
	name    string
	mode    int64
	content []byte
}

// writeFiles writes a tar of files that are root's and were last changed in 1970.
func writeFiles(w io.Writer, files ...file) error {
	archive := tar.NewWriter(w)
	for _, f := range files {
		if err := archive.WriteHeader(&tar.Header{Name: f.name, Mode: f.mode, Size: int64(len(f.content)), ModTime: time.Unix(0, 0)}); err != nil {
			return err
		}
		if _, err := archive.Write(f.content); err != nil {
			return err
		}
	}
	return archive.Close()
}

// writeTree writes a tar of all files below dir, in the order of their names.
func writeTree(w io.Writer, dir string) error {
	var files []file
	err := filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		content, err := os.ReadFile(path) //nolint:gosec // made by us
		if err != nil {
			return err
		}
		name, err := filepath.Rel(dir, path)
		files = append(files, file{name, 0o644, content})
		return err
	})
	if err != nil {
		return err
	}
	return writeFiles(w, files...)
}
