package allocator

import (
	"math/rand/v2"
	"testing"
)

// TestSearchAgainstAllMasks compares the search with a walk over all masks.
func TestSearchAgainstAllMasks(t *testing.T) {
	random := rand.New(rand.NewPCG(3, 3))
	found, none := 0, 0
	for round := range 3000 {
		nodes := 1 + random.IntN(11)
		s := search{universe: nodeMask(random.Uint64()) & below(nodes)}
		if random.IntN(4) == 0 {
			sparse := random.Uint64() & (random.Uint64() >> 1)
			s.must = nodeMask(sparse) & s.universe
		}
		for range random.IntN(4) {
			n := need{amount: uint64(1 + random.IntN(12)), at: make([]uint64, nodes)}
			for i := range n.at {
				n.at[i] = uint64(random.IntN(5))
			}
			s.needs = append(s.needs, n)
		}
		if random.IntN(3) == 0 {
			odd := nodeMask(random.Uint64())
			s.accept = func(m nodeMask) bool { return (m&odd).size()%2 == 0 }
		}
		if random.IntN(2) == 0 {
			for i := range nodes {
				s.distances = append(s.distances, make([]int, nodes))
				for j := range nodes {
					s.distances[i][j] = 10 + 2*random.IntN(3)
				}
			}
		}
		first, last := 1+random.IntN(2), 1+random.IntN(nodes)
		want := walk(&s, nodes, first, last)
		got, ok := s.narrowest(first, last)
		if got != want || ok != (want != 0) {
			t.Fatalf("round %d: got %b %v, want %b: universe %b must %b needs %v, %d to %d nodes", round, got, ok, want, s.universe, s.must, s.needs,
				first, last)
		}
		if ok {
			found++
		} else {
			none++
		}
	}
	if min(found, none) < 500 {
		t.Errorf("%d found, %d not: the cases are too much alike", found, none)
	}
}

func walk(s *search, nodes, first, last int) nodeMask {
	h := hints{universe: s.universe, must: s.must, needs: s.needs}
	distance := func(m nodeMask) int {
		sum := 0
		for i := range m.nodes() {
			for j := range m.nodes() {
				if s.distances != nil {
					sum += s.distances[i][j]
				}
			}
		}
		return sum
	}
	for size := first; size <= last; size++ {
		var best nodeMask
		for m := nodeMask(1); m < nodeBit(nodes); m++ {
			if m.size() == size && h.fitsOpen(m) && (s.accept == nil || s.accept(m)) && (best == 0 || distance(m) < distance(best)) {
				best = m
			}
		}
		if best != 0 {
			return best
		}
	}
	return 0
}

// TestSearchIsBounded searches where it hurts: 64 nodes that all differ, and two needs that are just not to be had together.
func TestSearchIsBounded(t *testing.T) {
	random := rand.New(rand.NewPCG(5, 5))
	for _, distances := range []bool{false, true} {
		for range 3 {
			s := search{universe: below(maxMaskNodes)}
			a, b := need{at: make([]uint64, maxMaskNodes)}, need{at: make([]uint64, maxMaskNodes)}
			for i := range maxMaskNodes {
				a.at[i] = uint64(100 + random.IntN(1000))
				b.at[i] = 1200 - a.at[i] + uint64(random.IntN(100))
			}
			a.amount, b.amount = 20*600, 20*648
			s.needs = []need{a, b}
			if distances {
				for range maxMaskNodes {
					row := make([]int, maxMaskNodes)
					for j := range row {
						row[j] = 10 + random.IntN(30)
					}
					s.distances = append(s.distances, row)
				}
			}
			s.narrowest(20, 20)
			if took := maxSteps - s.steps; took > maxSteps+1 {
				t.Errorf("took %d steps, the limit is %d", took, maxSteps)
			}
		}
	}
}
