// Command dryrun runs kubectl apply --dry-run=client on manifests where there is no cluster.
//
// It is kubectl's own code. In place of an API server it talks to a stand-in, which serves what a real one says of itself (the discovery and
// OpenAPI documents in Kubernetes' source) and has no objects. kubectl then finds every kind, and checks every field against the schema: to
// make it do so itself, rather than leave it to the server, the stand-in does not offer the check.
//
//	dryrun KUBERNETES-SOURCE FILE...
package main

import (
	"bytes"
	"fmt"
	"log"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"time"

	openapi "github.com/google/gnostic-models/openapiv2"
	"google.golang.org/protobuf/proto"
	"k8s.io/kubectl/pkg/cmd"
)

func main() {
	log.SetFlags(0)
	if len(os.Args) < 3 {
		log.Fatal("usage: dryrun KUBERNETES-SOURCE FILE...")
	}
	if err := run(os.Args[1], os.Args[2:]); err != nil {
		log.Fatal(err)
	}
}

func run(source string, files []string) error {
	schema, err := readSchema(filepath.Join(source, "api", "openapi-spec", "swagger.json"))
	if err != nil {
		return err
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	server := &http.Server{Handler: handler(filepath.Join(source, "api", "discovery"), schema), ReadHeaderTimeout: time.Second}
	go server.Serve(listener) // it ends with the process

	home, err := os.MkdirTemp("", "dryrun-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(home)
	args := []string{
		"apply", "--dry-run=client", "--validate=strict",
		"--server=http://" + listener.Addr().String(), "--cache-dir=" + home, "--kubeconfig=" + os.DevNull,
	}
	for _, file := range files {
		args = append(args, "--filename="+file)
	}
	os.Args = append([]string{"kubectl"}, args...)
	fmt.Println("kubectl apply --dry-run=client --validate=strict", strings.Join(files, " "))
	return cmd.NewDefaultKubectlCommand().Execute() // an error ends the process with kubectl's own words
}

// readSchema reads the OpenAPI document as kubectl asks for it, without the server's offer to check fields.
func readSchema(path string) ([]byte, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	document, err := openapi.ParseDocument(bytes.ReplaceAll(text, []byte(`"name": "fieldValidation"`), []byte(`"name": "notFieldValidation"`)))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return proto.Marshal(document)
}

// handler serves /api, /apis/apps/v1 and the like from files named api.json and apis__apps__v1.json.
func handler(discovery string, schema []byte) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/openapi/v2" {
			w.Header().Set("Content-Type", "application/com.github.proto-openapi.spec.v2.v1.0+protobuf")
			_, _ = w.Write(schema)
			return
		}
		text, err := os.ReadFile(filepath.Join(discovery, strings.ReplaceAll(strings.Trim(r.URL.Path, "/"), "/", "__")+".json"))
		if err != nil {
			http.NotFound(w, r) // no such kind, or no such object
			return
		}
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write(text)
	})
}
