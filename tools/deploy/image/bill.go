package main

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"net/url"
	"runtime/debug"
	"strings"
	"time"

	cdx "github.com/CycloneDX/cyclonedx-go"
)

// billOf is the bill of materials of a binary, CycloneDX JSON: the modules that the Go linker says it is made of, the standard library, and
// nothing that was only looked at. Their hashes are those of go.sum, which are not hashes of files, and so they are properties.
func billOf(b binary, r release) ([]byte, error) {
	goVersion := strings.TrimPrefix(b.info.GoVersion, "go")
	sum := sha256.Sum256(b.content)
	main := cdx.Component{
		BOMRef: "nri-cpuset", Type: cdx.ComponentTypeApplication, Name: "nri-cpuset", Version: r.version,
		Description: fmt.Sprintf("for %s/%s, revision %s", b.os, b.arch, r.revision),
		Hashes:      &[]cdx.Hash{{Algorithm: cdx.HashAlgoSHA256, Value: hex.EncodeToString(sum[:])}},
		Licenses:    &cdx.Licenses{{License: &cdx.License{ID: "Apache-2.0"}}},
	}
	components := []cdx.Component{{
		BOMRef: "stdlib", Type: cdx.ComponentTypeLibrary, Name: "stdlib", Version: goVersion, PackageURL: purl("stdlib", goVersion),
	}}
	refs := []string{"stdlib"}
	for _, module := range b.info.Deps {
		component, err := componentOf(module)
		if err != nil {
			return nil, err
		}
		components = append(components, component)
		refs = append(refs, component.BOMRef)
	}
	bom := cdx.NewBOM()
	bom.Metadata = &cdx.Metadata{Timestamp: r.created.Format(time.RFC3339), Component: &main}
	bom.Components = &components
	bom.Dependencies = &[]cdx.Dependency{{Ref: main.BOMRef, Dependencies: &refs}}
	var text bytes.Buffer
	encoder := cdx.NewBOMEncoder(&text, cdx.BOMFileFormatJSON)
	encoder.SetPretty(true)
	if err := encoder.Encode(bom); err != nil {
		return nil, err
	}
	return text.Bytes(), nil
}

func componentOf(module *debug.Module) (cdx.Component, error) {
	if module.Replace != nil {
		module = module.Replace
	}
	c := cdx.Component{
		BOMRef: module.Path + "@" + module.Version, Type: cdx.ComponentTypeLibrary, Name: module.Path, Version: module.Version,
		PackageURL: purl(module.Path, module.Version),
	}
	sum, ok := strings.CutPrefix(module.Sum, "h1:")
	if !ok {
		return c, fmt.Errorf("module %s %s has no checksum: it is not from a module proxy, and cannot be named in a bill of materials", module.Path, module.Version)
	}
	if _, err := base64.StdEncoding.DecodeString(sum); err != nil {
		return c, fmt.Errorf("the checksum of module %s: %w", module.Path, err)
	}
	c.Properties = &[]cdx.Property{{Name: "go:module:h1", Value: module.Sum}}
	return c, nil
}

// purl is a module's package URL.
func purl(path, version string) string {
	parts := strings.Split(path, "/")
	for i, part := range parts {
		parts[i] = url.PathEscape(part)
	}
	return "pkg:golang/" + strings.Join(parts, "/") + "@" + url.QueryEscape(version)
}
