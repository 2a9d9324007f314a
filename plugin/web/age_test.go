package web_test

import (
	"testing"
	"time"

	"nri-cpuset/plugin/web"
)

func TestAge(t *testing.T) {
	for _, test := range []struct {
		name string
		age  time.Duration
		want string
	}{
		{"nothing", 0, "0 s"},
		{"the clock was set back", -time.Hour, "0 s"},
		{"less than a second", 999 * time.Millisecond, "0 s"},
		{"seconds", 59 * time.Second, "59 s"},
		{"a minute", time.Minute, "1 min"},
		{"minutes and seconds", 61 * time.Second, "1 min 1 s"},
		{"an hour, less a second", time.Hour - time.Second, "59 min 59 s"},
		{"an hour and seconds", time.Hour + 59*time.Second, "1 h"},
		{"hours and minutes", 3*time.Hour + 12*time.Minute, "3 h 12 min"},
		{"a day", 24 * time.Hour, "1 d"},
		{"days and hours", 500*24*time.Hour + 23*time.Hour + 59*time.Minute, "500 d 23 h"},
	} {
		t.Run(test.name, func(t *testing.T) {
			if got := web.Age(test.age); got != test.want {
				t.Errorf("Age(%s) = %q, want %q", test.age, got, test.want)
			}
		})
	}
}
