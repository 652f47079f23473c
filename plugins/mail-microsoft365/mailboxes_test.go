// SPDX-License-Identifier: Apache-2.0

package main

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/tenantry/tenantry/core/dns"
	"github.com/tenantry/tenantry/core/fault"
	"github.com/tenantry/tenantry/core/mailbox"
	"github.com/tenantry/tenantry/core/outcome"
	"github.com/tenantry/tenantry/core/secret"
)

func spec(address string) mailbox.Spec {
	return mailbox.Spec{DisplayName: "Anna Keller", Address: address}
}

func TestATakenAliasIsReplaced(t *testing.T) {
	w := newWorld(t)
	who, c := w.prepared(t, nil)
	address := "anna@" + w.mailDomain(t, c)
	w.behave(t, who.GUID, knobs{"alias_taken": true})
	m, err := c.CreateMailbox(t.Context(), spec(address))
	if err != nil || m.Address != address || m.Alias == mailbox.Alias(address) || m.ObjectID == "" {
		t.Fatalf("got %+v, %v", m, err)
	}
}

func TestAnAddressThatAnotherObjectHolds(t *testing.T) {
	w := newWorld(t)
	who, c := w.prepared(t, nil)
	name := w.mailDomain(t, c)
	for what, text := range map[string]string{
		"the address": `|Microsoft.WLCDManagedMemberExistsException|The proxy address "SMTP:anna@` + name + `" is already being used`,
		"no address":  `|Microsoft.WLCDManagedMemberExistsException|The proxy address is already being used`,
	} {
		w.behave(t, who.GUID, knobs{"cmdlets": knobs{"New-Mailbox": knobs{"errors": []string{text}}}})
		_, err := c.CreateMailbox(t.Context(), spec("anna@"+name))
		if ends(t, err, outcome.Refused, fault.InvalidMailboxEmail); strings.Contains(err.Error(), name) {
			t.Errorf("%s: the error names the customer: %v", what, err)
		}
	}
	// A user's mailbox is found by the look; it is not shared.
	_, err := c.Mailbox(t.Context(), who.Admin)
	ends(t, err, outcome.Refused, fault.MailboxNotFound)
	_, err = c.CreateMailbox(t.Context(), spec(who.Admin))
	ends(t, err, outcome.Refused, fault.InvalidMailboxEmail)
}

// TestARefusedCreation: a definite refusal is not asked again and leaves nothing
// in doubt.
func TestARefusedCreation(t *testing.T) {
	w := newWorld(t)
	_, c := w.prepared(t, nil)
	name := w.mailDomain(t, c)
	for _, status := range []int{http.StatusBadRequest, http.StatusUnprocessableEntity} {
		w.fault(t, knobs{"operation": "New-Mailbox", "kind": "status", "status": status, "times": 1})
		_, err := c.CreateMailbox(t.Context(), spec("anna@"+name))
		ends(t, err, outcome.Refused, fault.InvalidMailboxEmail)
	}
	if list, err := c.Mailboxes(t.Context()); err != nil || len(list) != 0 {
		t.Fatalf("the platform holds %+v, %v", list, err)
	}
}

func TestACreationIsLookedUp(t *testing.T) {
	w := newWorld(t)
	who, c := w.prepared(t, nil)
	name := w.mailDomain(t, c)
	for address, f := range map[string]knobs{
		"executed@":    {"kind": "status", "status": 504, "times": 1}, // a 504 has done the work
		"dropped@":     {"kind": "drop_after", "times": 1},
		"unavailable@": {"kind": "status", "status": 503, "times": 1},
		"throttled@":   {"kind": "status", "status": 429, "times": 1},
	} {
		f["operation"] = "New-Mailbox"
		w.fault(t, f)
		m, err := c.CreateMailbox(t.Context(), spec(address+name))
		if err != nil || m.ObjectID == "" {
			t.Errorf("%s: %+v, %v", address, m, err)
		}
	}
	w.behave(t, who.GUID, knobs{"cmdlets": busyOnce("New-Mailbox")})
	if m, err := c.CreateMailbox(t.Context(), spec("busy@"+name)); err != nil || m.ObjectID == "" {
		t.Errorf("busy: %+v, %v", m, err)
	}
	list, err := c.Mailboxes(t.Context())
	if err != nil || len(list) != 5 {
		t.Fatalf("the platform holds %+v, %v", list, err)
	}
}

func TestACreationWithoutAnAnswerStaysOpen(t *testing.T) {
	w := newWorld(t)
	_, c := w.prepared(t, nil)
	name := w.mailDomain(t, c)
	w.fault(t, knobs{"operation": "New-Mailbox", "kind": "drop_before", "times": 9})
	_, err := c.CreateMailbox(t.Context(), spec("anna@"+name))
	ends(t, err, outcome.Unknown, fault.ProviderTimeout)
	w.fault(t, knobs{"operation": "Get-Mailbox", "kind": "status", "status": 500, "times": 9})
	_, err = c.CreateMailbox(t.Context(), spec("anna@"+name))
	ends(t, err, outcome.Unknown, fault.ProviderTimeout)
}

