// Command image writes the container image of nri-cpuset as an OCI archive, with no registry, no container engine and no root.
//
// It makes an image for each platform of the binary for it, and one index of them:
//
//	image --output image.tar --name nri-cpuset:latest --license LICENSE linux/amd64=nri-cpuset-amd64 linux/arm64=nri-cpuset-arm64
//
// The same binaries give the same archive, byte for byte: nothing in it tells when or where it was made. `ctr -n k8s.io images import`,
// `podman load`, `skopeo copy oci-archive:` and `docker load` (25 or later) read it.
package main

import (
	"debug/buildinfo"
	"errors"
	"flag"
	"fmt"
	"log"
	"os"
	"strings"
	"time"
)

func main() {
	log.SetFlags(0)
	log.SetPrefix("image: ")
	output := flag.String("output", "image.tar", "`FILE` for the archive")
	name := flag.String("name", "nri-cpuset:latest", "`NAME` of the image, as in a pod's manifest")
	license := flag.String("license", "LICENSE", "`FILE` with the license, which comes along")
	version := flag.String("version", "devel", "`VERSION` for the labels and the bill of materials")
	revision := flag.String("revision", "", "`COMMIT` for the labels")
	created := flag.Int64("created", 0, "when the commit was made, in `SECONDS` since 1970: the image's only time")
	limit := flag.Float64("limit", 0, "the most that an image may be to pull, in `MB`; 0 for no limit")
	sboms := flag.String("sboms", "", "`DIR` for the bills of materials too, which are in the images")
	flag.Parse()
	binaries, err := parseBinaries(flag.Args())
	if err != nil {
		log.Fatal(err)
	}
	text, err := os.ReadFile(*license)
	if err != nil {
		log.Fatal(err)
	}
	r := release{version: *version, revision: *revision, created: time.Unix(*created, 0).UTC(), license: text}
	sizes, err := write(*output, *name, *sboms, r, binaries)
	if err != nil {
		log.Fatal(err)
	}
	for i, size := range sizes {
		const mega = 1e6
		fmt.Printf("%s/%s: %.1f MB to pull, %.1f MB unpacked\n", binaries[i].os, binaries[i].arch, float64(size)/mega, float64(len(binaries[i].content))/mega)
		if *limit > 0 && float64(size) > *limit*mega {
			log.Fatalf("that is more than %g MB", *limit)
		}
	}
}

// release is what the images of all platforms have in common.
type release struct {
	version, revision string
	created           time.Time // of the commit
	license           []byte
}

// binary is the program for one platform.
type binary struct {
	os, arch string
	content  []byte
	info     *buildinfo.BuildInfo
}

// parseBinaries reads arguments of the form linux/amd64=FILE, and the files.
func parseBinaries(args []string) ([]binary, error) {
	if len(args) == 0 {
		return nil, errors.New("no binary given; give OS/ARCH=FILE, as in linux/amd64=bin/nri-cpuset")
	}
	var binaries []binary
	for _, arg := range args {
		platform, file, ok := strings.Cut(arg, "=")
		system, arch, ok2 := strings.Cut(platform, "/")
		if !ok || !ok2 {
			return nil, fmt.Errorf("%q is not of the form OS/ARCH=FILE", arg)
		}
		content, err := os.ReadFile(file) //nolint:gosec // the caller's own file
		if err != nil {
			return nil, err
		}
		info, err := buildinfo.ReadFile(file)
		if err != nil {
			return nil, err
		}
		if built := setting(info, "GOOS") + "/" + setting(info, "GOARCH"); built != platform {
			return nil, fmt.Errorf("%s is a program for %s, want %s", file, built, platform)
		}
		binaries = append(binaries, binary{os: system, arch: arch, content: content, info: info})
	}
	return binaries, nil
}

// setting is one of the settings that a binary was built with.
func setting(info *buildinfo.BuildInfo, key string) string {
	for _, s := range info.Settings {
		if s.Key == key {
			return s.Value
		}
	}
	return ""
}
