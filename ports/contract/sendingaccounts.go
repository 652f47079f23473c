// SPDX-License-Identifier: Apache-2.0

package contract

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/tenantry/tenantry/core/fault"
	"github.com/tenantry/tenantry/core/integration"
	"github.com/tenantry/tenantry/core/outcome"
)

var sendingCredentialChecks = []sendingCheck{
	{"a good credential reaches its workspace", func(t testing.TB, w SendingWorld) {
		reach, err := w.Platform.Check(call(t))
		must(t, "check", err)
		if len(reach.Workspaces) != 1 || reach.Roaming {
			t.Fatalf("got %+v", reach)
		}
	}},
	{"a credential that is not taken is refused everywhere", func(t testing.TB, w SendingWorld) {
		p := w.Refused
		calls := map[string]func(context.Context) error{
			"check":    func(ctx context.Context) error { _, err := p.Check(ctx); return err },
			"account":  func(ctx context.Context) error { _, err := p.Account(ctx, "anna@a.example"); return err },
			"accounts": func(ctx context.Context) error { _, err := p.Accounts(ctx, ""); return err },
		}
		if w.can(integration.CanOAuth) {
			calls["start"] = func(ctx context.Context) error { _, err := p.StartSignIn(ctx, "anna@a.example"); return err }
		}
		for what, of := range calls {
			err := of(call(t))
			refused(t, what, err, fault.AccessDenied)
			w.discreet(t, what, err)
		}
	}},
	{"an ended plan is told apart from a bad credential", func(t testing.TB, w SendingWorld) {
		if w.Unpaid == nil {
			return
		}
		w.Unpaid(t)
		_, err := w.Platform.Accounts(call(t), "")
		var o *outcome.Error
		if refused(t, "accounts", err, fault.AccessDenied); !errors.As(err, &o) || o.Cause != "plan_inactive" {
			t.Fatalf("got %v, want plan_inactive", err)
		}
	}},
	{"workspaces are listed with their ids", func(t testing.TB, w SendingWorld) {
		if w.Reaching == nil {
			return
		}
		for _, n := range []int{0, 1, 3} {
			reach, err := w.Reaching(t, n).Check(call(t))
			if n == 0 && errors.Is(err, fault.AccessDenied) {
				continue // a credential that reaches nothing may be refused as such
			}
			must(t, "check", err)
			ids := map[string]bool{}
			for _, of := range reach.Workspaces {
				ids[of.ID] = true
			}
			if len(reach.Workspaces) != n || len(ids) != n || n > 1 && ids[""] {
				t.Fatalf("of %d workspaces: %+v", n, reach)
			}
		}
	}},
}

var sendingAccountChecks = []sendingCheck{
	{"an account is found by its address, whatever its case", func(t testing.TB, w SendingWorld) {
		w.Put(t, connectedAs("Anna.Schmidt@Case.example"))
		first := lookup(t, w, "anna.schmidt@case.example")
		if !first.There() || !sameLook(first, connectedAs("anna.schmidt@case.example")) {
			t.Fatalf("got %+v", first)
		}
		if again := lookup(t, w, "ANNA.SCHMIDT@CASE.EXAMPLE"); again != first {
			t.Fatalf("got %+v, then %+v", first, again)
		}
	}},
	{"an address that others resemble is not found", func(t testing.TB, w SendingWorld) {
		w.Put(t, connectedAs("joanna@look.example"), connectedAs("anna@look.example.org"), connectedAs("anna+1@look.example"))
		if a := lookup(t, w, "anna@look.example"); a.There() || a != (integration.Account{}) {
			t.Fatalf("got %+v", a)
		}
		w.Put(t, connectedAs("anna@look.example"))
		if a := lookup(t, w, "anna@look.example"); !integration.SameAddress(a.Address, "anna@look.example") {
			t.Fatalf("got %+v", a)
		}
	}},
	{"addresses with signs that mean something in URLs are found", func(t testing.TB, w SendingWorld) {
		const odd, neighbour = "a+b&c=d#e%40f@odd.example", "a b@odd.example"
		w.Put(t, connectedAs("a@odd.example"))
		for _, address := range []string{odd, neighbour, "../a@odd.example", "a@odd.example/"} {
			if a := lookup(t, w, address); a.There() {
				t.Fatalf("%s: got %+v", address, a)
			}
		}
		w.Put(t, connectedAs(odd))
		if a := lookup(t, w, odd); a.Address != odd {
			t.Fatalf("got %+v", a)
		}
	}},
	{"states are told as they are, alone and in the list", func(t testing.TB, w SendingWorld) {
		var want []integration.Account
		for i, look := range w.Looks {
			look.Address = fmt.Sprintf("look%d@state.example", i)
			look.Name = "Anna Schmidt"
			want = append(want, look)
		}
		w.Put(t, want...)
		listed := allAccounts(t, w)
		for _, a := range want {
			got := lookup(t, w, a.Address)
			if !got.There() || !sameLook(got, a) {
				t.Fatalf("got %+v, want %+v", got, a)
			}
			if !slices.ContainsFunc(listed, func(l integration.Account) bool { return l.ID == got.ID && sameLook(l, a) }) {
				t.Fatalf("%+v is listed otherwise: %+v", got, listed)
			}
		}
	}},
}

var sendingListChecks = []sendingCheck{
	{"no accounts are an empty list", func(t testing.TB, w SendingWorld) { listsAll(t, w, 0) }},
	{"one account is a list", func(t testing.TB, w SendingWorld) { listsAll(t, w, 1) }},
	{"as many accounts as a page takes are a list", func(t testing.TB, w SendingWorld) { listsAll(t, w, 100) }},
	{"250 accounts are listed once each", func(t testing.TB, w SendingWorld) { listsAll(t, w, 250) }},
	{"a listing that goes in a circle is broken", func(t testing.TB, w SendingWorld) {
		w.Put(t, several(250)...)
		w.Fail(t, Repeats)
		cursor := ""
		for range 20 {
			page, err := w.Platform.Accounts(call(t), cursor)
			if err != nil {
				ended(t, "accounts", err, outcome.Broken)
				return
			}
			if cursor = page.Next; cursor == "" {
				t.Fatal("a part of the accounts passes for all")
			}
		}
		t.Fatal("nobody notices")
	}},
}

// allAccounts follows the pages to their end.
func allAccounts(t testing.TB, w SendingWorld) []integration.Account {
	t.Helper()
	var all []integration.Account
	cursor := ""
	for range 100 {
		page, err := w.Platform.Accounts(call(t), cursor)
		must(t, "accounts", err)
		all = append(all, page.Accounts...)
		if cursor = page.Next; cursor == "" {
			return all
		}
	}
	t.Fatal("the listing does not end")
	return nil
}

func listsAll(t testing.TB, w SendingWorld, n int) {
	t.Helper()
	want := several(n)
	w.Put(t, want...)
	got, ids := map[string]bool{}, map[string]bool{}
	all := allAccounts(t, w)
	for _, a := range all {
		got[strings.ToLower(a.Address)], ids[a.ID] = true, true
		if !a.There() || a.State != integration.AccountConnected || a.HasError {
			t.Fatalf("got %+v", a)
		}
	}
	for _, a := range want {
		if !got[a.Address] {
			t.Fatalf("%s is missing", a.Address)
		}
	}
	if len(all) != n || len(ids) != n {
		t.Fatalf("%d accounts with %d ids, want %d", len(all), len(ids), n)
	}
}
