// SPDX-License-Identifier: Apache-2.0

package bunstore

import (
	"bytes"
	"encoding/json"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/tenantry/tenantry/adapters/testserver/soak"
)

// site is a part of this package's source that the test replaces. It is an expression that has
// mutants, or the keyword const of a declaration that must become a variable. A mutant is a wrong
// expression that a programmer could have written instead of the original.
type site struct {
	pos, end int      // offsets in the file
	location string   // file, line number and source line, for messages
	mutants  []string // none for the keyword const
}

// ownerCondition matches a condition on the owner, the account that owns a row.
var ownerCondition = regexp.MustCompile(`(?:\w+\.)?account_id = (?:\?|\w+\.account_id)`)

// sourceFile is a source file in which the test searches for sites.
type sourceFile struct {
	name   string
	source []byte
	fset   *token.FileSet
	sites  []site
}

func (f *sourceFile) offset(p token.Pos) int { return f.fset.Position(p).Offset }

func (f *sourceFile) text(n ast.Node) string {
	return string(f.source[f.offset(n.Pos()):f.offset(n.End())])
}

func (f *sourceFile) add(n ast.Node, mutants ...string) {
	if len(mutants) == 0 {
		return
	}
	position := f.fset.Position(n.Pos())
	line := bytes.TrimSpace(bytes.Split(f.source, []byte("\n"))[position.Line-1])
	f.sites = append(f.sites, site{f.offset(n.Pos()), f.offset(n.End()), fmt.Sprintf("%s:%d: %s", f.name, position.Line, line), mutants})
}

// visit adds the sites of a node. It reports whether ast.Inspect must visit the node's children.
func (f *sourceFile) visit(n ast.Node) bool {
	switch n := n.(type) {
	case *ast.ImportSpec, *ast.StructType:
		return false
	case *ast.BasicLit:
		f.add(n, withoutOwner(n.Value)...)
	case *ast.CallExpr:
		method, ok := n.Fun.(*ast.SelectorExpr)
		if !ok {
			return true
		}
		switch {
		case method.Sel.Name == "inTransaction":
			f.add(method, f.text(method.X)+".db.RunWrite")
		case method.Sel.Name == "Where":
			f.add(n.Args[0], f.withoutCondition(n.Args[0])...)
			f.visitAll(append(n.Args[1:], method.X))
			return false
		case method.Sel.Name == "Order" || method.Sel.Name == "OrderExpr":
			f.add(n.Args[0], reversed(f.text(n.Args[0])))
			f.visitAll([]ast.Expr{method.X})
			return false
		case method.Sel.Name == "Limit" && f.text(n.Args[0]) != "1":
			f.add(n.Args[0], "int64(1 << 30)")
		}
	}
	return true
}

func (f *sourceFile) visitAll(exprs []ast.Expr) {
	for _, e := range exprs {
		ast.Inspect(e, f.visit)
	}
}

// withoutCondition returns the mutants of an argument of Where. For each condition on the owner, it
// returns the mutant of withoutOwner. If the argument has other conditions, one more mutant makes
// the whole argument true for all rows. All mutants keep the placeholders.
func (f *sourceFile) withoutCondition(arg ast.Expr) []string {
	sql := f.text(arg)
	mutants := withoutOwner(sql)
	if ownerCondition.FindString(sql) == strings.Trim(sql, `"`) {
		return mutants
	}
	return append(mutants, `"(" + `+sql+` + ") OR 1 = 1"`)
}

// withoutOwner returns, for each condition on the owner, a mutant in which this condition is always
// true.
func withoutOwner(sql string) (mutants []string) {
	for _, indexes := range ownerCondition.FindAllStringIndex(sql, -1) {
		replacement := "1 = 1"
		if sql[indexes[1]-1] == '?' {
			replacement = "? IS NOT NULL"
		}
		mutants = append(mutants, sql[:indexes[0]]+replacement+sql[indexes[1]:])
	}
	return mutants
}

