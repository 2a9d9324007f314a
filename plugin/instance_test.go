package plugin

import (
	"context"
	"errors"
	"io"
	"testing"
	"time"

	"github.com/sirupsen/logrus"
)

// TestSoleInstance: a second instance waits until the first one has ended, and gives up when it is told to.
func TestSoleInstance(t *testing.T) {
	dir := t.TempDir()
	log := logrus.New()
	log.SetOutput(io.Discard)
	unlock, err := soleInstance(t.Context(), dir, log)
	if err != nil {
		t.Fatal(err)
	}

	impatient, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if _, err := soleInstance(impatient, dir, log); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("a second instance that is told to end: %v, want %v", err, context.DeadlineExceeded)
	}

	second := make(chan error, 1)
	go func() {
		unlock, err := soleInstance(t.Context(), dir, log)
		if err == nil {
			unlock()
		}
		second <- err
	}()
	select {
	case err := <-second:
		t.Fatalf("a second instance goes on while the first one runs (error %v)", err)
	case <-time.After(100 * time.Millisecond):
	}
	unlock()
	select {
	case err := <-second:
		if err != nil {
			t.Errorf("the second instance, when the first one has ended: %v", err)
		}
	case <-time.After(10 * time.Second):
		t.Error("the second instance still waits when the first one has ended")
	}
}
