package kube

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// Helm runs helm as the cluster's admin and returns what it prints. The error has what it says.
func (c *Cluster) Helm(ctx context.Context, args ...string) (string, error) {
	return c.run(ctx, "helm", "", args)
}

// Kubectl runs kubectl as the cluster's admin and returns what it prints. The error has what it says.
func (c *Cluster) Kubectl(ctx context.Context, args ...string) (string, error) {
	return c.run(ctx, "kubectl", "", args)
}

// Apply is kubectl apply of a manifest.
func (c *Cluster) Apply(ctx context.Context, manifest string) (string, error) {
	return c.run(ctx, "kubectl", manifest, []string{"apply", "-f", "-"})
}

func (c *Cluster) run(ctx context.Context, program, stdin string, args []string) (string, error) {
	cmd := exec.CommandContext(ctx, filepath.Join(c.bin, program), args...) //nolint:gosec // a program of ours
	// Their caches of what the API server offers are kept below HOME.
	cmd.Env = append(os.Environ(), "KUBECONFIG="+c.admin, "HOME="+c.dir)
	cmd.Stdin = strings.NewReader(stdin)
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Run(); err != nil {
		return "", fmt.Errorf("%s %s: %w: %s%s", program, strings.Join(args, " "), err, stdout.String(), stderr.String())
	}
	return strings.TrimSpace(stdout.String()), nil
}
