// SPDX-License-Identifier: Apache-2.0

package panics_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// The keys of unguarded are the files and folders that start goroutines without this package. Each
// value is the reason.
var unguarded = map[string]string{
	".ci/":                 "tools of developers: a panic ends them with its stack",
	"adapters/sandbox/":    "the sandbox of developers: a panic ends it with its stack",
	"adapters/testserver/": "servers of tests: a panic fails the test",
	"app/e2e/":             "programs of tests: a panic fails the test",
	"ports/contract/":      "tests of adapters: a panic fails the test",

	"adapters/dnsresolver/client.go":              "the callback at the end of a context only sets the deadline of a connection",
	"adapters/pluginhost/testdata/puppet/main.go": "a plugin of tests that panics on purpose",
	"app/command/demo.go":                         "the demo of developers: a panic ends it with its stack",
	"app/tenantry/main.go":                        "the goroutine waits for signals and then ends the process",
	"app/webhooks/worker.go":                      "the callback at the end of a context only cancels another context",
	"core/panics/panics.go":                       "this package",
	"plugins/dns-rfc2136/call.go":                 "the callback at the end of a context only closes a connection",
	"plugins/dns-rfc2136/simulator/listen.go":     "the simulators of developers: a panic ends them with its stack",
	"plugins/conformance/testdata/faulty/raw.go":  "a plugin of tests",
	"plugins/wire/waits.go":                       "the callback at the end of a context only cancels a stream",
	"plugins/sdk/serve.go":                        "the goroutines wait for the end of standard input and then end the process",
	"plugins/sdk/simulator.go":                    "the simulators of developers: a panic ends them with its stack",
	"plugins/wire/runner.go":                      "the goroutine waits for the end of a process and then closes its files",
}

// starterOfPackage has, for packages of the standard library, the function or type that starts
// goroutines.
var starterOfPackage = map[string]string{"context": "AfterFunc", "sync": "WaitGroup", "time": "AfterFunc"}

// goroutineStarts returns the positions in a file that start a goroutine without this package.
func goroutineStarts(t *testing.T, path string, source any) []token.Position {
	t.Helper()
	files := token.NewFileSet()
	file, err := parser.ParseFile(files, path, source, parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}
	var positions []token.Position
	ast.Inspect(file, func(node ast.Node) bool {
		found := false
		switch node := node.(type) {
		case *ast.GoStmt:
			found = true
		case *ast.ImportSpec:
			found = node.Path.Value == `"golang.org/x/sync/errgroup"`
		case *ast.SelectorExpr:
			pkg, ok := node.X.(*ast.Ident)
			found = ok && starterOfPackage[pkg.Name] == node.Sel.Name
		}
		if found {
			positions = append(positions, files.Position(node.Pos()))
		}
		return true
	})
	return positions
}

// TestGoroutinesAreGuarded checks that all code that starts goroutines uses this package or is
// listed in unguarded, and that each entry of the list is needed.
func TestGoroutinesAreGuarded(t *testing.T) {
	needed := map[string]bool{}
	err := filepath.WalkDir("../..", func(path string, d fs.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return err
		}
		name := filepath.ToSlash(strings.TrimPrefix(path, filepath.Clean("../..")+string(filepath.Separator)))
		for _, position := range goroutineStarts(t, path, nil) {
			listed := false
			for prefix := range unguarded {
				if strings.HasPrefix(name, prefix) {
					needed[prefix], listed = true, true
				}
			}
			if !listed {
				t.Errorf("%s:%d starts a goroutine without package panics: a panic in it ends the process", name, position.Line)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, prefix := range slices.Sorted(maps.Keys(unguarded)) {
		if !needed[prefix] {
			t.Errorf("unguarded lists %s, which starts no goroutine", prefix)
		}
	}
}

func TestGoroutineStartsFindsGoroutines(t *testing.T) {
	for _, source := range []string{
		"func f() { go f() }", "func f() { defer func() { go f() }() }", "func f() { var wg sync.WaitGroup; wg.Go(f) }",
		"type s struct{ wg sync.WaitGroup }", "func f() { time.AfterFunc(0, f) }", "func f() { _ = context.AfterFunc }",
		`import "golang.org/x/sync/errgroup"`,
	} {
		if len(goroutineStarts(t, "x.go", "package x\n"+source)) != 1 {
			t.Errorf("goroutineStarts does not find exactly one start in %q", source)
		}
	}
	if found := goroutineStarts(t, "x.go", "package x\nfunc f() { var g panics.Group; g.Go(f); panics.AfterFunc(0, f, nil) }"); found != nil {
		t.Errorf("package panics is reported as unguarded at %v", found)
	}
}
