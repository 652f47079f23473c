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

func mailboxSpec(address string) mailbox.Spec {
	return mailbox.Spec{DisplayName: "Anna Keller", Address: address}
}

func TestCreateMailboxReplacesATakenAlias(t *testing.T) {
	env := newTestEnv(t)
	tenantInfo, client := env.preparedTenant(t, nil)
	address := "anna@" + env.mailDomain(t, client)
	env.setBehaviour(t, tenantInfo.GUID, options{"alias_taken": true})
	box, err := client.CreateMailbox(t.Context(), mailboxSpec(address))
	if err != nil || box.Address != address || box.Alias == mailbox.Alias(address) || box.ObjectID == "" {
		t.Fatalf("got %+v, %v, want a mailbox with a different alias", box, err)
	}
}

func TestCreateMailboxRefusesAnAddressInUse(t *testing.T) {
	env := newTestEnv(t)
	tenantInfo, client := env.preparedTenant(t, nil)
	name := env.mailDomain(t, client)
	for label, text := range map[string]string{
		"names the address": `|Microsoft.WLCDManagedMemberExistsException|The proxy address "SMTP:anna@` + name + `" is already being used`,
		"names no address":  `|Microsoft.WLCDManagedMemberExistsException|The proxy address is already being used`,
	} {
		env.setBehaviour(t, tenantInfo.GUID, options{"cmdlets": options{"New-Mailbox": options{"errors": []string{text}}}})
		_, err := client.CreateMailbox(t.Context(), mailboxSpec("anna@"+name))
		if expectOutcome(t, err, outcome.Refused, fault.InvalidMailboxEmail); strings.Contains(err.Error(), name) {
			t.Errorf("%s: the error names the customer: %v", label, err)
		}
	}
	// The lookup finds the mailbox of a user, which is not a shared mailbox.
	_, err := client.Mailbox(t.Context(), tenantInfo.Admin)
	expectOutcome(t, err, outcome.Refused, fault.MailboxNotFound)
	_, err = client.CreateMailbox(t.Context(), mailboxSpec(tenantInfo.Admin))
	expectOutcome(t, err, outcome.Refused, fault.InvalidMailboxEmail)
}

// TestCreateMailboxDoesNotRepeatARefusedCreation checks that a definite refusal is returned at once
// and leaves no mailbox.
func TestCreateMailboxDoesNotRepeatARefusedCreation(t *testing.T) {
	env := newTestEnv(t)
	_, client := env.preparedTenant(t, nil)
	name := env.mailDomain(t, client)
	for _, status := range []int{http.StatusBadRequest, http.StatusUnprocessableEntity} {
		env.injectFault(t, options{"operation": "New-Mailbox", "kind": "status", "status": status, "times": 1})
		_, err := client.CreateMailbox(t.Context(), mailboxSpec("anna@"+name))
		expectOutcome(t, err, outcome.Refused, fault.InvalidMailboxEmail)
	}
	if list, err := client.Mailboxes(t.Context()); err != nil || len(list) != 0 {
		t.Fatalf("the platform has %+v, %v, want no mailbox", list, err)
	}
}

func TestCreateMailboxFindsTheMailboxAfterAFailure(t *testing.T) {
	env := newTestEnv(t)
	tenantInfo, client := env.preparedTenant(t, nil)
	name := env.mailDomain(t, client)
	for address, f := range map[string]options{
		"executed@":    {"kind": "status", "status": 504, "times": 1}, // the simulator executes the command before it answers 504
		"dropped@":     {"kind": "drop_after", "times": 1},
		"unavailable@": {"kind": "status", "status": 503, "times": 1},
		"throttled@":   {"kind": "status", "status": 429, "times": 1},
	} {
		f["operation"] = "New-Mailbox"
		env.injectFault(t, f)
		box, err := client.CreateMailbox(t.Context(), mailboxSpec(address+name))
		if err != nil || box.ObjectID == "" {
			t.Errorf("%s: %+v, %v, want a mailbox", address, box, err)
		}
	}
	env.setBehaviour(t, tenantInfo.GUID, options{"cmdlets": busyOnce("New-Mailbox")})
	if box, err := client.CreateMailbox(t.Context(), mailboxSpec("busy@"+name)); err != nil || box.ObjectID == "" {
		t.Errorf("Exchange busy once: %+v, %v, want a mailbox", box, err)
	}
	list, err := client.Mailboxes(t.Context())
	if err != nil || len(list) != 5 {
		t.Fatalf("the platform has %+v, %v, want five mailboxes", list, err)
	}
}

