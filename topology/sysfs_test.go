package topology

import (
	"errors"
	"testing"

	"nri-cpuset/topology/cpuset"
)

func TestReadStill(t *testing.T) {
	gone := errors.New("no such file or directory")
	tests := []struct {
		name      string
		online    []string // at each look at it; the last one stays
		readErrs  []error  // of each reading
		wantReads int
		wantErr   error
	}{
		{"nothing happens", []string{"0-3"}, []error{nil}, 1, nil},
		{"the tree is wrong", []string{"0-3"}, []error{gone}, 1, gone},
		{"a CPU goes, and its files with it", []string{"0-3", "0-2"}, []error{gone, nil}, 2, nil},
		{"a CPU comes when its folder was passed", []string{"0-2", "0-3"}, []error{nil, nil}, 2, nil},
		{"the tree is wrong after a CPU went", []string{"0-3", "0-2"}, []error{nil, gone}, 2, gone},
		{"CPUs come and go without end", []string{"0", "1", "0", "1"}, []error{gone, gone, nil}, 3, nil},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			looks, reads := 0, 0
			online := func() (cpuset.Set, error) {
				looks++
				return cpuset.MustParse(tt.online[min(looks, len(tt.online))-1]), nil
			}
			read := func() (*Machine, error) {
				reads++
				return &Machine{}, tt.readErrs[reads-1]
			}
			if _, err := readStill(online, read); !errors.Is(err, tt.wantErr) {
				t.Errorf("error is %v, want %v", err, tt.wantErr)
			}
			if reads != tt.wantReads {
				t.Errorf("read %d times, want %d", reads, tt.wantReads)
			}
		})
	}
}
