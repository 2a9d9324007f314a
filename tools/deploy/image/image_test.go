package main

import (
	"archive/tar"
	"bytes"
	"debug/buildinfo"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strings"
	"testing"
	"time"

	cdx "github.com/CycloneDX/cyclonedx-go"
	"github.com/google/go-cmp/cmp"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/validate"
)

var testRelease = release{version: "v1.2.3", revision: "abc", created: time.Unix(1_700_000_000, 0).UTC(), license: []byte("Apache\n")}

// buildSelf builds this very program for a platform: a binary of Go modules, as ours is.
func buildSelf(t *testing.T, arch string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), arch)
	build := exec.Command("go", "build", "-trimpath", "-buildvcs=false", "-o", path, "./testdata/program")
	build.Env = append(os.Environ(), "CGO_ENABLED=0", "GOOS=linux", "GOARCH="+arch)
	if output, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, output)
	}
	return path
}

func TestWrite(t *testing.T) {
	binaries, err := parseBinaries([]string{"linux/amd64=" + buildSelf(t, "amd64"), "linux/arm64=" + buildSelf(t, "arm64")})
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	first, second := filepath.Join(dir, "1.tar"), filepath.Join(dir, "2.tar")
	for _, output := range []string{first, second} {
		sizes, err := write(output, "nri-cpuset", dir, testRelease, binaries)
		if err != nil {
			t.Fatal(err)
		}
		for i, size := range sizes {
			if size <= 0 || size >= int64(len(binaries[i].content)) {
				t.Errorf("%s: %d bytes to pull, want fewer than the binary's %d", binaries[i].arch, size, len(binaries[i].content))
			}
		}
	}
	text := readFile(t, first)
	if !bytes.Equal(text, readFile(t, second)) {
		t.Error("two archives of the same binaries differ")
	}

	index := unpack(t, text)
	manifest, err := index.IndexManifest()
	if err != nil {
		t.Fatal(err)
	}
	if len(manifest.Manifests) != 1 {
		t.Fatalf("the archive has %d entries, want one for all platforms", len(manifest.Manifests))
	}
	named := manifest.Manifests[0]
	if got, want := named.Annotations["io.containerd.image.name"], "docker.io/library/nri-cpuset:latest"; got != want {
		t.Errorf("name %q, want %q", got, want)
	}
	platforms, err := index.ImageIndex(named.Digest)
	if err != nil {
		t.Fatal(err)
	}
	if err := validate.Index(platforms); err != nil {
		t.Error(err)
	}
	all, err := platforms.IndexManifest()
	if err != nil {
		t.Fatal(err)
	}
	for i, b := range binaries {
		descriptor := all.Manifests[i]
		if got, want := descriptor.Platform.String(), b.os+"/"+b.arch; got != want {
			t.Errorf("image %d is for %s, want %s", i, got, want)
		}
		image, err := platforms.Image(descriptor.Digest)
		if err != nil {
			t.Fatal(err)
		}
		testImage(t, image, b, dir)
	}
}

// testImage checks what a container of an image would find.
func testImage(t *testing.T, image v1.Image, b binary, sboms string) {
	config, err := image.ConfigFile()
	if err != nil {
		t.Fatal(err)
	}
	if !config.Created.Equal(testRelease.created) || config.Architecture != b.arch || config.OS != b.os {
		t.Errorf("made at %v for %s/%s, want %v, %s/%s", config.Created, config.OS, config.Architecture, testRelease.created, b.os, b.arch)
	}
	if got := slices.Concat(config.Config.Entrypoint, config.Config.Cmd); !slices.Equal(got, []string{"/nri-cpuset", "run"}) {
		t.Errorf("it runs %q", got)
	}
	if got := config.Config.Labels["org.opencontainers.image.revision"]; got != "abc" {
		t.Errorf("revision %q, want abc", got)
	}
	content := mutate.Extract(image)
	defer content.Close()
	files := unpackFiles(t, content)
	bom := readFile(t, filepath.Join(sboms, "nri-cpuset-"+b.arch+".cdx.json"))
	want := map[string]string{"nri-cpuset": string(b.content), "LICENSE": "Apache\n", "nri-cpuset.cdx.json": string(bom)}
	for name, text := range files {
		if text != want[name] {
			t.Errorf("/%s has %d bytes, want %d", name, len(text), len(want[name]))
		}
		delete(want, name)
	}
	for name := range want {
		t.Errorf("no /%s in the image", name)
	}
}