// reversed returns the argument of Order or OrderExpr with the direction of its first term
// reversed.
func reversed(sql string) string {
	end, depth := len(sql)-1, 0
	for i, char := range sql {
		switch {
		case char == '(':
			depth++
		case char == ')':
			depth--
		case char == ',' && depth == 0:
			end = min(end, i)
		}
	}
	if ascending, descends := strings.CutSuffix(sql[:end], " DESC"); descends {
		return ascending + sql[end:]
	}
	return sql[:end] + " DESC" + sql[end:]
}

// constToVar adds a site for the keyword const of a declaration that contains a string. The site is
// replaced by var, because the value of a constant cannot be a call of the function mutant.
func (f *sourceFile) constToVar(decl ast.Decl) {
	if d, ok := decl.(*ast.GenDecl); ok && d.Tok == token.CONST && strings.Contains(f.text(d), `"`) {
		f.sites = append(f.sites, site{pos: f.offset(d.Pos()), end: f.offset(d.Pos()) + len("const")})
	}
}

// sourceFiles returns the source files of this package, without its tests, with their sites.
func sourceFiles(t *testing.T) (files []*sourceFile) {
	t.Helper()
	names, err := filepath.Glob("*.go")
	must(t, "list files", err)
	for _, name := range names {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		f := &sourceFile{name: name, fset: token.NewFileSet()}
		f.source, err = os.ReadFile(name)
		must(t, "read file", err)
		tree, err := parser.ParseFile(f.fset, name, f.source, parser.SkipObjectResolution)
		must(t, "parse", err)
		for _, decl := range tree.Decls {
			ast.Inspect(decl, f.visit)
			f.constToVar(decl)
		}
		files = append(files, f)
	}
	return files
}

// mutatedSource returns the source in which each site with mutants calls the function mutant of
// choiceSource, which chooses between the original and the mutants. It adds the description of each
// mutant to descriptions, keyed by the number of the mutant.
func (f *sourceFile) mutatedSource(descriptions map[int]string) []byte {
	source := bytes.Clone(f.source)
	slices.SortFunc(f.sites, func(a, b site) int { return b.pos - a.pos })
	for _, s := range f.sites {
		replacement := "var"
		if len(s.mutants) > 0 {
			firstNumber := len(descriptions) + 1
			replacement = fmt.Sprintf("mutant(%d, %s, %s)", firstNumber, source[s.pos:s.end], strings.Join(s.mutants, ", "))
			for i, m := range s.mutants {
				descriptions[firstNumber+i] = s.location + " -> " + m
			}
		}
		source = slices.Concat(source[:s.pos], []byte(replacement), source[s.end:])
	}
	return source
}

// choiceSource is the source of the function that chooses a mutant by its number.
const choiceSource = `package bunstore

import ("os"; "strconv")

func mutant[T any](first int, original T, mutants ...T) T {
	chosen, _ := strconv.Atoi(os.Getenv("TENANTRY_MUTANT"))
	if i := chosen - first; i >= 0 && i < len(mutants) {
		return mutants[i]
	}
	return original
}
`

