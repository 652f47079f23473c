// SPDX-License-Identifier: Apache-2.0

// Command lint is `go vet` with more analyzers. They find dropped errors, comparisons that miss
// wrapped errors, and nil returned in place of an error. They also find bodies of HTTP answers and
// SQL rows that are not closed, SQL rows whose error is not checked, calls without a context, and
// unused assignments and identifiers. `go vet` runs the command:
//
//	go vet -vettool=bin/lint ./...
//
// A comment `//lint:ignore NAME reason` on the line of a finding, or on the line above it,
// suppresses the findings of one of these analyzers there.
package main

import (
	"go/ast"
	"go/token"
	"regexp"
	"slices"
	"strings"

	"codeberg.org/polyfloyd/go-errorlint/errorlint"
	"github.com/gordonklaus/ineffassign/pkg/ineffassign"
	"github.com/gostaticanalysis/nilerr"
	"github.com/jingyugao/rowserrcheck/passes/rowserr"
	"github.com/kisielk/errcheck/errcheck"
	sqlclose "github.com/ryanrolds/sqlclosecheck/pkg/analyzer"
	"github.com/sonatard/noctx"
	"github.com/timakin/bodyclose/passes/bodyclose"
	"golang.org/x/tools/go/analysis"
	"golang.org/x/tools/go/analysis/passes/scannererr"
	"golang.org/x/tools/go/analysis/suite/vet"
	"golang.org/x/tools/go/analysis/unitchecker"
	"honnef.co/go/tools/unused"
)

func main() {
	// The analyzers in exceptTests, and scannererr, skip test code: it calls only servers that it
	// has started, its files are deleted when the tests end, and it may compare errors with ==.
	exceptTests := []*analysis.Analyzer{bodyclose.Analyzer, errcheck.Analyzer, errorlint.NewAnalyzer(), noctx.Analyzer}
	everywhere := []*analysis.Analyzer{ineffassign.Analyzer, nilerr.Analyzer, rowserr.NewAnalyzer(), sqlclose.NewAnalyzer(), unusedIdentifiers}
	for _, a := range append(exceptTests, scannererr.Analyzer) { // scannererr is already in vet.Suite
		filter(a, func(file string) bool { return !testCode.MatchString(file) })
	}
	for _, a := range everywhere {
		filter(a, func(string) bool { return true })
	}
	unitchecker.Main(slices.Concat(vet.Suite, exceptTests, everywhere)...)
}

var testCode = regexp.MustCompile(`_test\.go$|/testdata/|/adapters/testserver/|/ports/contract/`)

// filter changes an analyzer, so that it drops findings in generated files and in files for which
// accepted returns false. It also drops the findings that a `//lint:ignore` comment suppresses.
func filter(a *analysis.Analyzer, accepted func(file string) bool) {
	run := a.Run
	a.Run = func(pass *analysis.Pass) (any, error) {
		report := pass.Report
		pass.Report = func(d analysis.Diagnostic) {
			at := pass.Fset.Position(d.Pos)
			if file := fileOf(pass, d.Pos); file != nil && !ast.IsGenerated(file) && accepted(at.Filename) && !suppressed(pass.Fset, file, a.Name, at.Line) {
				report(d)
			}
		}
		return run(pass)
	}
}

func fileOf(pass *analysis.Pass, pos token.Pos) *ast.File {
	for _, file := range pass.Files {
		if file.FileStart <= pos && pos <= file.FileEnd {
			return file
		}
	}
	return nil
}

func suppressed(set *token.FileSet, file *ast.File, analyzer string, line int) bool {
	for _, group := range file.Comments {
		for _, comment := range group.List {
			words := strings.Fields(comment.Text)
			commentLine := set.Position(comment.Pos()).Line
			if len(words) > 2 && words[0] == "//lint:ignore" && words[1] == analyzer && (commentLine == line || commentLine == line-1) {
				return true
			}
		}
	}
	return false
}

// unusedIdentifiers reports what unused.Analyzer finds. An identifier also counts as used if only
// tests of its package use it.
var unusedIdentifiers = &analysis.Analyzer{
	Name:     "unused",
	Doc:      "report constants, variables, functions, types, fields and methods that nothing uses",
	Requires: []*analysis.Analyzer{unused.Analyzer.Analyzer},
	Run: func(pass *analysis.Pass) (any, error) {
		for _, object := range pass.ResultOf[unused.Analyzer.Analyzer].(unused.Result).Unused {
			for _, file := range pass.Files {
				if tokens := pass.Fset.File(file.Pos()); tokens.Name() == object.Position.Filename {
					pass.Reportf(tokens.LineStart(object.Position.Line), "%s %s is unused", object.Kind, object.Name)
				}
			}
		}
		return nil, nil
	},
}
