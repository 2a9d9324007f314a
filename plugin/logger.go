package plugin

import (
	"context"

	"github.com/sirupsen/logrus"
)

// stubLogger hands the NRI stub's messages to our log; what it says at info is of interest only to whoever debugs the stub.
type stubLogger struct{ log *logrus.Entry }

func (l stubLogger) Debugf(_ context.Context, format string, args ...any) {
	l.log.Debugf(format, args...)
}

func (l stubLogger) Infof(_ context.Context, format string, args ...any) {
	l.log.Debugf(format, args...)
}

func (l stubLogger) Warnf(_ context.Context, format string, args ...any) {
	l.log.Warnf(format, args...)
}

func (l stubLogger) Errorf(_ context.Context, format string, args ...any) {
	l.log.Errorf(format, args...)
}
