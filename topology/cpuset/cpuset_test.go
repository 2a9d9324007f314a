package cpuset

import (
	"maps"
	"math/rand/v2"
	"slices"
	"testing"
)

func TestQueries(t *testing.T) {
	tests := []struct {
		name              string
		set               Set
		len, first, last  int
		contains, doesNot []int
	}{
		{"empty", New(), 0, -1, -1, nil, []int{-1, 0, 63, 64, 511, 512, MaxID, MaxID + 1}},
		{"zero", New(0), 1, 0, 0, []int{0}, []int{-1, 1}},
		{"both ends of a word", New(63, 64), 2, 63, 64, []int{63, 64}, []int{62, 65}},
		{"both ends of what is inline", New(511, 512), 2, 511, 512, []int{511, 512}, []int{510, 513}},
		{"the largest", New(MaxID), 1, MaxID, MaxID, []int{MaxID}, []int{0, MaxID - 1, MaxID + 1}},
		{"all", Range(0, MaxID), MaxID + 1, 0, MaxID, []int{0, 511, 512, MaxID}, []int{-1, MaxID + 1}},
		{"no range", Range(5, 4), 0, -1, -1, nil, []int{4, 5}},
		{"a range over the inline end", Range(500, 600), 101, 500, 600, []int{500, 511, 512, 600}, []int{499, 601}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := tt.set.Len(); got != tt.len {
				t.Errorf("Len() = %d, want %d", got, tt.len)
			}
			if got := tt.set.IsEmpty(); got != (tt.len == 0) {
				t.Errorf("IsEmpty() = %v, want %v", got, tt.len == 0)
			}
			if got := tt.set.First(); got != tt.first {
				t.Errorf("First() = %d, want %d", got, tt.first)
			}
			if got := tt.set.Last(); got != tt.last {
				t.Errorf("Last() = %d, want %d", got, tt.last)
			}
			for _, id := range tt.contains {
				if !tt.set.Contains(id) {
					t.Errorf("Contains(%d) = false, want true", id)
				}
			}
			for _, id := range tt.doesNot {
				if tt.set.Contains(id) {
					t.Errorf("Contains(%d) = true, want false", id)
				}
			}
		})
	}
}

func TestOutOfRangePanics(t *testing.T) {
	tests := map[string]func(){
		"New(-1)":            func() { New(-1) },
		"New(8192)":          func() { New(MaxID + 1) },
		"Range(-1, 3)":       func() { Range(-1, 3) },
		"Range(0, 8192)":     func() { Range(0, MaxID+1) },
		"Add(8192)":          func() { s := New(1); s.Add(MaxID + 1) },
		`MustParse("3-1,x")`: func() { MustParse("3-1,x") },
	}
	for name, call := range tests {
		t.Run(name, func(t *testing.T) {
			defer func() {
				if recover() == nil {
					t.Errorf("%s did not panic", name)
				}
			}()
			call()
		})
	}
}

// model is a set as a map, which is slow and plainly right.
type model map[int]bool

func (m model) ids() []int { return slices.Sorted(maps.Keys(m)) }

func modelOf(s Set) model {
	m := model{}
	for id := range MaxID + 1 {
		if s.Contains(id) {
			m[id] = true
		}
	}
	return m
}

// randomSet favours what is inline, the words about its end, and sets that are equal but for a few members.
func randomSet(r *rand.Rand) (Set, model) {
	most := []int{8, 64, 65, 511, 512, 577, 1024, MaxID + 1}[r.IntN(8)]
	var s Set
	m := model{}
	for range r.IntN(40) {
		id := r.IntN(most)
		s.Add(id)
		m[id] = true
	}
	for range r.IntN(3) {
		first := r.IntN(most)
		last := min(most-1, first+r.IntN(130))
		s = s.Union(Range(first, last))
		for id := first; id <= last; id++ {
			m[id] = true
		}
	}
	return s, m
}

