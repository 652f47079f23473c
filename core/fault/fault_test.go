// SPDX-License-Identifier: Apache-2.0

package fault_test

import (
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/tenantry/tenantry/core/fault"
)

func TestAllListsEveryCode(t *testing.T) {
	file, err := parser.ParseFile(token.NewFileSet(), "codes.go", nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	var declared, listed []string
	ast.Inspect(file, func(node ast.Node) bool {
		literal, ok := node.(*ast.CompositeLit)
		if !ok || fmt.Sprint(literal.Type) != "Code" || len(literal.Elts) == 0 {
			return true
		}
		name, err := strconv.Unquote(literal.Elts[0].(*ast.BasicLit).Value)
		if err != nil {
			t.Fatal(err)
		}
		declared = append(declared, name)
		return true
	})
	for _, code := range fault.All() {
		listed = append(listed, code.Name)
	}
	if diff := cmp.Diff(declared, listed); diff != "" || len(declared) == 0 {
		t.Fatalf("All (-declared +listed):\n%s", diff)
	}
}

func TestCodesAreValid(t *testing.T) {
	snakeCase := regexp.MustCompile(`^[a-z]+(_[a-z]+)*$`)
	seen := map[string]bool{}
	for _, code := range fault.All() {
		if seen[code.Name] || !snakeCase.MatchString(code.Name) {
			t.Errorf("name %q is not unique or not in snake case", code.Name)
		}
		seen[code.Name] = true
		if code.Kind < fault.Invalid || code.Kind > fault.Timeout || code.Title == "" || code.About == "" {
			t.Errorf("%s has no kind, no title or no text", code.Name)
		}
		if got, ok := fault.ByName(code.Name); !ok || got != code {
			t.Errorf("%s is not found by its name", code.Name)
		}
	}
	if _, ok := fault.ByName("nothing"); ok {
		t.Error("ByName finds a code for an unknown name")
	}
}

func TestErrorOfHidesUnpublishedErrors(t *testing.T) {
	internal := errors.New("dial 10.0.0.1: refused")
	for _, tc := range []struct {
		name string
		err  error
		want *fault.Error
	}{
		{"a published error", fault.TenantNotFound.With("no %s", "tenant"), &fault.Error{Code: fault.TenantNotFound, Detail: "no tenant"}},
		{"a wrapped published error", fmt.Errorf("load: %w", fault.NoUpdates.With("none")), &fault.Error{Code: fault.NoUpdates, Detail: "none"}},
		{"a bare code", fault.AccessDenied, &fault.Error{Code: fault.AccessDenied, Detail: fault.AccessDenied.Title}},
		{
			"an error with fields", fault.InvalidRequest.At("bad", fault.Field{Name: "domain", Message: "m"}),
			&fault.Error{Code: fault.InvalidRequest, Detail: "bad", Fields: []fault.Field{{Name: "domain", Message: "m"}}},
		},
		{
			"an error with RetryAfter", fault.ProviderUnavailable.RetryIn(time.Second, "down"),
			&fault.Error{Code: fault.ProviderUnavailable, Detail: "down", RetryAfter: time.Second},
		},
		{
			"the text of any other error is hidden", fmt.Errorf("select: %w", internal),
			&fault.Error{Code: fault.InternalError, Detail: "the service failed unexpectedly"},
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if diff := cmp.Diff(tc.want, fault.ErrorOf(tc.err)); diff != "" {
				t.Fatal(diff)
			}
		})
	}
}

func TestErrorMatchesItsCode(t *testing.T) {
	err := fmt.Errorf("load: %w", fault.DomainNotFound.With("none"))
	if !errors.Is(err, fault.DomainNotFound) || errors.Is(err, fault.TenantNotFound) {
		t.Fatalf("%v does not match domain_not_found, or matches tenant_not_found", err)
	}
	if got := fault.DomainNotFound.With("none").Error(); got != "domain_not_found: none" {
		t.Fatalf("got %q, want the code and the detail", got)
	}
}

func TestRetryAdviceFitsTheCode(t *testing.T) {
	for code, want := range map[fault.Code]string{
		fault.RateLimitExceeded:  "`Retry-After`",
		fault.ServiceUnavailable: "`Retry-After`",
		fault.KeyInProgress:      "`Retry-After`",
		fault.CursorExpired:      "No:",
		fault.InternalError:      "increasing delays",
	} {
		if advice := code.Again(); !strings.Contains(advice, want) {
			t.Errorf("the advice for %s does not say %q: %s", code.Name, want, advice)
		}
	}
}
