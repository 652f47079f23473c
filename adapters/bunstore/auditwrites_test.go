// SPDX-License-Identifier: Apache-2.0

package bunstore

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// unauditedWrites lists the writes outside of inTransaction. The text of each write says why the
// act of a request need not be stored with the write.
var unauditedWrites = map[string]string{
	"record action":                              "an action of an operator that concerns no account",
	"claim an idempotency key":                   "an Idempotency-Key is not data of an account",
	"take an idempotency key over":               "an Idempotency-Key is not data of an account",
	"hold an idempotency key":                    "an Idempotency-Key is not data of an account",
	"abandon an attempt with an idempotency key": "an Idempotency-Key is not data of an account",
	"release an idempotency key":                 "an Idempotency-Key is not data of an account",
	"reap idempotency keys":                      "background work",
	"save key uses":                              "background work",
	"advance connect session":                    "a browser's request, whose sign-in is audited",
	"drop connect sessions":                      "expired sessions of all accounts",
	"release delivery":                           "background work",
	"drop deliveries":                            "background work",
	"take connect flow":                          "a browser's request, whose sign-in is audited",
	"drop connect flows":                         "expired flows of all accounts",
	"renew lease of provisioning job":            "background work",
	"release provisioning job":                   "background work",
	"save provisioning job":                      "background work",
	"claim provisioning job":                     "background work",
	"intend DNS write":                           "background work, and the operator's undo, which is audited when it ends",
	"drop DNS write":                             "background work, and the operator's undo, which is audited when it ends",
	"withdraw reservation of domain":             "undoes a reservation, whose transaction stored the act",
	"cancel removal of domain":                   "undoes the beginning of a removal, whose transaction stored the act",
	"hold tenant":                                "a lease",
	"release tenant":                             "a lease",
	"claim check of OAuth session":               "a read of the session's status",
}

// TestWritesOutsideTransactionsAreListed checks the calls of RunRead, RunWrite and execChanged. The
// three methods do not store the act of a request, so unauditedWrites must list each call that
// writes. RunRead must not write, because on SQLite it does not wait for other writers.
func TestWritesOutsideTransactionsAreListed(t *testing.T) {
	t.Parallel()
	names, err := filepath.Glob("*.go")
	must(t, "list files", err)
	used := map[string]bool{}
	for _, name := range names {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		tree, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.SkipObjectResolution)
		must(t, "parse", err)
		ast.Inspect(tree, func(n ast.Node) bool {
			call, ok := n.(*ast.CallExpr)
			if !ok || !isCall(call, "RunRead", "RunWrite", "execChanged") || len(call.Args) != 3 || !containsWrite(call) {
				return true
			}
			text, ok := call.Args[1].(*ast.BasicLit)
			if !ok {
				return true // execChanged passes its own argument; its callers are checked
			}
			operation, err := strconv.Unquote(text.Value)
			must(t, "unquote", err)
			if isCall(call, "RunRead") {
				t.Errorf("%s: %q writes with RunRead, want RunWrite", name, operation)
			}
			if used[operation] = true; unauditedWrites[operation] == "" {
				t.Errorf("%s: %q writes outside of inTransaction, want it in inTransaction or in unauditedWrites", name, operation)
			}
			return true
		})
	}
	for operation := range unauditedWrites {
		if !used[operation] {
			t.Errorf("unauditedWrites lists %q, want only names of writes outside of inTransaction", operation)
		}
	}
}

func isCall(call *ast.CallExpr, names ...string) bool {
	method, ok := call.Fun.(*ast.SelectorExpr)
	return ok && slices.Contains(names, method.Sel.Name)
}

// containsWrite reports whether a call of RunRead, RunWrite or execChanged can write. For RunRead
// it searches the passed function for NewInsert, NewUpdate, NewDelete and recordAudit.
func containsWrite(call *ast.CallExpr) bool {
	if isCall(call, "RunWrite", "execChanged") {
		return true
	}
	found := false
	ast.Inspect(call.Args[2], func(n ast.Node) bool {
		inner, ok := n.(*ast.CallExpr)
		found = found || ok && isCall(inner, "NewInsert", "NewUpdate", "NewDelete", "recordAudit")
		return true
	})
	return found
}