func TestBill(t *testing.T) {
	binaries, err := parseBinaries([]string{"linux/amd64=" + buildSelf(t, "amd64")})
	if err != nil {
		t.Fatal(err)
	}
	text, err := billOf(binaries[0], testRelease)
	if err != nil {
		t.Fatal(err)
	}
	var bom cdx.BOM
	if err := cdx.NewBOMDecoder(bytes.NewReader(text), cdx.BOMFileFormatJSON).Decode(&bom); err != nil {
		t.Fatal(err)
	}
	if c := bom.Metadata.Component; c.Name != "nri-cpuset" || c.Version != "v1.2.3" {
		t.Errorf("it is for %s %s, want nri-cpuset v1.2.3", c.Name, c.Version)
	}
	var got []string
	for _, c := range *bom.Components {
		name, version, _ := strings.Cut(c.PackageURL, "@")
		if version == "" {
			t.Errorf("%s has no version", c.Name)
		}
		got = append(got, name)
	}
	// What testdata/program imports, and what that needs.
	want := []string{"pkg:golang/stdlib", "pkg:golang/github.com/distribution/reference", "pkg:golang/github.com/opencontainers/go-digest"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("components (-want +got):\n%s", diff)
	}
	if refs := (*bom.Dependencies)[0].Dependencies; len(*refs) != len(want) {
		t.Errorf("the program depends on %d components, want %d", len(*refs), len(want))
	}
}

func TestPURL(t *testing.T) {
	want := "pkg:golang/gopkg.in/x@v2.0.0%2Bincompatible"
	if got := purl("gopkg.in/x", "v2.0.0+incompatible"); got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

func TestParseBinaries(t *testing.T) {
	amd64 := buildSelf(t, "amd64")
	for _, tc := range []struct {
		name, want string
		args       []string
	}{
		{"none", "no binary given", nil},
		{"no file", "OS/ARCH=FILE", []string{"linux/amd64"}},
		{"no architecture", "OS/ARCH=FILE", []string{"linux=" + amd64}},
		{"for another platform", "is a program for linux/amd64, want linux/arm64", []string{"linux/arm64=" + amd64}},
		{"not there", "no such file", []string{"linux/amd64=/nowhere"}},
		{"not Go", "image_test.go", []string{"linux/amd64=image_test.go"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if _, err := parseBinaries(tc.args); err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("got error %v, want one with %q", err, tc.want)
			}
		})
	}
}

// TestForked shows that a module without a checksum is not passed over in silence.
func TestForked(t *testing.T) {
	info := &buildinfo.BuildInfo{GoVersion: "go1.26.0", Deps: []*debug.Module{{Path: "example.com/fork", Version: "v1.0.0"}}}
	if _, err := billOf(binary{os: "linux", arch: "amd64", info: info}, testRelease); err == nil || !strings.Contains(err.Error(), "example.com/fork") {
		t.Errorf("got error %v, want one that names example.com/fork", err)
	}
}

// unpack reads an archive as a container runtime does.
func unpack(t *testing.T, archive []byte) v1.ImageIndex {
	t.Helper()
	dir := t.TempDir()
	for name, text := range unpackFiles(t, bytes.NewReader(archive)) {
		path := filepath.Join(dir, filepath.FromSlash(name))
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o700), os.WriteFile(path, []byte(text), 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	index, err := layout.ImageIndexFromPath(dir)
	if err != nil {
		t.Fatal(err)
	}
	return index
}

func unpackFiles(t *testing.T, r io.Reader) map[string]string {
	t.Helper()
	files := map[string]string{}
	archive := tar.NewReader(r)
	for {
		header, err := archive.Next()
		if errors.Is(err, io.EOF) {
			return files
		}
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(archive)
		if err != nil {
			t.Fatal(err)
		}
		files[header.Name] = string(text)
	}
}

func readFile(t *testing.T, path string) []byte {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return text
}
