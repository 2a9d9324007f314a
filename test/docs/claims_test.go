package docs

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// A test is named on a page as `directory.TestName` or `directory.TestName/case`.
var namedTest = regexp.MustCompile("`([a-z][a-z0-9_/-]*)\\.((?:Test|Benchmark|Fuzz)[A-Z]\\w*)(?:/([^`]+))?`")

// TestClaims: every test that guarantees.md and security.md name is there, and every promise names one or says that there is none.
func TestClaims(t *testing.T) {
	for _, page := range []string{"docs/guarantees.md", "docs/security.md"} {
		named := namedTest.FindAllStringSubmatch(readPage(t, page), -1)
		if len(named) == 0 {
			t.Errorf("%s names no tests", page)
		}
		for _, match := range named {
			dir, name, testCase := match[1], match[2], match[3]
			source := testsOf(t, dir)
			if !strings.Contains(source, "\nfunc "+name+"(") {
				t.Errorf("%s names %s.%s, which is not there", page, dir, name)
			}
			if testCase != "" && !strings.Contains(source, strconv.Quote(testCase)) {
				t.Errorf("%s names the case %q of %s.%s, which is not there", page, testCase, dir, name)
			}
		}
	}
	promises := 0
	for line := range strings.Lines(readPage(t, "docs/guarantees.md")) {
		cells := strings.Split(strings.Trim(strings.TrimSpace(line), "|"), " | ")
		if number, err := strconv.Atoi(strings.TrimSpace(cells[0])); err == nil && len(cells) > 1 {
			promises++
			if proof := cells[len(cells)-1]; number != promises || !namedTest.MatchString(proof) && !strings.Contains(proof, "no test yet") {
				t.Errorf("promise %d, the %d. on the page, is proved by %q", number, promises, proof)
			}
		}
	}
	if promises < 20 {
		t.Errorf("%d promises are found, want 20 at least", promises)
	}
}

// testsOf returns the source of the tests in a directory.
func testsOf(t *testing.T, dir string) string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(root, dir, "*_test.go"))
	if err != nil {
		t.Fatal(err)
	}
	var all strings.Builder
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		all.Write(text)
	}
	return all.String()
}

// verb is what a format fills in, and what a page cannot have.
var verb = regexp.MustCompile(`%[-+#0-9.]*[a-z]`)

// TestTroubleshooting: whatever the plugin warns of, and whatever it refuses with, is found in troubleshooting.md.
func TestTroubleshooting(t *testing.T) {
	page := strings.Join(strings.Fields(readPage(t, "docs/troubleshooting.md")), " ")
	said := append(messages(t, "plugin", warnings), messages(t, "allocator", refusals)...)
	if len(said) < 30 {
		t.Fatalf("only %d messages are found: %q", len(said), said)
	}
	for _, text := range said {
		if fixed := longestFixed(text); !strings.Contains(page, fixed) {
			t.Errorf("docs/troubleshooting.md does not have %q", fixed)
		}
	}
}

// longestFixed is the longest part of a message in which nothing is filled in.
func longestFixed(text string) string {
	parts := verb.Split(text, -1)
	longest := slices.MaxFunc(parts, func(a, b string) int { return len(a) - len(b) })
	return strings.Trim(longest, " ,:;()")
}

// messages returns what the calls that pick chooses say, in one package without its tests.
func messages(t *testing.T, dir string, pick func(*ast.CallExpr) ast.Expr) []string {
	t.Helper()
	var said []string
	files, err := filepath.Glob(filepath.Join(root, dir, "*.go"))
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		if strings.HasSuffix(file, "_test.go") {
			continue
		}
		parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(parsed, func(n ast.Node) bool {
			if call, ok := n.(*ast.CallExpr); ok {
				if text := literal(pick(call)); text != "" {
					said = append(said, text)
				}
			}
			return true
		})
	}
	return said
}

// warnings picks what Warn, Error and Log are told, and the texts of errors, which a log line or an answer to the runtime carries.
func warnings(call *ast.CallExpr) ast.Expr {
	selector, ok := call.Fun.(*ast.SelectorExpr)
	if !ok || len(call.Args) == 0 {
		return nil
	}
	switch on, _ := selector.X.(*ast.Ident); {
	case selector.Sel.Name == "Warn", selector.Sel.Name == "Error":
		return call.Args[0]
	case selector.Sel.Name == "Log" && len(call.Args) == 2:
		return call.Args[1]
	case on != nil && (on.Name == "fmt" || on.Name == "errors") && strings.Contains(literal(call.Args[0]), "nri-cpuset"):
		return call.Args[0]
	default:
		return nil
	}
}

// refusals picks what the allocator refuses with.
func refusals(call *ast.CallExpr) ast.Expr {
	selector, ok := call.Fun.(*ast.SelectorExpr)
	if !ok || selector.Sel.Name != "refuse" || len(call.Args) < 2 {
		return nil
	}
	return call.Args[1]
}

// literal is the text that an expression begins with; "" for none.
func literal(e ast.Expr) string {
	switch e := e.(type) {
	case *ast.BasicLit:
		if text, err := strconv.Unquote(e.Value); err == nil && e.Kind == token.STRING {
			return text
		}
	case *ast.BinaryExpr:
		return literal(e.X)
	}
	return ""
}