// undetectableMutants lists the mutants that no test on SQLite can detect. A key is a part of the
// description of a mutant (see mutatedSource). The value is the reason why no test detects it.
var undetectableMutants = map[string]string{
	`JOIN tenant_holders AS h ON 1 = 1 AND h.guid`:                                 "only the account that holds a tenant has a row of the tenant",
	`Where("mc.mailbox_id = ?", mailboxID).Scan(ctx) -> "(" + "mc.mailbox_id = ?"`: "joinConnections ignores the connections of other mailboxes",
	`GroupExpr("dj.account_id") -> "(" + jobWithNextAttempt`:                       "only a running job has a lease",
	`ident.Zero).Where("ec.span = ?", day).Order`:                                  "the list has more rows or a different order, and the same events are deleted",
	`"end leases"`:                                       "the leases do not depend on each other, so they need no transaction",
	`"(" + isDue("st.due_at")`:                           "the select before the insert has the same condition",
	`"(" + "ms.mailbox_id IN (?)"`:                       "counts of other mailboxes are ignored",
	`"(" + "bg.mailbox_id IN (?)"`:                       "block reasons of other mailboxes are ignored",
	`guid)). -> "(" + "m.tenant_id = "`:                  "the outer query selects only the rows of the tenant",
	`guid)) -> "(" + "orp.tenant_id = "`:                 "the outer query selects only the rows of the tenant",
	`"leased_until <= ?", s.databaseNowSQL()).Exec(ctx)`: "the inner select has the same conditions",
	`id.Key[:]). -> "(" + "key_hash = ?"`:                "each attempt id belongs to one key",
	`"attempt = ?", attempt) -> "(" + "key_hash = ?"`:    "each attempt id belongs to one key",
	`-> "guid DESC"`:                                     "the tenants of a closed account are released in any order",
	`-> "id DESC"`:                                       "the objects of a closed account are deleted in any order",
	`d.AccountID).Where("ec.tenant_guid IN (?)", bun.List(guids)). -> "(" + "ec.tenant_guid`: "all counts without events are deleted, and only a decreased count can be 0",
	`"(" + "ec.span IN (?)"`:                                "all counts without events are deleted, and only a decreased count can be 0",
	`Where("ec.events <= 0").Exec(ctx) -> "(" + "ec.starts`: "all counts without events are deleted, and only a decreased count can be 0",
	`"(" + "ev.id >= ?"`:                                    "earlier days are dropped first",
	`"(" + "leased_until > 0"`:                              "an expired lease stays expired",
	`-> "mailbox_id DESC"`:                                  "intents are deleted in any order",
	`.Where("si.action = ?", string(sendlimit.Blocked)).Scan(ctx, &ids) -> "(" + "si.tenant_id`:                          "intents of other tenants are ignored",
	`rows).Where("sp.account_id = ?", owner).Where("sp.tenant_id = "+tenantByGUID, owner, guid). -> "(" + "sp.tenant_id`: "the domains belong to the tenant",
	`: Where("sp.account_id = ?", owner).Where("sp.tenant_id = "+tenantByGUID, owner, guid). -> "(" + "sp.tenant_id`:     "the outer query selects only the rows of the tenant",
	`bun.List([]int{hour, day})). -> "(" + "ec.action IN (?)"`:                                                           "all counts without events are deleted, and only a decreased count can be 0",
	`-> "ev.id DESC"`:     "the events of a day are dropped in any order",
	`-> "ec.starts DESC"`: "days are emptied in any order",
	`-> "d.id DESC"`:      "the order of the locks has no effect on SQLite, which has no locks of rows",
	`integrationRow)(nil)).Column("id").Where("ig.account_id = ?", owner).`:               "SQLite has no locks of rows",
	`Where("ig.id = ?", integrationID).For("KEY SHARE")`:                                  "SQLite has no locks of rows",
	`_, err := tx.NewSelect().Model((*mailboxRow)(nil)).Column("id").Where("m.account_id`: "SQLite has no locks of rows",
	`Where("m.id IN (?)", bun.List(chunk)).Order("m.id")`:                                 "SQLite has no locks of rows",
	`.Column("id").Where("m.account_id = ?", d.AccountID).`:                               "SQLite has no locks of rows",
	`Where("m.address IN (?)", bun.List(addresses)).Order("m.id")`:                        "SQLite has no locks of rows",
	`"(" + "dj.run_id IN (?)"`:                                                            "jobs of other runs are ignored",
	`"(" + "d.records->>'Drifted' <> ''"`:                                                 "a domain without drift has no drifts to count",
	`Limit(int64(wanted.Limit) + 1) -> int64(1 << 30)`:                                    "the page is cut to its limit after the query",
	`to). -> "(" + "ec.starts >= ?"`:                                                      "the hours are sorted, the newest first, so earlier days come after the hours of the day",
	`"(" + "ms.settled <> EXCLUDED.settled`:                                               "without the condition, the update stores the same counts again",
}

