package kube

import (
	"context"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"nri-cpuset/test/e2e/sandbox"
)

// Cluster is a cluster of one node.
type Cluster struct {
	*Node

	dir           string
	admin         string    // a kubeconfig
	control       []*Daemon // in the order in which they were started
	tokens        string    // for --token-auth-file
	serviceKey    string    // signs and checks the tokens of service accounts
	apiserverCert string
}

const (
	etcdURL      = "http://127.0.0.1:2379"
	apiserverURL = "https://127.0.0.1:6443"
)

// users are those of the cluster, with the groups that the API server's built-in roles are bound to. A user's token is its name.
var users = []struct{ name, group string }{
	{"admin", "system:masters"},
	{"system:kube-controller-manager", ""},
	{"system:kube-scheduler", ""},
	{"system:node:" + NodeName, "system:nodes"},
}

// StartCluster starts a cluster with the programs in bin: those of [StartNode], the kubelet, kubectl and the control plane.
func StartCluster(ctx context.Context, in sandbox.Sandbox, bin string) (c *Cluster, err error) {
	c = &Cluster{}
	if c.Node, err = StartNode(ctx, in, bin); err != nil {
		return nil, err
	}
	if err := c.start(ctx, in.Dir); err != nil {
		return nil, errors.Join(err, c.Close())
	}
	return c, nil
}

func (c *Cluster) start(ctx context.Context, dir string) (err error) {
	if c.dir, err = os.MkdirTemp(dir, "cluster"); err != nil {
		return err
	}
	if err := errors.Join(c.writeTokens(), c.writeServiceKey()); err != nil {
		return err
	}
	if c.admin, err = c.kubeconfig("admin"); err != nil {
		return err
	}
	manager, err := c.kubeconfig("system:kube-controller-manager")
	if err != nil {
		return err
	}
	scheduler, err := c.kubeconfig("system:kube-scheduler")
	if err != nil {
		return err
	}
	kubelet, err := c.kubeconfig("system:node:" + NodeName)
	if err != nil {
		return err
	}
	for _, d := range []*Daemon{
		c.daemon("etcd", etcdURL+"/health",
			"--data-dir", filepath.Join(c.dir, "etcd"), "--unsafe-no-fsync",
			"--listen-client-urls", etcdURL, "--advertise-client-urls", etcdURL, "--listen-peer-urls", "http://127.0.0.1:2380",
		),
		c.daemon("kube-apiserver", apiserverURL+"/readyz",
			"--bind-address", "127.0.0.1", "--advertise-address", nodeAddress, "--etcd-servers", etcdURL,
			"--cert-dir", filepath.Dir(c.apiserverCert), "--service-cluster-ip-range", "203.0.113.0/24",
			"--authorization-mode", "Node,RBAC", "--enable-admission-plugins", "NodeRestriction", "--token-auth-file", c.tokens,
			"--service-account-issuer", apiserverURL, "--service-account-key-file", c.serviceKey, "--service-account-signing-key-file", c.serviceKey,
		),
		c.daemon("kube-controller-manager", "https://127.0.0.1:10257/healthz",
			"--bind-address", "127.0.0.1", "--kubeconfig", manager, "--leader-elect=false", "--use-service-account-credentials",
			"--service-account-private-key-file", c.serviceKey, "--root-ca-file", c.apiserverCert,
		),
		c.daemon("kube-scheduler", "https://127.0.0.1:10259/healthz",
			"--bind-address", "127.0.0.1", "--kubeconfig", scheduler, "--leader-elect=false",
		),
	} {
		if err := d.Start(ctx); err != nil {
			return err
		}
		c.control = append(c.control, d)
	}
	return c.StartKubelet(ctx, kubelet)
}

func (c *Cluster) daemon(name, healthz string, args ...string) *Daemon {
	return &Daemon{
		args:    append([]string{filepath.Join(c.bin, name)}, args...),
		logFile: filepath.Join(c.dir, name+".log"),
		healthz: healthz, token: "admin",
	}
}

func (c *Cluster) writeTokens() error {
	c.tokens, c.apiserverCert = filepath.Join(c.dir, "tokens.csv"), filepath.Join(c.dir, "certs", "apiserver.crt")
	var text []byte
	for _, u := range users {
		text = fmt.Appendf(text, "%s,%s,%s,%q\n", u.name, u.name, u.name, u.group)
	}
	return os.WriteFile(c.tokens, text, 0o600)
}

func (c *Cluster) writeServiceKey() error {
	c.serviceKey = filepath.Join(c.dir, "service-account.key")
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		return err
	}
	text := pem.EncodeToMemory(&pem.Block{Type: "RSA PRIVATE KEY", Bytes: x509.MarshalPKCS1PrivateKey(key)})
	return os.WriteFile(c.serviceKey, text, 0o600)
}

// kubeconfig writes a user's kubeconfig and returns its path.
func (c *Cluster) kubeconfig(user string) (string, error) {
	path := filepath.Join(c.dir, user+".kubeconfig")
	return path, os.WriteFile(path, fmt.Appendf(nil, `apiVersion: v1
kind: Config
clusters: [{name: test, cluster: {server: %q, insecure-skip-tls-verify: true}}]
users: [{name: user, user: {token: %q}}]
contexts: [{name: test, context: {cluster: test, user: user}}]
current-context: test
`, apiserverURL, user), 0o600)
}

// Close ends the cluster, the node last.
func (c *Cluster) Close() error {
	var errs []error
	if c.Kubelet.Running() {
		errs = append(errs, c.Kubelet.Kill()) // before the API server: it would wait for it
	}
	for _, d := range slices.Backward(c.control) {
		if d.Running() {
			errs = append(errs, d.Kill())
		}
	}
	return errors.Join(append(errs, c.Node.Close())...)
}

// LogTails returns the ends of the logs of the kubelet and the control plane.
func (c *Cluster) LogTails() string {
	var text []byte
	for _, d := range append(c.control, c.Kubelet) {
		if d != nil {
			text = fmt.Appendf(text, "--- %s\n%s\n", d.Name(), d.LogTail())
		}
	}
	return string(text)
}
