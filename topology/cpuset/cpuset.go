// Package cpuset holds sets of small numbers: logical CPUs, and NUMA nodes, which the kernel writes in the same form.
//
// A [Set] is a value. Copying one copies the set, the zero value is the empty set, and no method changes a set that somebody else holds.
// Numbers up to 511 live in the value itself, so set algebra on almost every machine allocates nothing; larger numbers, up to
// [MaxID], spill into a slice that is copied before it is written.
//
// It is no general-purpose bitmap: it is not meant for sparse numbers beyond 8,191, which Linux cannot have as CPUs (CONFIG_NR_CPUS).
package cpuset

import (
	"iter"
	"math/bits"
)

const (
	wordBits    = 64
	inlineWords = 8

	// MaxID is the largest number that a Set holds: Linux has at most 8,192 CPUs (CONFIG_NR_CPUS on x86 with MAXSMP).
	MaxID = 8191
)

// Set is an immutable set of numbers from 0 to [MaxID].
type Set struct {
	low  [inlineWords]uint64
	high []uint64 // word 0 holds 512-575; never ends in a zero word, never written once another Set may see it
}

// New returns the set of the given numbers. It panics on a number outside 0 to [MaxID], as an index out of range does.
func New(ids ...int) Set {
	var s Set
	for _, id := range ids {
		s.Add(id)
	}
	return s
}

// Range returns the set of first to last, both included; it is empty if last < first. It panics on a number outside 0 to [MaxID].
func Range(first, last int) Set {
	var s Set
	if first <= last {
		s.addRange(first, last)
	}
	return s
}

// Add puts id into s. It panics on a number outside 0 to [MaxID].
func (s *Set) Add(id int) {
	mustFit(id)
	word, bit := id/wordBits, uint64(1)<<(id%wordBits)
	if word < inlineWords {
		s.low[word] |= bit
		return
	}
	word -= inlineWords
	if word < len(s.high) && s.high[word]&bit != 0 {
		return
	}
	high := make([]uint64, max(word+1, len(s.high)))
	copy(high, s.high)
	high[word] |= bit
	s.high = high
}

// addRange adds first to last; the words above 511 are copied once.
func (s *Set) addRange(first, last int) {
	mustFit(first)
	mustFit(last)
	if words := last/wordBits - inlineWords + 1; words > 0 {
		high := make([]uint64, max(words, len(s.high)))
		copy(high, s.high)
		s.high = high
	}
	for word := first / wordBits; word <= last/wordBits; word++ {
		mask := ^uint64(0)
		if word == first/wordBits {
			mask &= ^uint64(0) << (first % wordBits)
		}
		if word == last/wordBits {
			mask &= ^uint64(0) >> (wordBits - 1 - last%wordBits)
		}
		if word < inlineWords {
			s.low[word] |= mask
		} else {
			s.high[word-inlineWords] |= mask
		}
	}
}

// Remove takes id out of s. A number that is not in s changes nothing.
func (s *Set) Remove(id int) {
	if !s.Contains(id) {
		return
	}
	word, bit := id/wordBits, uint64(1)<<(id%wordBits)
	if word < inlineWords {
		s.low[word] &^= bit
		return
	}
	word -= inlineWords
	high := append([]uint64(nil), s.high...)
	high[word] &^= bit
	s.high = trim(high)
}

// Contains tells whether id is in s.
func (s Set) Contains(id int) bool {
	if id < 0 {
		return false
	}
	word, bit := id/wordBits, uint64(1)<<(id%wordBits)
	if word < inlineWords {
		return s.low[word]&bit != 0
	}
	word -= inlineWords
	return word < len(s.high) && s.high[word]&bit != 0
}

// Len returns how many numbers s holds.
func (s Set) Len() int {
	n := 0
	for _, w := range s.low {
		n += bits.OnesCount64(w)
	}
	for _, w := range s.high {
		n += bits.OnesCount64(w)
	}
	return n
}

// IsEmpty tells whether s holds nothing.
func (s Set) IsEmpty() bool {
	return s.low == [inlineWords]uint64{} && len(s.high) == 0
}

// First returns the lowest number in s, or -1 if s is empty.
func (s Set) First() int { return s.Next(-1) }

// Next returns the lowest number in s above id, or -1 if there is none.
func (s Set) Next(id int) int {
	id = max(id+1, 0)
	word, shift := id/wordBits, id%wordBits
	for ; word < inlineWords; word++ {
		if w := s.low[word] >> shift; w != 0 {
			return word*wordBits + shift + bits.TrailingZeros64(w)
		}
		shift = 0
	}
	for ; word < inlineWords+len(s.high); word++ {
		if w := s.high[word-inlineWords] >> shift; w != 0 {
			return word*wordBits + shift + bits.TrailingZeros64(w)
		}
		shift = 0
	}
	return -1
}

