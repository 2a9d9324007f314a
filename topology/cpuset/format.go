package cpuset

import (
	"fmt"
	"strconv"
	"strings"
)

// RangeError is a number that is no CPU or node number Linux can have.
type RangeError struct {
	ID int
}

func (e *RangeError) Error() string {
	return fmt.Sprintf("%d is outside 0-%d", e.ID, MaxID)
}

// ParseError is a text that is not a set.
type ParseError struct {
	Text   string // the whole text, cut where it is long
	Reason string
}

func (e *ParseError) Error() string {
	return fmt.Sprintf("%q is not a CPU list: %s", e.Text, e.Reason)
}

// maxShown bounds how much of a bad text an error repeats: it may come from outside.
const maxShown = 64

func parseError(text, format string, args ...any) error {
	if len(text) > maxShown {
		text = text[:maxShown] + "..."
	}
	return &ParseError{Text: text, Reason: fmt.Sprintf(format, args...)}
}

// Parse reads the kernel's list format, "0-3,8" (Documentation/admin-guide/cputopology.rst). Space around the list, as sysfs and cgroupfs
// write it, is ignored; an empty text is the empty set. Parts may overlap and come in any order. The error is a [*ParseError].
func Parse(text string) (Set, error) {
	var s Set
	rest := strings.TrimSpace(text)
	if rest == "" {
		return s, nil
	}
	for more := true; more; {
		var part string
		part, rest, more = strings.Cut(rest, ",")
		from, to, isRange := strings.Cut(part, "-")
		first, err := parseID(from)
		if err != nil {
			return Set{}, parseError(text, "%q: %v", cut(part), err)
		}
		last := first
		if isRange {
			if last, err = parseID(to); err != nil {
				return Set{}, parseError(text, "%q: %v", cut(part), err)
			}
		}
		if last < first {
			return Set{}, parseError(text, "%q ends before it begins", cut(part))
		}
		s.addRange(first, last)
	}
	return s, nil
}

// MustParse is [Parse] for constants in tests and tables; it panics on an error.
func MustParse(text string) Set {
	s, err := Parse(text)
	if err != nil {
		panic(err)
	}
	return s
}

// ParseMask reads the kernel's mask format, comma-separated 32-bit hexadecimal words, highest first: "ff,00000000" is 32-39. Old kernels
// offer only this (cpumap, thread_siblings). The error is a [*ParseError].
func ParseMask(text string) (Set, error) {
	var s Set
	words := strings.Split(strings.TrimSpace(text), ",")
	for i, word := range words {
		base := (len(words) - 1 - i) * 32
		bits, err := strconv.ParseUint(word, 16, 32)
		if err != nil {
			return Set{}, parseError(text, "%q is no 32-bit hexadecimal word", cut(word))
		}
		for b := range 32 {
			if bits&(1<<b) == 0 {
				continue
			}
			if base+b > MaxID {
				return Set{}, parseError(text, "%v", &RangeError{ID: base + b})
			}
			s.Add(base + b)
		}
	}
	return s, nil
}

// String writes s in the kernel's list format, "0-3,8"; the empty set is "".
func (s Set) String() string {
	var b []byte
	first, last := -1, -1 // of the run that is not written yet
	for id := range s.All() {
		if first >= 0 && id == last+1 {
			last = id
			continue
		}
		b = appendRun(b, first, last)
		first, last = id, id
	}
	return string(appendRun(b, first, last))
}

func appendRun(b []byte, first, last int) []byte {
	if first < 0 {
		return b
	}
	if len(b) > 0 {
		b = append(b, ',')
	}
	b = strconv.AppendInt(b, int64(first), 10)
	if last > first {
		b = append(b, '-')
		b = strconv.AppendInt(b, int64(last), 10)
	}
	return b
}

// MarshalText writes s in the list format, so that JSON and YAML show it as the kernel does.
func (s Set) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// UnmarshalText reads the list format.
func (s *Set) UnmarshalText(text []byte) error {
	parsed, err := Parse(string(text))
	if err != nil {
		return err
	}
	*s = parsed
	return nil
}

func parseID(text string) (int, error) {
	if text == "" || text[0] < '0' || text[0] > '9' {
		return 0, fmt.Errorf("%q is no number", cut(text))
	}
	id, err := strconv.Atoi(text)
	if err != nil {
		return 0, fmt.Errorf("%q is no number", cut(text))
	}
	if id > MaxID {
		return 0, &RangeError{ID: id}
	}
	return id, nil
}

func cut(text string) string {
	if len(text) > maxShown {
		return text[:maxShown] + "..."
	}
	return text
}
