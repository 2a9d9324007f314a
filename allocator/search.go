package allocator

import (
	"math/bits"
	"slices"
)

// need is an amount of something that a mask's nodes have to have together.
type need struct {
	amount uint64
	at     []uint64 // what each node has, by index
}

// maxSteps bounds a search. It is more than there are ways through 16 nodes, so up to there every answer is exact. With more, a search that has
// come to it has taken some milliseconds; then it goes on with the best it has, or looks at each larger size only for a short time.
const maxSteps = 1 << 18

// search finds the fittest mask of a given size. Of all masks of one size the smallest integer is the fittest, or with distances the one whose
// nodes are the closest to each other.
//
// It goes from the highest node to the lowest and tries to do without each, so that the first mask it comes to is the smallest integer. It
// turns back where not even the best of the nodes left would cover a need. For one need that is never in vain. For several it can be, so
// it also watches the sum of all, and it does not try a node for which another just like it has failed.
type search struct {
	universe  nodeMask
	must      nodeMask // nodes that have to be in the mask
	needs     []need
	accept    func(nodeMask) bool // what else is asked of a mask; nil for nothing
	sockets   *socketRule         // that has to prefer the mask, or nil
	distances [][]int             // nil: they do not count

	candidates []int      // the nodes of the universe, ascending
	alike      []nodeMask // by position in candidates: nodes that have the same
	top        [][]uint64 // for each need, at [p*width+j]: the most that j of the first p candidates have together
	width      int
	nearest    [2]int // the smallest distance of a node to itself, and to another

	packages int // that the mask has to span, or 0
	sums     []uint64
	distance int
	best     nodeMask
	bestDist int
	steps    int
}

// narrowest returns the fittest mask of the smallest size, if that is in first..last.
func (s *search) narrowest(first, last int) (nodeMask, bool) {
	last = min(last, s.universe.size())
	if !s.prepare(last) {
		return 0, false
	}
	for size := max(first, s.must.size(), s.lowerBound()); size <= last; size++ {
		if m, ok := s.run(size); ok {
			return m, true
		}
	}
	return 0, false
}

// prepare makes the tables for masks of up to so many nodes. It is false if no mask can cover the needs.
func (s *search) prepare(size int) bool {
	if !s.universe.contains(s.must) {
		return false
	}
	s.candidates = slices.Collect(s.universe.nodes())
	for _, n := range s.needs {
		var all uint64
		for _, i := range s.candidates {
			all += n.at[i]
		}
		if all < n.amount {
			return false
		}
	}
	s.addSum()
	s.width = size + 1
	for _, n := range s.needs {
		s.top = append(s.top, s.topSums(n.at))
	}
	s.sums = make([]uint64, len(s.needs))
	s.findAlike()
	s.steps = maxSteps
	return true
}

// addSum adds one more need, of all needs together in shares of their amounts: a mask that covers each covers this.
func (s *search) addSum() {
	const whole = 1 << 20
	if len(s.needs) < 2 {
		return
	}
	sum := need{amount: uint64(len(s.needs)) * whole, at: make([]uint64, maxMaskNodes)}
	for _, n := range s.needs {
		for _, i := range s.candidates {
			if n.at[i] >= n.amount {
				sum.at[i] += whole
				continue
			}
			high, low := bits.Mul64(n.at[i], whole)
			share, _ := bits.Div64(high, low, n.amount)
			sum.at[i] += share + 1 // rounded up, so that what fits is not missed
		}
	}
	s.needs = append(slices.Clip(s.needs), sum)
}

func (s *search) topSums(at []uint64) []uint64 {
	table := make([]uint64, (len(s.candidates)+1)*s.width)
	var largest []uint64 // of the candidates so far, descending
	for p, node := range s.candidates {
		place, _ := slices.BinarySearchFunc(largest, at[node], func(have, v uint64) int {
			if have >= v {
				return -1
			}
			return 1
		})
		largest = slices.Insert(largest, place, at[node])
		largest = largest[:min(len(largest), s.width-1)]
		row := table[(p+1)*s.width:]
		for j, v := range largest {
			row[j+1] = row[j] + v
		}
	}
	return table
}

