package web

import (
	"fmt"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"
)

// Line makes one printable line of a text from outside, of at most so many characters. What would move a cursor, turn the direction of
// writing or is no UTF-8 becomes "�"; line breaks become spaces. The rest is left to whoever writes it as HTML.
func Line(text string, most int) string {
	return printable(text, most, ' ')
}

// lines is [Line] for a text of several lines.
func lines(text string, most int) string {
	return printable(text, most, '\n')
}

func printable(text string, most int, lineBreak rune) string {
	if isPlain(text) && len(text) <= most {
		return text
	}
	var b strings.Builder
	count := 0
	for _, r := range text { // an invalid byte comes as RuneError
		if count++; count > most {
			b.WriteRune('…')
			break
		}
		switch {
		case r == '\n':
			b.WriteRune(lineBreak)
		case r == '\t' || r == '\r':
			b.WriteRune(' ')
		case unicode.IsPrint(r):
			b.WriteRune(r)
		default:
			b.WriteRune(utf8.RuneError)
		}
	}
	return b.String()
}

// isPlain tells whether a text is printable ASCII, as nearly all of them are.
func isPlain(text string) bool {
	for i := range len(text) {
		if text[i] < ' ' || text[i] > '~' {
			return false
		}
	}
	return true
}

// Age writes how long ago something was, in its two largest units: "12 s", "3 h 12 min", "2 d".
func Age(d time.Duration) string {
	d = max(d, 0).Truncate(time.Second)
	units := []struct {
		name string
		of   time.Duration
	}{{"d", 24 * time.Hour}, {"h", time.Hour}, {"min", time.Minute}, {"s", time.Second}}
	for i, unit := range units {
		if d < unit.of && unit.of > time.Second {
			continue
		}
		text := fmt.Sprintf("%d %s", d/unit.of, unit.name)
		if i+1 == len(units) {
			return text
		}
		if rest := d % unit.of / units[i+1].of; rest > 0 {
			text += fmt.Sprintf(" %d %s", rest, units[i+1].name)
		}
		return text
	}
	return ""
}
