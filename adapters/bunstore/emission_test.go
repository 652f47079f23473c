// SPDX-License-Identifier: Apache-2.0

package bunstore

import (
	"go/ast"
	"go/parser"
	"go/token"
	"go/types"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// subjectRows are the row types of the objects that have events.
var subjectRows = []string{"tenantRow", "domainRow", "mailboxRow", "dnsRunRow", "dnsJobRow", "integrationRow", "connectionRow", "policyRow", "keyRow", "webhookRow"}

// emitters are the functions that add the events of a change to a transaction.
var emitters = []string{"emit", "emitTenant", "emitDomain", "emitMailbox", "emitConnections", "emitIntegration", "emitPolicy", "emitKey", "emitJob", "failPendingDeliveries"}

// silentWrites are the functions that TestEveryChangeOfSubjectEmits permits to emit no event, with
// the reason.
var silentWrites = map[string]string{
	"CreateRun":              "the answer of the request shows the queued run, so it has no event",
	"insertJob":              "the answer of the request shows the queued job, so it has no event",
	"dropEmptyRuns":          "the jobs of the run were deleted with their domains, whose removals are events",
	"ClaimJob":               "a job that runs is not an event",
	"RenewJobLease":          "a lease is not a state of a job that callers see",
	"ReleaseJob":             "a job that is queued again is not an event",
	"updateJob":              "saveJob emits the events; a job that has a next attempt has none",
	"reserveDomain":          "a reservation is not a domain yet",
	"renewDomainReservation": "a reservation is not a domain yet",
	"WithdrawReservation":    "a reservation is not a domain yet",
	"EndReservation":         "a reservation is not a domain yet",
	"insertReservations":     "a reservation is not a mailbox yet",
	"renewReservation":       "a reservation is not a mailbox yet",
	"updateTodayCounts":      "a count is not an event, but a block is",
	"ReservePolicy":          "a policy without a limit is reserved only; a policy that it replaces ended with its domain",
	"deleteOrphanPolicies":   "the policies ended with their domains",
	"savePendingConnection":  "the answer of the request shows the pending session; a connected mailbox stays connected",
	"DueRefreshes":           "the time of a refresh is not an event",
	"markClosed":             "the runs of a closed account are deleted with its log",
	"EndLeases":              "a lease is not a state that callers see",
	"AddWebhook":             "an endpoint is a setting of the account; the audit log has the request that adds it",
	"RemoveWebhook":          "an endpoint is a setting of the account; the audit log has the request that removes it",
	"Replay":                 "the position of a webhook is not a state that callers see",
	"FanOut":                 "the position of a webhook is not a state that callers see",
	"dropWebhooks":           "the webhooks of a closed account are deleted with its log",
	"findWebhook":            "it reads, with a select that its caller began",
}

// unknownRows has the row types of statements whose row type writtenRow cannot find. It is keyed by
// the function that contains the statement.
var unknownRows = map[string]string{
	"appendEvents": "eventRow", "raiseVersions": "eventVersionRow", "SaveIntents": "intentRow", "saveDayCounts": "dayCountRow", "insertDeliveries": "deliveryRow",
	"EndLeases": "dnsJobRow", "markClosed": "dnsRunRow", // these two write several tables, of which one is enough
}

// TestEveryChangeOfSubjectEmits finds the functions with a statement that writes a row in
// subjectRows. Such a function must emit events, or be listed in silentWrites with the reason.
func TestEveryChangeOfSubjectEmits(t *testing.T) {
	silent := map[string]bool{}
	for _, f := range writersOfSubjects(t) {
		_, listed := silentWrites[f.name]
		switch {
		case f.emits && listed:
			t.Errorf("%s emits events, but silentWrites lists it", f.name)
		case !f.emits && !listed:
			t.Errorf("%s writes a %s and emits no event, want an event or a reason in silentWrites", f.name, f.row)
		case listed:
			silent[f.name] = true
		}
	}
	for name := range silentWrites {
		if !silent[name] {
			t.Errorf("silentWrites lists %s, but this function writes no row in subjectRows", name)
		}
	}
}

// TestOtherPackagesWriteNoRows checks that the packages in subfolders have no statement for a row
// type. TestEveryChangeOfSubjectEmits reads only the source of this package.
func TestOtherPackagesWriteNoRows(t *testing.T) {
	names, err := filepath.Glob("*/*.go")
	must(t, "list files", err)
	fileCount := 0
	for _, name := range names {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.SkipObjectResolution)
		must(t, "parse "+name, err)
		fileCount++
		ast.Inspect(file, func(n ast.Node) bool {
			if call, ok := n.(*ast.CallExpr); ok && methodName(call) == "Model" {
				t.Errorf("%s calls Model, want statements for row types only in package bunstore", name)
			}
			return true
		})
	}
	if fileCount == 0 {
		t.Fatal("no files of subfolders were found")
	}
}