func (s *search) findAlike() {
	s.alike = make([]nodeMask, len(s.candidates))
	for p, i := range s.candidates {
		for q, j := range s.candidates[:p+1] {
			same := true
			for _, n := range s.needs {
				same = same && n.at[i] == n.at[j]
			}
			if same {
				s.alike[p] |= nodeBit(j)
				s.alike[q] |= nodeBit(i)
			}
		}
	}
}

// lowerBound returns the fewest nodes that can cover each need by itself.
func (s *search) lowerBound() int {
	size := 0
	for d, n := range s.needs {
		row := s.top[d][len(s.candidates)*s.width:]
		for size+1 < s.width && row[size] < n.amount {
			size++
		}
	}
	return size
}

func (s *search) run(size int) (nodeMask, bool) {
	s.best = 0
	s.steps = max(s.steps, maxSteps/64)
	s.packages = 0
	if s.sockets != nil && s.sockets.size != size {
		s.packages = s.sockets.packages
	}
	if s.distances != nil {
		s.measure()
	}
	s.descend(len(s.candidates), size, 0, s.must)
	return s.best, s.best != 0
}

// measure finds the smallest distances that a mask of the universe can have in it.
func (s *search) measure() {
	s.nearest = [2]int{s.distances[s.candidates[0]][s.candidates[0]], 1 << 30}
	for _, i := range s.candidates {
		for _, j := range s.candidates {
			k := min(1, i^j)
			s.nearest[k] = min(s.nearest[k], s.distances[i][j])
		}
	}
}

// descend decides on the first p candidates, of which so many are left to choose and forced cannot be done without. It tells whether the
// search is over.
func (s *search) descend(p, left int, chosen, forced nodeMask) bool {
	if s.steps--; s.steps < 0 {
		return true
	}
	if p < left || !s.within(p, left, chosen) {
		return false
	}
	if left == 0 {
		return chosen.contains(forced) && s.found(chosen)
	}
	node := s.candidates[p-1]
	if !forced.has(node) {
		if s.descend(p-1, left, chosen, forced) {
			return true
		}
		if s.distances == nil && s.accept == nil && s.packages == 0 {
			forced |= s.alike[p-1] & below(node) // without the likes of it there is no mask either
		}
	}
	if (forced & below(node)).size() > left-1 {
		return false
	}
	s.include(node, chosen, 1)
	over := s.descend(p-1, left-1, chosen|nodeBit(node), forced)
	s.include(node, chosen, -1)
	return over
}

// within tells whether the needs can still be covered, on no more packages than wanted, and the best distance still be beaten.
func (s *search) within(p, left int, chosen nodeMask) bool {
	for d := range s.needs {
		if s.sums[d]+s.top[d][p*s.width+left] < s.needs[d].amount {
			return false
		}
	}
	if s.packages > 0 && s.sockets.span(chosen) > s.packages {
		return false
	}
	if s.distances == nil || s.best == 0 {
		return true
	}
	pairs := 2*chosen.size()*left + left*(left-1)
	return s.distance+left*s.nearest[0]+pairs*s.nearest[1] < s.bestDist
}

func (s *search) found(m nodeMask) bool {
	if s.packages > 0 && s.sockets.span(m) != s.packages || s.accept != nil && !s.accept(m) {
		return false
	}
	s.best, s.bestDist = m, s.distance
	return s.distances == nil
}

// include adds a node to the sums, or with sign -1 takes it out again.
func (s *search) include(node int, chosen nodeMask, sign int) {
	for d := range s.needs {
		if sign > 0 {
			s.sums[d] += s.needs[d].at[node]
		} else {
			s.sums[d] -= s.needs[d].at[node]
		}
	}
	if s.distances == nil {
		return
	}
	distance := s.distances[node][node]
	for other := range chosen.nodes() {
		distance += s.distances[node][other] + s.distances[other][node]
	}
	s.distance += sign * distance
}
