package cpuset

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"
)

func TestParse(t *testing.T) {
	tests := []struct {
		name, text, want string // want in the normal form
	}{
		{"empty", "", ""},
		{"an empty sysfs file", "\n", ""},
		{"one", "7", "7"},
		{"a range", "0-3", "0-3"},
		{"a range of one", "4-4", "4"},
		{"as sysfs writes it", "0-3,8-11\n", "0-3,8-11"},
		{"neighbours join", "0,1,2,3", "0-3"},
		{"two are a range", "1,2", "1-2"},
		{"any order", "8,0-3,6", "0-3,6,8"},
		{"overlapping", "0-5,3-9,4", "0-9"},
		{"leading zeroes", "007-010", "7-10"},
		{"beyond what is inline", "510-513,8191", "510-513,8191"},
		{"all that Linux can have", "0-8191", "0-8191"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, err := Parse(tt.text)
			if err != nil || got.String() != tt.want {
				t.Errorf("Parse(%q) = %q, %v; want %q", tt.text, got, err, tt.want)
			}
		})
	}
}

func TestParseRefuses(t *testing.T) {
	tests := []struct {
		name, text, reason string // reason: a part of what the error says
	}{
		{"a word", "all", `"all" is no number`},
		{"nothing between commas", "1,,2", `"" is no number`},
		{"a comma at the end", "1,", `"" is no number`},
		{"no end", "3-", `"" is no number`},
		{"no beginning", "-3", `"" is no number`},
		{"a sign", "+3", `"+3" is no number`},
		{"two dashes", "1-2-3", `"2-3" is no number`},
		{"backwards", "5-3", "ends before it begins"},
		{"space inside", "1, 2", `" 2" is no number`},
		{"hexadecimal", "0x1", `"0x1" is no number`},
		{"the kernel's strides, which it never writes", "0-31:2/4", `"31:2/4" is no number`},
		{"one too large", "8192", "8192 is outside 0-8191"},
		{"a range too large", "0-99999999", "99999999 is outside 0-8191"},
		{"more digits than an int has", "99999999999999999999", "is no number"},
		{"a NUL", "1\x00", "is no number"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, err := Parse(tt.text)
			wantParseError(t, err, tt.reason)
			if !got.IsEmpty() {
				t.Errorf("Parse(%q) gives %q beside its error, want nothing", tt.text, got)
			}
		})
	}
}

func TestParseMask(t *testing.T) {
	tests := []struct {
		name, text, want string
	}{
		{"empty", "00000000", ""},
		{"short, as the highest word may be", "fffff", "0-19"},
		{"one word", "0000000f\n", "0-3"},
		{"highest word first", "ff,00000000", "32-39"},
		{"the gap is kept", "80000000,00000000,00000001", "0,95"},
		{"beyond what is inline", strings.Repeat("00000000,", 15) + "00000000,00000001", "0"},
		{"the largest", "80000000" + strings.Repeat(",00000000", 255), "8191"},
		{"zeroes above the largest", "00000000,80000000" + strings.Repeat(",00000000", 255), "8191"},
		{"upper case", "00FF00FF", "0-7,16-23"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, err := ParseMask(tt.text)
			if err != nil || got.String() != tt.want {
				t.Errorf("ParseMask(%q) = %q, %v; want %q", tt.text, got, err, tt.want)
			}
		})
	}
}

func TestParseMaskRefuses(t *testing.T) {
	tests := []struct {
		name, text, reason string
	}{
		{"nothing", "", `"" is no 32-bit hexadecimal word`},
		{"no hexadecimal", "0000000g", "is no 32-bit hexadecimal word"},
		{"a word too long", "100000000", "is no 32-bit hexadecimal word"},
		{"a list", "0-3", `"0-3" is no 32-bit hexadecimal word`},
		{"a prefix", "0x0f", "is no 32-bit hexadecimal word"},
		{"beyond the largest", "00000001" + strings.Repeat(",00000000", 256), "8192 is outside 0-8191"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			_, err := ParseMask(tt.text)
			wantParseError(t, err, tt.reason)
		})
	}
}

func wantParseError(t *testing.T, err error, reason string) {
	t.Helper()
	parseErr, ok := errors.AsType[*ParseError](err)
	switch {
	case !ok:
		t.Errorf("error is %v, want a *ParseError", err)
	case !strings.Contains(err.Error(), reason):
		t.Errorf("error is %q, want it to say %q", err, reason)
	case len(parseErr.Text) > maxShown+3:
		t.Errorf("the error repeats %d bytes of the text, want at most %d", len(parseErr.Text), maxShown+3)
	}
}

func TestParseErrorIsShort(t *testing.T) {
	_, err := Parse(strings.Repeat("x", 1<<20))
	if err == nil || len(err.Error()) > 400 {
		t.Errorf("the error on 1 MiB of nonsense has %d bytes, want at most 400", len(err.Error()))
	}
}

func TestJSON(t *testing.T) {
	type holder struct {
		CPUs Set `json:"cpus"`
	}
	text, err := json.Marshal(holder{MustParse("0-3,600")})
	if want := `{"cpus":"0-3,600"}`; err != nil || string(text) != want {
		t.Errorf("marshalled to %s, %v; want %s", text, err, want)
	}
	got := holder{MustParse("9")}
	if err := json.Unmarshal(text, &got); err != nil || !got.CPUs.Equal(MustParse("0-3,600")) {
		t.Errorf("unmarshalled to %q, %v; want 0-3,600", got.CPUs, err)
	}
	if err := json.Unmarshal([]byte(`{"cpus":"3-1"}`), &got); err == nil {
		t.Error("3-1 was unmarshalled, want an error")
	}
}

// What parses, and is written again, parses to the same set and is written the same.
func FuzzParse(f *testing.F) {
	for _, seed := range []string{"", "\n", "0-3,8\n", "8191", "0,2,4,6", "5-3", "1,,2", "0-8191", "511-512", "-", "99999999999999999999"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		set, err := Parse(text)
		if err != nil {
			return
		}
		again, err := Parse(set.String())
		if err != nil || !again.Equal(set) || again.String() != set.String() {
			t.Errorf("Parse(%q) is %q, and that parses to %q, %v", text, set, again, err)
		}
	})
}

// A mask holds as many CPUs as it has bits.
func FuzzParseMask(f *testing.F) {
	for _, seed := range []string{"", "0", "ff\n", "ff,00000000", "80000000,00000000,00000001", "0000ffff,0000ffff", "x", ",", "FFFFFFFF"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		set, err := ParseMask(text)
		if err != nil {
			return
		}
		bits := 0
		for _, digit := range strings.ToLower(text) {
			if i := strings.IndexRune("0123456789abcdef", digit); i > 0 {
				bits += i&1 + i>>1&1 + i>>2&1 + i>>3&1
			}
		}
		if set.Len() != bits {
			t.Errorf("ParseMask(%q) holds %d CPUs, want %d", text, set.Len(), bits)
		}
	})
}