func TestCreateMailboxWithoutAnAnswerIsUnknown(t *testing.T) {
	env := newTestEnv(t)
	_, client := env.preparedTenant(t, nil)
	name := env.mailDomain(t, client)
	env.injectFault(t, options{"operation": "New-Mailbox", "kind": "drop_before", "times": 9})
	_, err := client.CreateMailbox(t.Context(), mailboxSpec("anna@"+name))
	expectOutcome(t, err, outcome.Unknown, fault.ProviderTimeout)
	env.injectFault(t, options{"operation": "Get-Mailbox", "kind": "status", "status": 500, "times": 9})
	_, err = client.CreateMailbox(t.Context(), mailboxSpec("anna@"+name))
	expectOutcome(t, err, outcome.Unknown, fault.ProviderTimeout)
}

// TestCreateMailboxIsUnknownWhenTheAddressIsTakenAfterA503 checks that a creation which Exchange
// may have executed is not reported as refused.
func TestCreateMailboxIsUnknownWhenTheAddressIsTakenAfterA503(t *testing.T) {
	env := newTestEnv(t)
	tenantInfo, client := env.preparedTenant(t, nil)
	address := "anna@" + env.mailDomain(t, client)
	takenError := `|Microsoft.WLCDManagedMemberExistsException|The proxy address "SMTP:` + address + `" is already being used`
	env.setBehaviour(t, tenantInfo.GUID, options{"cmdlets": options{"New-Mailbox": options{"errors": []string{takenError}}}})
	env.injectFault(t, options{"operation": "New-Mailbox", "kind": "status", "status": 503, "times": 1})
	_, err := client.CreateMailbox(t.Context(), mailboxSpec(address))
	expectOutcome(t, err, outcome.Unknown, fault.ProviderTimeout)
}

// TestCreateMailboxIsNotRepeatedWithoutALookup checks that New-Mailbox is sent once when the lookup
// after a 503 fails.
func TestCreateMailboxIsNotRepeatedWithoutALookup(t *testing.T) {
	env := newTestEnv(t)
	_, client := env.preparedTenant(t, nil)
	address := "anna@" + env.mailDomain(t, client)
	env.injectFault(t, options{"operation": "New-Mailbox", "kind": "status", "status": 503, "times": 9})
	env.injectFault(t, options{"operation": "Get-Mailbox", "kind": "status", "status": 500, "times": 9})
	_, err := client.CreateMailbox(t.Context(), mailboxSpec(address))
	expectOutcome(t, err, outcome.Down, fault.ProviderUnavailable)
	if n := env.calls(t)["New-Mailbox"]; n != 1 {
		t.Fatalf("New-Mailbox was sent %d times, want once", n)
	}
}

func TestADehydratedTenantIsNotReady(t *testing.T) {
	env := newTestEnv(t)
	tenantInfo, client := env.preparedTenant(t, nil)
	name := env.mailDomain(t, client)
	text := "|Microsoft.InvalidOperationInDehydratedContextException|x"
	env.setBehaviour(t, tenantInfo.GUID, options{"cmdlets": options{
		"New-Mailbox": options{"errors": []string{text}}, "New-DkimSigningConfig": options{"errors": []string{text}},
		"Set-DkimSigningConfig": options{"errors": []string{text}},
	}})
	_, err := client.CreateMailbox(t.Context(), mailboxSpec("anna@"+name))
	expectOutcome(t, err, outcome.NotReady, fault.Code{})
	_, err = client.EnsureSigning(t.Context(), name)
	expectOutcome(t, err, outcome.NotReady, fault.Code{})
	expectOutcome(t, client.EnableSigning(t.Context(), name), outcome.Refused, fault.DKIMNotReady)
}

