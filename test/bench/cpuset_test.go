// Package bench measures our CPU set beside the one that the kubelet and its relatives use.
package bench

import (
	"testing"

	kubeset "k8s.io/utils/cpuset"

	"nri-cpuset/topology/cpuset"
)

// Both packages do the same on the same members: half of a machine with SMT, and half of each of its cores, interleaved with it. Run it with
// -benchmem; benchstat compares the two with `-col /set`.
var sizes = []struct {
	name           string
	first, second  string
	oneOfTheFirst  int
	noneOfTheFirst int
}{
	{"16", "0-3,8-11", "2-5,10-13", 9, 15},
	{"128", "0-31,64-95", "16-47,80-111", 95, 127},
	{"512", "0-127,256-383", "64-191,320-447", 383, 511},
	{"2048", "0-511,1024-1535", "256-767,1280-1791", 1535, 2047},
}

// sink keeps results alive.
var sink int

func BenchmarkCPUSet(b *testing.B) {
	for _, size := range sizes {
		ours1, ours2 := cpuset.MustParse(size.first), cpuset.MustParse(size.second)
		kube1, kube2 := mustParse(b, size.first), mustParse(b, size.second)
		ours3, kube3 := cpuset.MustParse(size.first), mustParse(b, size.first) // equal to the first, but not the same value
		operations := []struct {
			name       string
			ours, kube func()
		}{
			{"union", func() { sink += ours1.Union(ours2).First() }, func() { sink += first(kube1.Union(kube2)) }},
			{"intersect", func() { sink += ours1.Intersect(ours2).First() }, func() { sink += first(kube1.Intersection(kube2)) }},
			{"difference", func() { sink += ours1.Difference(ours2).First() }, func() { sink += first(kube1.Difference(kube2)) }},
			{
				"subset",
				func() { sink += number(ours1.IsSubsetOf(ours2)) + number(ours1.IsSubsetOf(ours3)) },
				func() { sink += number(kube1.IsSubsetOf(kube2)) + number(kube1.IsSubsetOf(kube3)) },
			},
			{"equal", func() { sink += number(ours1.Equal(ours3)) }, func() { sink += number(kube1.Equals(kube3)) }},
			{
				"contains",
				func() {
					sink += number(ours1.Contains(size.oneOfTheFirst)) + number(ours1.Contains(size.noneOfTheFirst))
				},
				func() {
					sink += number(kube1.Contains(size.oneOfTheFirst)) + number(kube1.Contains(size.noneOfTheFirst))
				},
			},
			{"size", func() { sink += ours1.Len() }, func() { sink += kube1.Size() }},
			{
				"iterate",
				func() {
					for id := range ours1.All() {
						sink += id
					}
				},
				func() {
					for _, id := range kube1.List() { // sorted, as ours are
						sink += id
					}
				},
			},
			{"format", func() { sink += len(ours1.String()) }, func() { sink += len(kube1.String()) }},
			{
				"parse",
				func() { sink += parsed(cpuset.Parse(size.first)).Len() },
				func() { sink += parsed(kubeset.Parse(size.first)).Size() },
			},
		}
		for _, operation := range operations {
			b.Run("op="+operation.name+"/cpus="+size.name+"/set=ours", func(b *testing.B) { run(b, operation.ours) })
			b.Run("op="+operation.name+"/cpus="+size.name+"/set=k8s", func(b *testing.B) { run(b, operation.kube) })
		}
	}
}

func run(b *testing.B, do func()) {
	b.ReportAllocs()
	for b.Loop() {
		do()
	}
}

func mustParse(b *testing.B, text string) kubeset.CPUSet {
	b.Helper()
	set, err := kubeset.Parse(text)
	if err != nil {
		b.Fatal(err)
	}
	return set
}

// first asks of a k8s set what costs it least: it has no lowest member without sorting all.
func first(s kubeset.CPUSet) int { return s.Size() }

func parsed[S any](set S, err error) S {
	if err != nil {
		panic(err)
	}
	return set
}

func number(b bool) int {
	if b {
		return 1
	}
	return 0
}

// The two agree on what they are measured with.
func TestBothSetsAgree(t *testing.T) {
	for _, size := range sizes {
		ours1, ours2 := cpuset.MustParse(size.first), cpuset.MustParse(size.second)
		kube1, kube2 := parsed(kubeset.Parse(size.first)), parsed(kubeset.Parse(size.second))
		for _, got := range []struct {
			name       string
			ours, kube string
		}{
			{"union", ours1.Union(ours2).String(), kube1.Union(kube2).String()},
			{"intersect", ours1.Intersect(ours2).String(), kube1.Intersection(kube2).String()},
			{"difference", ours1.Difference(ours2).String(), kube1.Difference(kube2).String()},
		} {
			if got.ours != got.kube {
				t.Errorf("%s CPUs: %s is %s of ours, %s of k8s.io/utils", size.name, got.name, got.ours, got.kube)
			}
		}
	}
}