// TestAgainstModel does the same to a Set and to a map, and compares everything that can be asked.
func TestAgainstModel(t *testing.T) {
	for seed := range uint64(400) {
		r := rand.New(rand.NewPCG(seed, 1))
		a, ma := randomSet(r)
		b, mb := randomSet(r)
		if r.IntN(4) == 0 {
			b, mb = a, maps.Clone(ma)
			if id := a.Last(); id >= 0 && r.IntN(2) == 0 {
				b.Remove(id)
				delete(mb, id)
			}
		}
		union, intersection, difference := maps.Clone(ma), model{}, model{}
		for id := range mb {
			union[id] = true
		}
		for id := range ma {
			if mb[id] {
				intersection[id] = true
			} else {
				difference[id] = true
			}
		}
		n := r.IntN(20)
		lowest := model{}
		for i, id := range ma.ids() {
			if i < n {
				lowest[id] = true
			}
		}
		for _, got := range []struct {
			name string
			set  Set
			want model
		}{
			{"a", a, ma},
			{"b", b, mb},
			{"a ∪ b", a.Union(b), union},
			{"a ∩ b", a.Intersect(b), intersection},
			{"a - b", a.Difference(b), difference},
			{"lowest of a", a.Lowest(n), lowest},
			{"New(a.IDs()...)", New(a.IDs()...), ma},
			{"a's text parsed", MustParse(a.String()), ma},
		} {
			compare(t, seed, got.name, got.set, got.want)
		}
		for _, got := range []struct {
			name      string
			got, want any
		}{
			{"a == b", a.Equal(b), maps.Equal(ma, mb)},
			{"a ⊆ b", a.IsSubsetOf(b), len(difference) == 0},
			{"a overlaps b", a.Overlaps(b), len(intersection) > 0},
			{"|a ∩ b|", a.IntersectLen(b), len(intersection)},
			{"a - b == ∅", a.Difference(b).IsEmpty(), len(difference) == 0},
			{"(a ∪ b) - b == a - b", a.Union(b).Difference(b).Equal(a.Difference(b)), true},
		} {
			if got.got != got.want {
				t.Errorf("seed %d: %s is %v, want %v (a = %s, b = %s)", seed, got.name, got.got, got.want, a, b)
			}
		}
	}
}

func compare(t *testing.T, seed uint64, name string, got Set, want model) {
	t.Helper()
	ids := want.ids()
	if !maps.Equal(modelOf(got), want) || !slices.Equal(got.IDs(), ids) || !slices.Equal(slices.Collect(got.All()), ids) || got.Len() != len(want) {
		t.Errorf("seed %d: %s holds %v (Len %d), want %v", seed, name, got.IDs(), got.Len(), ids)
	}
	next := -1
	for _, id := range ids {
		if next = got.Next(next); next != id {
			t.Errorf("seed %d: %s: Next gave %d, want %d", seed, name, next, id)
			return
		}
	}
	if next = got.Next(next); len(ids) > 0 && next != -1 {
		t.Errorf("seed %d: %s: Next after the last gave %d, want -1", seed, name, next)
	}
}

// A Set is a value: whatever is done to a copy, the original keeps its members. Only what is beyond 511 could be shared by mistake.
func TestCopiesAreIndependent(t *testing.T) {
	for seed := range uint64(200) {
		r := rand.New(rand.NewPCG(seed, 2))
		original, want := randomSet(r)
		kept := []Set{original}
		current := original
		var expected []model
		expected = append(expected, want)
		m := maps.Clone(want)
		for range 20 {
			id := []int{r.IntN(64), 500 + r.IntN(30), r.IntN(MaxID + 1), max(0, current.Last())}[r.IntN(4)]
			if r.IntN(2) == 0 {
				current.Add(id)
				m[id] = true
			} else {
				current.Remove(id)
				delete(m, id)
			}
			kept = append(kept, current)
			expected = append(expected, maps.Clone(m))
		}
		for i := range kept {
			compare(t, seed, "a copy", kept[i], expected[i])
		}
	}
}

func TestAllStopsWhenTold(t *testing.T) {
	var got []int
	for id := range Range(3, 700).All() {
		if id == 6 {
			break
		}
		got = append(got, id)
	}
	if want := []int{3, 4, 5}; !slices.Equal(got, want) {
		t.Errorf("got %v before the break, want %v", got, want)
	}
}

// What placement does all the time allocates nothing on machines of up to 512 CPUs.
func TestAlgebraDoesNotAllocate(t *testing.T) {
	a, b := MustParse("0-127,256-383"), MustParse("64-319,511")
	var sum int
	allocations := testing.AllocsPerRun(100, func() {
		c := a.Union(b).Intersect(b).Difference(a)
		c.Add(5)
		c.Remove(300)
		for id := range c.All() {
			sum += id
		}
		if c.Equal(a) || c.IsSubsetOf(b) || !c.Overlaps(b) {
			sum++
		}
		sum += c.Len() + c.First() + c.Last() + c.IntersectLen(b) + c.Lowest(7).Len()
	})
	if allocations != 0 {
		t.Errorf("set algebra allocates %v times, want 0", allocations)
	}
}
