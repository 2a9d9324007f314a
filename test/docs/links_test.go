package docs

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

const root = "../.."

// pages returns the Markdown files that a reader of the repository may open, by their path from its root.
func pages(t *testing.T) []string {
	t.Helper()
	var found []string
	err := filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if name := entry.Name(); entry.IsDir() && (name == "testdata" || name == "bin" || strings.HasPrefix(name, ".") && name != ".." && path != root) {
			return filepath.SkipDir
		}
		if filepath.Ext(path) == ".md" {
			name, err := filepath.Rel(root, path)
			if err != nil {
				return err
			}
			found = append(found, name)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if !slices.Contains(found, "README.md") || !slices.Contains(found, "docs/README.md") {
		t.Fatalf("only %q are found", found)
	}
	return found
}

func readPage(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root, name))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

var (
	codeBlock = regexp.MustCompile("(?ms)^ *```.*?^ *```")
	codeSpan  = regexp.MustCompile("`[^`\n]*`")
	inline    = regexp.MustCompile(`\]\(([^()\s]+)\)`)
	heading   = regexp.MustCompile(`(?m)^#+ +(.*?) *#*$`)
	notInSlug = regexp.MustCompile(`[^\p{L}\p{N} _-]`)
)

// prose is a page without its code, in which nothing is a link or a heading.
func prose(text string) string { return codeBlock.ReplaceAllString(text, "") }

// anchors returns what the headings of a page can be linked to as, by GitHub's rules.
func anchors(text string) map[string]bool {
	found := map[string]bool{}
	for _, match := range heading.FindAllStringSubmatch(prose(text), -1) {
		title := inline.ReplaceAllString(match[1], "]")
		slug := strings.ReplaceAll(notInSlug.ReplaceAllString(strings.ToLower(title), ""), " ", "-")
		found[slug] = true
	}
	return found
}

// TestLinks follows every link between files of the repository, and to headings in them. Others' sites are not asked.
func TestLinks(t *testing.T) {
	for _, page := range pages(t) {
		text := readPage(t, page)
		for _, match := range inline.FindAllStringSubmatch(codeSpan.ReplaceAllString(prose(text), ""), -1) {
			target, anchor, _ := strings.Cut(match[1], "#")
			if strings.Contains(target, "://") || strings.HasPrefix(target, "mailto:") {
				continue
			}
			file := page
			if target != "" {
				file = filepath.Join(filepath.Dir(page), target)
			}
			info, err := os.Stat(filepath.Join(root, file))
			switch {
			case errors.Is(err, fs.ErrNotExist):
				t.Errorf("%s links to %s, which is not there", page, match[1])
			case err != nil:
				t.Errorf("%s links to %s: %v", page, match[1], err)
			case anchor != "" && !info.IsDir() && !anchors(readPage(t, file))[anchor]:
				t.Errorf("%s links to %s, and %s has no such heading", page, match[1], file)
			}
		}
	}
}

// TestEveryPageIsListed: whoever opens docs/README.md finds every page.
func TestEveryPageIsListed(t *testing.T) {
	index := readPage(t, "docs/README.md")
	for _, page := range pages(t) {
		if dir, name := filepath.Split(page); dir == "docs/" && name != "README.md" && !strings.Contains(index, "("+name+")") {
			t.Errorf("docs/README.md does not list %s", page)
		}
	}
}

func TestAnchors(t *testing.T) {
	for _, test := range []struct{ title, want string }{
		{"## Nothing starts on the node", "nothing-starts-on-the-node"},
		{"### `/api/v1/state`", "apiv1state"},
		{"# Who may? A pod's author!", "who-may-a-pods-author"},
		{"## See [the rules](rules.md)", "see-the-rules"},
		{"## snake_case and kebab-case", "snake_case-and-kebab-case"},
	} {
		if got := anchors(test.title + "\n"); !got[test.want] || len(got) != 1 {
			t.Errorf("%q has the anchors %v, want %s", test.title, got, test.want)
		}
	}
	if got := anchors("```\n# a comment\n```\n"); len(got) != 0 {
		t.Errorf("a comment in code has the anchors %v", got)
	}
}
