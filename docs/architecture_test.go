// SPDX-License-Identifier: Apache-2.0

// Package docs has the documents of the project, and the tests that check them.
//
//   - architecture_test.go: the imports of each package.
//   - breaking_test.go: the guard against breaking changes of the API.
//   - links_test.go: the links between pages, and the tests that pages name.
//   - vendors_test.go: the files that may name a vendor.
package docs

import (
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

const module = "github.com/tenantry/tenantry/"

// coreLibraries are the libraries that core may import. Core may also import the standard library,
// except package context.
var coreLibraries = map[string]bool{
	"golang.org/x/net/idna":         true,
	"golang.org/x/net/publicsuffix": true,
}

// TestEveryImportIsAllowed checks the imports of the main module and of the plugins against the
// tables of imports.md. It does not check the imports of tests.
func TestEveryImportIsAllowed(t *testing.T) {
	allowed, libraries := allowedImports(t), libraryUsers(t)
	for _, violation := range violations(goList(t, ".Imports"), allowed, libraries) {
		t.Error(violation)
	}
}

// TestPluginTestsImportOnlyTheSDK checks the imports of the tests of the DNS and sending plugins. A
// test may import what its plugin may import, and plugins/conformance and adapters/testserver.
func TestPluginTestsImportOnlyTheSDK(t *testing.T) {
	allowed := allowedImports(t)
	allowed["plugins/*"] = append(allowed["plugins/*"], "plugins/conformance", "adapters/testserver")
	var tests strings.Builder
	for line := range strings.Lines(goList(t, ".TestImports") + goList(t, ".XTestImports")) {
		if strings.HasPrefix(line, module+"plugins/dns-") || strings.HasPrefix(line, module+"plugins/sending-") {
			tests.WriteString(line)
		}
	}
	if found := strings.Count(tests.String(), module+"plugins/conformance"); found < 8 {
		t.Fatalf("%d lists of imports contain plugins/conformance, want at least 8", found)
	}
	for _, violation := range violations(tests.String(), allowed, nil) {
		t.Error("tests: " + violation)
	}
}

// TestViolationsFindsForbiddenImports checks that violations reports forbidden imports. Each line
// has a package and a package that it may not import. The last package has no row in imports.md.
func TestViolationsFindsForbiddenImports(t *testing.T) {
	allowed, libraries := allowedImports(t), libraryUsers(t)
	for _, forbidden := range []string{
		module + "core/tenant " + module + "ports",
		module + "core/tenant context",
		module + "core/tenant golang.org/x/text/unicode/norm",
		module + "ports " + module + "app/tenants",
		module + "app/tenants " + module + "app/domains",
		module + "app/tenants " + module + "adapters/bunstore",
		module + "adapters/bunstore " + module + "adapters/secrets",
		module + "adapters/httpapi github.com/uptrace/bun",
		module + "plugins/mail-microsoft365 " + module + "adapters/httpapi",
		module + "plugins/sending-emailbison " + module + "core/integration",
		module + "plugins/dns-powerdns " + module + "core/dns",
		module + "plugins/dns-powerdns/simulator " + module + "core/dns",
		module + "nowhere/new " + module + "core/tenant",
	} {
		if len(violations(forbidden+"\n", allowed, libraries)) == 0 {
			t.Errorf("violations does not report the forbidden import %s", forbidden)
		}
	}
}

// goList returns a line "package import import …" for each package of the main module and of the
// plugins that are modules of their own. field is the field of `go list` that has the imports.
func goList(t *testing.T, field string) string {
	t.Helper()
	modules, err := filepath.Glob("../plugins/*/go.mod")
	if err != nil || len(modules) == 0 {
		t.Fatalf("the modules of plugins are %v, %v, want at least one", modules, err)
	}
	var list strings.Builder
	for _, file := range append(modules, "../go.mod") {
		cmd := exec.Command("go", "list", "-f", `{{.ImportPath}} {{join `+field+` " "}}`, "./...")
		cmd.Dir = filepath.Dir(file)
		out, err := cmd.Output()
		if err != nil {
			t.Fatalf("go list of %s: %v", file, err)
		}
		list.Write(out)
	}
	return list.String()
}

// violations returns a message for each forbidden import in list, which is an output of goList.
// allowed is the table of allowedImports, and libraries the table of libraryUsers.
func violations(list string, allowed, libraries map[string][]string) []string {
	var found []string
	for line := range strings.Lines(list) {
		fields := strings.Fields(line)
		pkg := strings.TrimPrefix(fields[0], module)
		row := rowOf(pkg, allowed)
		if row == "" {
			found = append(found, pkg+" has no row in the table of imports.md")
			continue
		}
		for _, imp := range fields[1:] {
			dep, internal := strings.CutPrefix(imp, module)
			switch {
			case internal && !inSameFolder(pkg, dep, row) && !slices.Contains(allowed[row], rowOf(dep, allowed)):
				found = append(found, pkg+" imports "+dep+", which row `"+row+"` does not allow")
			case !internal && row == "core" && !coreLibraries[imp] && (imp == "context" || strings.Contains(imp, ".")):
				found = append(found, pkg+" imports "+imp+", which core may not import")
			case !internal && !mayImportLibrary(pkg, imp, libraries):
				found = append(found, pkg+" imports "+imp+", which the table of libraries does not allow")
			}
		}
	}
	return found
}

// inSameFolder reports whether dep is in the folder of pkg for a row. The folder has as many path
// elements as the row. For the row plugins/*, it is the folder of one plugin. An import in the same
// folder is always allowed.
func inSameFolder(pkg, dep, row string) bool {
	depth := strings.Count(row, "/") + 1 // number of path elements of the folder
	folder := strings.Join(strings.SplitN(pkg, "/", depth+1)[:min(depth, strings.Count(pkg, "/")+1)], "/")
	return dep == folder || strings.HasPrefix(dep, folder+"/")
}

// rowOf returns the longest key of rows that matches the first path elements of pkg. It returns ""
// if no key matches. A `*` in a key matches one path element.
func rowOf(pkg string, rows map[string][]string) string {
	longest := ""
	for row := range rows {
		parts, pattern := strings.Split(pkg, "/"), strings.Split(row, "/")
		if len(pattern) > len(parts) || len(row) <= len(longest) {
			continue
		}
		if ok, _ := path.Match(row, strings.Join(parts[:len(pattern)], "/")); ok {
			longest = row
		}
	}
	return longest
}

// mayImportLibrary reports whether pkg may import the library imp. Any package may import a library
// that is not in libraries.
func mayImportLibrary(pkg, imp string, libraries map[string][]string) bool {
	for lib, packages := range libraries {
		if imp == lib || strings.HasPrefix(imp, lib+"/") {
			return slices.ContainsFunc(packages, func(user string) bool {
				return pkg == user || strings.HasPrefix(pkg, user+"/")
			})
		}
	}
	return true
}

// allowedImports returns the table of packages: the allowed imports of each row.
func allowedImports(t *testing.T) map[string][]string { return tableRows(t, "may import") }

// libraryUsers returns the table of libraries: the packages that may import each library.
func libraryUsers(t *testing.T) map[string][]string { return tableRows(t, "only imported by") }

// tableRows reads the tables of imports.md whose second column has the heading column. It returns
// the words in backquotes of the second column, keyed by the words in backquotes of the first.
func tableRows(t *testing.T, column string) map[string][]string {
	t.Helper()
	page, err := os.ReadFile("imports.md")
	if err != nil {
		t.Fatal(err)
	}
	rows, quoted := map[string][]string{}, regexp.MustCompile("`([^`]+)`")
	inTable := false
	for line := range strings.Lines(string(page)) {
		cells := strings.Split(line, "|")
		if len(cells) < 4 {
			inTable = false
			continue
		}
		if strings.TrimSpace(cells[2]) == column {
			inTable = true
			continue
		}
		names := quoted.FindAllStringSubmatch(cells[1], -1)
		if !inTable || names == nil {
			continue
		}
		var values []string
		for _, value := range quoted.FindAllStringSubmatch(cells[2], -1) {
			values = append(values, value[1])
		}
		for _, name := range names {
			rows[name[1]] = values
		}
	}
	if len(rows) == 0 {
		t.Fatalf("imports.md has no table with a column %q", column)
	}
	return rows
}
