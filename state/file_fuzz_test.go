package state

import (
	"os"
	"path/filepath"
	"testing"
	"time"
)

// Whatever is in a state file, reading it does not panic, and what is used of it breaks no invariant.
func FuzzParse(f *testing.F) {
	file, _ := OpenFile(filepath.Join(f.TempDir(), "state"), "boot", time.Now())
	n := NewNode(rules(f, machine(f, 8), nil), file, time.Now)
	place(f, n, container("a", "c", "a1", 2000), "1,5")
	good, err := os.ReadFile(file.path)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(good)
	f.Add([]byte(`{"version":1,"checksum":"00000000","node":{}}`))
	f.Add([]byte(`{"version":1,"checksum":"c2cd8b36","node":{"bootID":"boot","pins":true,"containers":[{"placement":{"cpus":"0-99"}}]}}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		saved, err := parse(text)
		if err != nil {
			return
		}
		n := NewNode(rules(t, machine(t, 8), nil), nil, time.Now)
		n.Restore(saved.Containers)
		if err := n.Check(); err != nil {
			t.Error(err)
		}
	})
}