// TestEveryConditionIsTested runs the tests on mutants of this package, on SQLite, and requires
// that a test fails for each mutant. A mutant lacks one condition, one transaction or one limit, or
// it reverses one order. The runs take long, so the test needs TENANTRY_SOAK. Without this variable
// the test checks only that every entry of undetectableMutants still belongs to a mutant. To run
// one mutant, use -run with a part of its name.
func TestEveryConditionIsTested(t *testing.T) {
	t.Parallel()
	descriptions, overlay, dir := map[int]string{}, map[string]string{}, t.TempDir()
	folder, err := os.Getwd()
	must(t, "find folder", err)
	writeToOverlay := func(name string, content []byte) {
		overlay[filepath.Join(folder, name)] = filepath.Join(dir, name)
		must(t, "write", os.WriteFile(filepath.Join(dir, name), content, 0o600))
	}
	writeToOverlay("mutant.go", []byte(choiceSource))
	for _, f := range sourceFiles(t) {
		writeToOverlay(f.name, f.mutatedSource(descriptions))
	}
	for key := range undetectableMutants {
		if !slices.ContainsFunc(slices.Collect(maps.Values(descriptions)), func(m string) bool { return strings.Contains(m, key) }) {
			t.Errorf("the key %q of undetectableMutants is not in the description of any mutant", key)
		}
	}
	if !soak.Enabled() {
		return
	}
	overlayJSON, err := json.Marshal(map[string]any{"Replace": overlay})
	must(t, "encode", err)
	overlayFile := filepath.Join(dir, "overlay.json")
	must(t, "write", os.WriteFile(overlayFile, overlayJSON, 0o600))
	testBinary := filepath.Join(dir, "tests")
	output, err := exec.CommandContext(t.Context(), "go", "test", "-c", "-overlay", overlayFile, "-o", testBinary, ".").CombinedOutput()
	if err != nil {
		t.Fatalf("compile the mutants: %v\n%s", err, output)
	}
	const original = 0 // no mutant has this number
	if output, err := runMutant(t, testBinary, original); err != nil {
		t.Fatalf("the tests fail without a mutant: %v\n%s", err, output)
	}
	for number := 1; number <= len(descriptions); number++ {
		description := descriptions[number]
		t.Run(description, func(t *testing.T) {
			t.Parallel()
			for key, reason := range undetectableMutants {
				if strings.Contains(description, key) {
					t.Skip(reason)
				}
			}
			if output, err := runMutant(t, testBinary, number); err == nil {
				t.Errorf("all tests pass on the mutant, want one that fails:\n%s", output)
			}
		})
	}
}

// unsuitableTests is the pattern of the tests that do not run on mutants: benchmarks, subtests on
// PostgreSQL, and TestEveryConditionIsTested itself.
const unsuitableTests = "^Test(Benchmarks|EveryConditionIsTested)|/^postgres$|//^postgres$"

// runMutant runs the tests on a mutant until the first test fails. It unsets TENANTRY_SOAK: the
// long forms of the tests would take hours for all mutants.
func runMutant(t *testing.T, testBinary string, number int) ([]byte, error) {
	cmd := exec.CommandContext(t.Context(), testBinary, "-test.failfast", "-test.timeout=10m", "-test.skip="+unsuitableTests)
	isSoak := func(variable string) bool { return strings.HasPrefix(variable, "TENANTRY_SOAK=") }
	cmd.Env = append(slices.DeleteFunc(os.Environ(), isSoak), fmt.Sprint("TENANTRY_MUTANT=", number))
	return cmd.CombinedOutput()
}
