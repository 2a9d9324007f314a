// Package docs keeps the examples in docs/ true: each is run again, and must come out as it is written there.
package docs

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

var update = flag.Bool("update", false, "write the examples' output anew")

const examples = "../../docs/examples"

// TestExamples runs every command that a page shows in a block of its own, in docs/examples, and compares its output with what follows the
// command there. Of simulate's it is what is said of each pod, and the last picture.
func TestExamples(t *testing.T) {
	program := build(t)
	used := map[string]bool{}
	for _, page := range []string{"../../docs/policies.md", "../../docs/differences.md"} {
		t.Run(filepath.Base(page), func(t *testing.T) {
			text, err := os.ReadFile(page)
			if err != nil {
				t.Fatal(err)
			}
			blocks := 0
			made := consoleBlock.ReplaceAllStringFunc(string(text), func(block string) string {
				blocks++
				command := consoleBlock.FindStringSubmatch(block)[1]
				arguments := strings.Fields(command)
				for _, a := range arguments {
					used[a] = true
				}
				return "```console\n$ nri-cpuset " + command + "\n" + run(t, program, arguments) + "```\n"
			})
			if blocks == 0 {
				t.Fatal("no examples")
			}
			if *update {
				if err := os.WriteFile(page, []byte(made), 0o644); err != nil {
					t.Fatal(err)
				}
				return
			}
			if diff := cmp.Diff(string(text), made); diff != "" {
				t.Errorf("not what the program says; run make docs (-page +program):\n%s", diff)
			}
		})
	}
	for _, file := range files(t) {
		if !used[file] {
			t.Errorf("docs/examples/%s is in no example", file)
		}
	}
}

// consoleBlock is a command and its output. Its first group are the command's arguments.
var consoleBlock = regexp.MustCompile("(?s)```console\n\\$ nri-cpuset ([^\n]*)\n.*?```\n")

func build(t *testing.T) string {
	t.Helper()
	program := filepath.Join(t.TempDir(), "nri-cpuset")
	if out, err := exec.Command("go", "-C", "../..", "build", "-o", program, "./cmd/nri-cpuset").CombinedOutput(); err != nil {
		t.Fatalf("building nri-cpuset: %v\n%s", err, out)
	}
	return program
}

func run(t *testing.T, program string, arguments []string) string {
	t.Helper()
	var out bytes.Buffer
	command := exec.Command(program, arguments...)
	command.Dir, command.Stdout, command.Stderr = examples, &out, &out
	if err := command.Run(); err != nil && !errors.As(err, new(*exec.ExitError)) {
		t.Fatal(err)
	}
	if arguments[0] == "simulate" && command.ProcessState.Success() {
		return lastPicture(out.String())
	}
	return out.String()
}

// lastPicture leaves out of what simulate says the machine before anybody comes, and all pictures but the last. A step begins with its number,
// and its picture after what is left in the shared pool.
func lastPicture(text string) string {
	steps := strings.Split(text, "\n\n")
	steps = slices.DeleteFunc(steps, func(s string) bool { return !step.MatchString(s) })
	var told strings.Builder
	for i, s := range steps {
		pool := strings.Index(s, "   shared pool:")
		picture := pool + strings.IndexByte(s[pool:], '\n') + 1
		told.WriteString(s[:picture])
		if i == len(steps)-1 {
			fmt.Fprintf(&told, "\n%s", s[picture:])
		}
	}
	return told.String()
}

var step = regexp.MustCompile(`^\d+\. Pod`)

// files are the examples' files, by their names in commands.
func files(t *testing.T) []string {
	t.Helper()
	var names []string
	err := filepath.WalkDir(examples, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		name, err := filepath.Rel(examples, path)
		names = append(names, name)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return names
}