func TestADehydratedTenantIsNotReady(t *testing.T) {
	w := newWorld(t)
	who, c := w.prepared(t, nil)
	name := w.mailDomain(t, c)
	text := "|Microsoft.InvalidOperationInDehydratedContextException|x"
	w.behave(t, who.GUID, knobs{"cmdlets": knobs{
		"New-Mailbox": knobs{"errors": []string{text}}, "New-DkimSigningConfig": knobs{"errors": []string{text}},
		"Set-DkimSigningConfig": knobs{"errors": []string{text}},
	}})
	_, err := c.CreateMailbox(t.Context(), spec("anna@"+name))
	ends(t, err, outcome.NotReady, fault.Code{})
	_, err = c.EnsureSigning(t.Context(), name)
	ends(t, err, outcome.NotReady, fault.Code{})
	ends(t, c.EnableSigning(t.Context(), name), outcome.Refused, fault.DKIMNotReady)
}

func TestSignInByTheAddressWhereThePlatformChoseAnother(t *testing.T) {
	w := newWorld(t)
	_, c := w.prepared(t, knobs{"upn_alias": true})
	address := "anna@" + w.mailDomain(t, c)
	m, err := c.CreateMailbox(t.Context(), spec(address))
	if err != nil || m.PrincipalName == address {
		t.Fatalf("got %+v, %v", m, err)
	}
	if err := c.OpenSignIn(t.Context(), m.ObjectID, address, secret.New("Corr3ct-horse-battery")); err != nil {
		t.Fatal(err)
	}
	if m, err = c.Mailbox(t.Context(), address); err != nil || m.PrincipalName != address || !m.AccountEnabled {
		t.Fatalf("got %+v, %v", m, err)
	}
}

func TestListsOfSeveralPages(t *testing.T) {
	w := newWorld(t)
	began := w.Now(t)
	who, c := w.prepared(t, nil)
	name := w.mailDomain(t, c)
	for _, local := range []string{"a", "b", "c"} {
		if _, err := c.CreateMailbox(t.Context(), spec(local+"@"+name)); err != nil {
			t.Fatal(err)
		}
	}
	w.behave(t, who.GUID, knobs{"page_size": 1})
	list, err := c.Mailboxes(t.Context())
	if err != nil || len(list) != 3 || list[0].CreatedAt.Before(began.Truncate(time.Second)) {
		t.Fatalf("got %+v, %v", list, err)
	}
	if n, err := c.UserMailboxes(t.Context()); err != nil || n != 1 {
		t.Fatalf("counted %d, %v", n, err)
	}
	w.behave(t, who.GUID, knobs{"next_link": "expired"})
	_, err = c.Mailboxes(t.Context())
	ends(t, err, outcome.Refused, fault.ProviderError)
}

func TestSigningWithoutKeys(t *testing.T) {
	w := newWorld(t)
	who, c := w.prepared(t, knobs{"dkim_listed": true})
	name := w.mailDomain(t, c)
	if s, err := c.Signing(t.Context(), name); err != nil || s != (dns.Signing{}) {
		t.Fatalf("before: %+v, %v", s, err)
	}
	s, err := c.EnsureSigning(t.Context(), name)
	if err != nil || s.Enabled || s.Selector1.Content == "" || s.Selector1.Content == s.Selector2.Content {
		t.Fatalf("made: %+v, %v", s, err)
	}
	if n := w.calls(t)["New-DkimSigningConfig"]; n != 0 {
		t.Fatalf("a configuration that exists was made %d times", n)
	}
	w.behave(t, who.GUID, knobs{"cmdlets": knobs{"Set-DkimSigningConfig": knobs{"errors": []string{"|X.ValidationException|anything"}}}})
	ends(t, c.EnableSigning(t.Context(), name), outcome.Refused, fault.DKIMNotReady)
}

func TestNamesFitAndDiffer(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		address := rapid.StringMatching(`[a-z0-9.]{1,64}@[a-z0-9-]{1,30}\.test`).Draw(t, "address")
		seen := map[string]bool{}
		for n := range aliases {
			name, alias := objectName(address, n), aliasOf(address, n)
			if len(name) > 64 || len(alias) > 64 || seen[name] || seen["alias "+alias] {
				t.Fatalf("%d: %q, %q", n, name, alias)
			}
			seen[name], seen["alias "+alias] = true, true
		}
		if len(address) <= 64 && objectName(address, 0) != address {
			t.Fatal("the first name is the address where it fits")
		}
	})
}
