package main

import (
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"nri-cpuset/test/machine"
)

// story plays the story on a described machine and returns what it prints.
func story(t *testing.T, name string) string {
	t.Helper()
	sysfs := filepath.Join(t.TempDir(), "sys")
	if err := machine.Unpack(filepath.Join("../conformance/testdata/sysfs", name+".tar.gz"), sysfs); err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	if err := play(stageOptions{sysfs: sysfs, examples: "../../deploy/examples", out: &out}); err != nil {
		t.Fatalf("%v\n%s", err, &out)
	}
	return out.String()
}

func TestStory(t *testing.T) {
	got := story(t, described)
	for _, want := range []string{
		`nginx asks for 250m to 2 CPU: shared pool`,
		`report asks for no CPU in particular: shared pool`,
		`postgres asks for 4 CPU: CPUs 1-2,13-14, its own`,
		`at its first instruction, nobody else's cpuset had one of them`,
		`cpuset.cpus.effective of batch/report and web/nginx: 0,3-12,15-23`,
		`order-gateway asks for 2 CPU: CPUs 3,15, its own`,
		`Nobody has moved: ingest .*, log-shipper .*, order-gateway 3,15, postgres 1-2,13-14`,
		`server asks for 6 CPU: CPUs 1-2,`,
		`REFUSED[^\n]*\n[^\n]*UnexpectedAdmissionError[^\n]*12 CPUs asked, 11 free`,
	} {
		if !regexp.MustCompile(want).MatchString(got) {
			t.Errorf("the story has nothing like %q:\n%s", want, got)
		}
	}
	if strings.Contains(got, "AT ITS FIRST INSTRUCTION") {
		t.Errorf("a container started where another one could run:\n%s", got)
	}
}

// A machine that is too small for all of it: what does not fit is refused, and the story goes on.
func TestStoryOnASmallMachine(t *testing.T) {
	got := story(t, "desktop-1s-4c-8t")
	for _, want := range []string{
		`postgres asks for 4 CPU: CPUs .*, its own`,
		`pod ingest comes[^\n]*\n[^\n]*\n(.*\n)*?   REFUSED: .*UnexpectedAdmissionError`,
		`server asks for 6 CPU|pod inference comes[^\n]*\n[^\n]*\n   REFUSED`,
	} {
		if !regexp.MustCompile(want).MatchString(got) {
			t.Errorf("the story has nothing like %q:\n%s", want, got)
		}
	}
}