func TestOpenSignInSetsTheAddressAsSignInName(t *testing.T) {
	env := newTestEnv(t)
	_, client := env.preparedTenant(t, options{"upn_alias": true})
	address := "anna@" + env.mailDomain(t, client)
	box, err := client.CreateMailbox(t.Context(), mailboxSpec(address))
	if err != nil || box.PrincipalName == address {
		t.Fatalf("the new mailbox is %+v, %v, want a sign-in name that is not the address", box, err)
	}
	if err := client.OpenSignIn(t.Context(), box.ObjectID, address, secret.New("Corr3ct-horse-battery")); err != nil {
		t.Fatal(err)
	}
	if box, err = client.Mailbox(t.Context(), address); err != nil || box.PrincipalName != address || !box.AccountEnabled {
		t.Fatalf("after OpenSignIn: %+v, %v, want an enabled account with the address as sign-in name", box, err)
	}
}

func TestMailboxesReadsAllPages(t *testing.T) {
	env := newTestEnv(t)
	began := env.Now(t)
	tenantInfo, client := env.preparedTenant(t, nil)
	name := env.mailDomain(t, client)
	for _, local := range []string{"a", "b", "c"} {
		if _, err := client.CreateMailbox(t.Context(), mailboxSpec(local+"@"+name)); err != nil {
			t.Fatal(err)
		}
	}
	env.setBehaviour(t, tenantInfo.GUID, options{"page_size": 1})
	list, err := client.Mailboxes(t.Context())
	if err != nil || len(list) != 3 || list[0].CreatedAt.Before(began.Truncate(time.Second)) {
		t.Fatalf("got %+v, %v, want three new mailboxes", list, err)
	}
	if n, err := client.UserMailboxes(t.Context()); err != nil || n != 1 {
		t.Fatalf("UserMailboxes counts %d, %v, want 1", n, err)
	}
	env.setBehaviour(t, tenantInfo.GUID, options{"next_link": "expired"})
	_, err = client.Mailboxes(t.Context())
	expectOutcome(t, err, outcome.Refused, fault.ProviderError)
}

func TestEnsureSigningCreatesMissingKeys(t *testing.T) {
	env := newTestEnv(t)
	tenantInfo, client := env.preparedTenant(t, options{"dkim_listed": true})
	name := env.mailDomain(t, client)
	if s, err := client.Signing(t.Context(), name); err != nil || s != (dns.Signing{}) {
		t.Fatalf("Signing before the keys exist: %+v, %v, want none", s, err)
	}
	s, err := client.EnsureSigning(t.Context(), name)
	if err != nil || s.Enabled || s.Selector1.Content == "" || s.Selector1.Content == s.Selector2.Content {
		t.Fatalf("EnsureSigning: %+v, %v, want two different targets, not enabled", s, err)
	}
	if n := env.calls(t)["New-DkimSigningConfig"]; n != 0 {
		t.Fatalf("an existing configuration was created again %d times", n)
	}
	env.setBehaviour(t, tenantInfo.GUID, options{"cmdlets": options{"Set-DkimSigningConfig": options{"errors": []string{"|X.ValidationException|anything"}}}})
	expectOutcome(t, client.EnableSigning(t.Context(), name), outcome.Refused, fault.DKIMNotReady)
}

func TestObjectNamesAndAliasesFitAndAreUnique(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		address := rapid.StringMatching(`[a-z0-9.]{1,64}@[a-z0-9-]{1,30}\.test`).Draw(t, "address")
		used := map[string]bool{}
		for n := range maxAliases {
			name, alias := objectName(address, n), mailboxAlias(address, n)
			if len(name) > 64 || len(alias) > 64 || used[name] || used["alias "+alias] {
				t.Fatalf("attempt %d: the name %q or the alias %q is too long or was used before", n, name, alias)
			}
			used[name], used["alias "+alias] = true, true
		}
		if len(address) <= 64 && objectName(address, 0) != address {
			t.Fatal("the first name must be the address if the address fits")
		}
	})
}