// Last returns the highest number in s, or -1 if s is empty.
func (s Set) Last() int {
	if n := len(s.high); n > 0 {
		return (inlineWords+n)*wordBits - 1 - bits.LeadingZeros64(s.high[n-1])
	}
	for word := inlineWords - 1; word >= 0; word-- {
		if w := s.low[word]; w != 0 {
			return (word+1)*wordBits - 1 - bits.LeadingZeros64(w)
		}
	}
	return -1
}

// All yields the numbers in s, ascending.
func (s Set) All() iter.Seq[int] {
	return func(yield func(int) bool) {
		for i, w := range s.low {
			for ; w != 0; w &= w - 1 {
				if !yield(i*wordBits + bits.TrailingZeros64(w)) {
					return
				}
			}
		}
		for i, w := range s.high {
			for ; w != 0; w &= w - 1 {
				if !yield((inlineWords+i)*wordBits + bits.TrailingZeros64(w)) {
					return
				}
			}
		}
	}
}

// IDs returns the numbers in s, ascending, in a slice of the caller's own.
func (s Set) IDs() []int {
	ids := make([]int, 0, s.Len())
	for id := range s.All() {
		ids = append(ids, id)
	}
	return ids
}

// Lowest returns the n lowest numbers in s, or s itself where it holds no more than n.
func (s Set) Lowest(n int) Set {
	var lowest Set
	for id := range s.All() {
		if n <= 0 {
			break
		}
		lowest.Add(id)
		n--
	}
	return lowest
}

// Union returns what is in s or in t.
func (s Set) Union(t Set) Set {
	for i := range s.low {
		s.low[i] |= t.low[i]
	}
	switch {
	case len(t.high) == 0:
	case len(s.high) == 0:
		s.high = t.high
	default:
		long, short := s.high, t.high
		if len(long) < len(short) {
			long, short = short, long
		}
		high := append([]uint64(nil), long...)
		for i, w := range short {
			high[i] |= w
		}
		s.high = high
	}
	return s
}

// Intersect returns what is in both s and t.
func (s Set) Intersect(t Set) Set {
	for i := range s.low {
		s.low[i] &= t.low[i]
	}
	n := min(len(s.high), len(t.high))
	if n == 0 {
		s.high = nil
		return s
	}
	high := append([]uint64(nil), s.high[:n]...)
	for i := range high {
		high[i] &= t.high[i]
	}
	s.high = trim(high)
	return s
}

// Difference returns what is in s and not in t.
func (s Set) Difference(t Set) Set {
	for i := range s.low {
		s.low[i] &^= t.low[i]
	}
	if len(s.high) == 0 || len(t.high) == 0 {
		return s
	}
	high := append([]uint64(nil), s.high...)
	for i := range min(len(high), len(t.high)) {
		high[i] &^= t.high[i]
	}
	s.high = trim(high)
	return s
}

// Equal tells whether s and t hold the same numbers.
func (s Set) Equal(t Set) bool {
	if s.low != t.low || len(s.high) != len(t.high) {
		return false
	}
	for i, w := range s.high {
		if w != t.high[i] {
			return false
		}
	}
	return true
}

// IsSubsetOf tells whether everything in s is in t.
func (s Set) IsSubsetOf(t Set) bool {
	for i, w := range s.low {
		if w&^t.low[i] != 0 {
			return false
		}
	}
	if len(s.high) > len(t.high) {
		return false
	}
	for i, w := range s.high {
		if w&^t.high[i] != 0 {
			return false
		}
	}
	return true
}

// Overlaps tells whether s and t have a number in common.
func (s Set) Overlaps(t Set) bool {
	for i, w := range s.low {
		if w&t.low[i] != 0 {
			return true
		}
	}
	for i := range min(len(s.high), len(t.high)) {
		if s.high[i]&t.high[i] != 0 {
			return true
		}
	}
	return false
}

// IntersectLen returns how many numbers s and t have in common, without making the set.
func (s Set) IntersectLen(t Set) int {
	n := 0
	for i, w := range s.low {
		n += bits.OnesCount64(w & t.low[i])
	}
	for i := range min(len(s.high), len(t.high)) {
		n += bits.OnesCount64(s.high[i] & t.high[i])
	}
	return n
}

func mustFit(id int) {
	if id < 0 || id > MaxID {
		panic(&RangeError{ID: id})
	}
}

// trim drops the zero words at the end, so that equal sets have equal words.
func trim(high []uint64) []uint64 {
	n := len(high)
	for n > 0 && high[n-1] == 0 {
		n--
	}
	if n == 0 {
		return nil
	}
	return high[:n]
}
