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

// Kubectl runs kubectl as the cluster's admin and returns what it prints. The error has what it says.
func (c *Cluster) Kubectl(ctx context.Context, args ...string) (string, error) {
	return c.KubectlWith(ctx, "", nil, args...)
}

// KubectlWith is Kubectl with a standard input and more environment variables, as KEY=VALUE.
func (c *Cluster) KubectlWith(ctx context.Context, stdin string, env []string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, filepath.Join(c.bin, "kubectl"), args...) //nolint:gosec // a program of ours
	// Its cache of what the API server offers is kept below HOME.
	cmd.Env = append(append(os.Environ(), "KUBECONFIG="+c.admin, "HOME="+c.dir), env...)
	cmd.Stdin = strings.NewReader(stdin)
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Run(); err != nil {
		return "", fmt.Errorf("kubectl %s: %w: %s%s", strings.Join(args, " "), err, stdout.String(), stderr.String())
	}
	return strings.TrimSpace(stdout.String()), nil
}
