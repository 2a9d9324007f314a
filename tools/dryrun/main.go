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
	"io/fs"
	"log"
	"net"
	"net/http"
	"os"
	"strings"
	"time"

	openapi "github.com/google/gnostic-models/openapiv2"
	"google.golang.org/protobuf/proto"
	"k8s.io/kubectl/pkg/cmd"
	"k8s.io/kubectl/pkg/cmd/util"
)

func main() {
	log.SetFlags(0)
	if len(os.Args) < 3 {
		log.Fatal("usage: dryrun KUBERNETES-SOURCE FILE...")
	}
	if err := run(os.DirFS(os.Args[1]), os.Args[2:]); err != nil {
		log.Fatal(err)
	}
}

func run(source fs.FS, files []string) error {
	server, err := standIn(source)
	if err != nil {
		return err
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	go func() { log.Fatal(server.Serve(listener)) }()

	cache, err := os.MkdirTemp("", "dryrun-")
	if err != nil {
		return err
	}
	clean := func() { _ = os.RemoveAll(cache) }
	defer clean()
	util.BehaviorOnFatal(func(message string, code int) {
		clean()
		fmt.Fprintln(os.Stderr, strings.TrimSuffix(message, "\n"))
		os.Exit(code)
	})

	apply := []string{"kubectl", "apply", "--dry-run=client", "--validate=strict"}
	for _, file := range files {
		apply = append(apply, "--filename="+file)
	}
	fmt.Println(strings.Join(apply, " "))
	os.Args = append(apply, "--server=http://"+listener.Addr().String(), "--kubeconfig="+os.DevNull, "--cache-dir="+cache)
	return cmd.NewDefaultKubectlCommand().Execute()
}

// standIn serves the OpenAPI document, and /api, /apis/apps/v1 and the like from files named api.json and apis__apps__v1.json. All else is
// not there, objects above all.
func standIn(source fs.FS) (*http.Server, error) {
	schema, err := openAPI(source)
	if err != nil {
		return nil, err
	}
	discovery, err := fs.Sub(source, "api/discovery")
	if err != nil {
		return nil, err
	}
	files := http.FileServerFS(discovery)
	mux := http.NewServeMux()
	mux.HandleFunc("/openapi/v2", func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/com.github.proto-openapi.spec.v2.v1.0+protobuf")
		http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(schema))
	})
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		r.URL.Path = "/" + strings.ReplaceAll(strings.Trim(r.URL.Path, "/"), "/", "__") + ".json"
		files.ServeHTTP(w, r)
	})
	return &http.Server{Handler: mux, ReadHeaderTimeout: time.Second}, nil
}

// openAPI returns the OpenAPI document in the form that kubectl asks for, without the server's offer to check fields.
func openAPI(source fs.FS) ([]byte, error) {
	text, err := fs.ReadFile(source, "api/openapi-spec/swagger.json")
	if err != nil {
		return nil, err
	}
	document, err := openapi.ParseDocument(bytes.ReplaceAll(text, []byte(`"name": "fieldValidation"`), []byte(`"name": "notFieldValidation"`)))
	if err != nil {
		return nil, err
	}
	return proto.Marshal(document)
}
