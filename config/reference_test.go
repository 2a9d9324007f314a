package config

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"reflect"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

var update = flag.Bool("update", false, "write docs/settings.md anew")

// TestReference compares the tables in docs/settings.md with the doc comments of Config.
func TestReference(t *testing.T) {
	const file = "../docs/settings.md"
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	groups := fieldGroups(t)
	if len(groups) != 2 {
		t.Fatalf("Config has %d groups of fields, want the kubelet's and ours", len(groups))
	}
	want := string(text)
	for i, name := range []string{"kubelet", "ours"} {
		begin, end := "<!-- "+name+": begin -->\n", "<!-- "+name+": end -->"
		before, rest, ok := strings.Cut(want, begin)
		_, after, ok2 := strings.Cut(rest, end)
		if !ok || !ok2 {
			t.Fatalf("%s has no %s ... %s", file, begin, end)
		}
		want = before + begin + table(t, groups[i]) + end + after
	}
	if *update {
		if err := os.WriteFile(file, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if diff := cmp.Diff(want, string(text)); diff != "" {
		t.Errorf("docs/settings.md is not what the code says; run make docs (-code +docs):\n%s", diff)
	}
}

// fieldGroups returns the fields of Config, in groups that an empty line parts.
func fieldGroups(t *testing.T) [][]*ast.Field {
	t.Helper()
	files := token.NewFileSet()
	file, err := parser.ParseFile(files, "config.go", nil, parser.ParseComments)
	if err != nil {
		t.Fatal(err)
	}
	var groups [][]*ast.Field
	lastLine := 0
	for _, field := range file.Scope.Lookup("Config").Decl.(*ast.TypeSpec).Type.(*ast.StructType).Fields.List {
		if field.Doc == nil {
			t.Fatalf("%s has no doc comment", field.Names[0])
		}
		if line := files.Position(field.Doc.Pos()).Line; lastLine == 0 || line > lastLine+1 {
			groups = append(groups, nil)
		}
		groups[len(groups)-1] = append(groups[len(groups)-1], field)
		lastLine = files.Position(field.End()).Line
	}
	return groups
}

func table(t *testing.T, fields []*ast.Field) string {
	t.Helper()
	text, err := json.Marshal(Default())
	if err != nil {
		t.Fatal(err)
	}
	var defaults map[string]json.RawMessage
	if err := json.Unmarshal(text, &defaults); err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	out.WriteString("| setting | default | meaning |\n| --- | --- | --- |\n")
	for _, field := range fields {
		tags, err := strconv.Unquote(field.Tag.Value)
		if err != nil {
			t.Fatal(err)
		}
		name, _, _ := strings.Cut(reflect.StructTag(tags).Get("json"), ",")
		value := "nothing"
		if d, given := defaults[name]; given {
			value = "`" + strings.Trim(string(d), `"`) + "`"
		}
		fmt.Fprintf(&out, "| `%s` | %s | %s |\n", name, value, strings.ReplaceAll(strings.TrimSpace(field.Doc.Text()), "\n", " "))
	}
	return out.String()
}