// writer is a function that writes a row in subjectRows.
type writer struct {
	name, row string
	emits     bool
}

func writersOfSubjects(t *testing.T) (writers []writer) {
	t.Helper()
	fset := token.NewFileSet()
	var files []*ast.File
	names, err := filepath.Glob("*.go")
	must(t, "list files", err)
	for _, name := range names {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(fset, name, nil, parser.SkipObjectResolution)
		must(t, "parse "+name, err)
		files = append(files, file)
	}
	info := &types.Info{Types: map[ast.Expr]types.TypeAndValue{}}
	// The type checker gets empty packages for all imports. That is enough, because the row types
	// are declared in this package.
	config := types.Config{Importer: emptyPackages{}, Error: func(error) {}}
	_, _ = config.Check("bunstore", fset, files, info)
	for _, file := range files {
		for _, decl := range file.Decls {
			if f, ok := decl.(*ast.FuncDecl); ok && f.Body != nil {
				if row := writtenRow(t, f, info); row != "" {
					writers = append(writers, writer{f.Name.Name, row, callsEmitter(f)})
				}
			}
		}
	}
	return writers
}

// emptyPackages imports each package as an empty package.
type emptyPackages struct{}

func (emptyPackages) Import(path string) (*types.Package, error) {
	p := types.NewPackage(path, path[strings.LastIndexByte(path, '/')+1:])
	p.MarkComplete()
	return p, nil
}

// writtenRow returns the row type in subjectRows that a statement of the function writes, or "". It
// fails the test if it cannot find the row type of a statement.
func writtenRow(t *testing.T, f *ast.FuncDecl, info *types.Info) (row string) {
	ast.Inspect(f.Body, func(n ast.Node) bool {
		call, ok := n.(*ast.CallExpr)
		if !ok || methodName(call) != "Model" || !isWriteOf(call) {
			return true
		}
		name := rowType(info.TypeOf(call.Args[0]))
		if name == "" {
			name = unknownRows[f.Name.Name]
		}
		if name == "" {
			t.Errorf("%s: the row type of a statement is not known", f.Name.Name)
		}
		if slices.Contains(subjectRows, name) {
			row = name
		}
		return true
	})
	return row
}

// isWriteOf reports whether a statement changes rows. call is the call of Model in the statement.
func isWriteOf(call *ast.CallExpr) bool {
	for {
		if id, ok := call.Fun.(*ast.Ident); ok { // a function that begins a statement, such as updateWebhook
			return strings.HasPrefix(id.Name, "update")
		}
		selector, ok := call.Fun.(*ast.SelectorExpr)
		if !ok {
			return false
		}
		switch selector.Sel.Name {
		case "NewInsert", "NewUpdate", "NewDelete":
			return true
		case "NewSelect":
			return false
		}
		if id, ok := selector.X.(*ast.Ident); ok { // a statement that began in another function, such as in deletePolicies
			return id.Name == "q"
		}
		if call, ok = selector.X.(*ast.CallExpr); !ok {
			return false
		}
	}
}

func methodName(call *ast.CallExpr) string {
	if s, ok := call.Fun.(*ast.SelectorExpr); ok {
		return s.Sel.Name
	}
	return ""
}

// rowType returns the name of a type, without its pointers and slices, or "" if the type has none.
func rowType(t types.Type) string {
	switch t := t.(type) {
	case *types.Pointer:
		return rowType(t.Elem())
	case *types.Slice:
		return rowType(t.Elem())
	case *types.Named:
		return t.Obj().Name()
	}
	return ""
}

func callsEmitter(f *ast.FuncDecl) (found bool) {
	ast.Inspect(f.Body, func(n ast.Node) bool {
		if call, ok := n.(*ast.CallExpr); ok {
			if id, ok := call.Fun.(*ast.Ident); ok && slices.Contains(emitters, id.Name) {
				found = true
			}
		}
		return true
	})
	return found
}
