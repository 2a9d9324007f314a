package nriruntime

import (
	"context"

	nrilog "github.com/containerd/nri/pkg/log"
)

// The adaptation tells the log of every step. It is set before anything runs, because it is one variable for the whole process.
func init() { nrilog.Set(silence{}) }

type silence struct{}

func (silence) Debugf(context.Context, string, ...any) {}
func (silence) Infof(context.Context, string, ...any)  {}
func (silence) Warnf(context.Context, string, ...any)  {}
func (silence) Errorf(context.Context, string, ...any) {}
