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

// mailboxSpec returns the specification of a mailbox that differs from others only in its address.
func mailboxSpec(address string) mailbox.Spec {
	return mailbox.Spec{DisplayName: "Anna Keller", Address: address}
}

func TestCreateMailboxReplacesATakenAlias(t *testing.T) {
	env := newTestEnv(t)
	tenantInfo, client := env.preparedTenant(t, nil)
	address := "anna@" + env.mailDomain(t, client)
	env.setBehaviour(t, tenantInfo.GUID, options{"alias_taken": true})
	created, err := client.CreateMailbox(t.Context(), mailboxSpec(address))
	if err != nil || created.Address != address || created.Alias == mailbox.Alias(address) || created.ObjectID == "" {
		t.Fatalf("got %+v, %v, want a mailbox with a different alias", created, err)
	}
}

func TestCreateMailboxRefusesAnAddressInUse(t *testing.T) {
	env := newTestEnv(t)
	tenantInfo, client := env.preparedTenant(t, nil)
	domainName := env.mailDomain(t, client)
	for label, takenError := range map[string]string{
		"names the address": `|Microsoft.WLCDManagedMemberExistsException|The proxy address "SMTP:anna@` + domainName + `" is already being used`,
		"names no address":  `|Microsoft.WLCDManagedMemberExistsException|The proxy address is already being used`,
	} {
		env.setBehaviour(t, tenantInfo.GUID, options{"cmdlets": options{"New-Mailbox": options{"errors": []string{takenError}}}})
		_, err := client.CreateMailbox(t.Context(), mailboxSpec("anna@"+domainName))
		if expectOutcome(t, err, outcome.Refused, fault.InvalidMailboxEmail); strings.Contains(err.Error(), domainName) {
			t.Errorf("%s: got the error %v, want one that does not name the domain of the customer", label, err)
		}
	}
	// The address of the administrator belongs to the mailbox of a user. Mailbox finds only shared
	// mailboxes, and CreateMailbox cannot use the address.
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
	domainName := env.mailDomain(t, client)
	for _, status := range []int{http.StatusBadRequest, http.StatusUnprocessableEntity} {
		env.injectFault(t, options{"operation": "New-Mailbox", "kind": "status", "status": status, "times": 1})
		_, err := client.CreateMailbox(t.Context(), mailboxSpec("anna@"+domainName))
		expectOutcome(t, err, outcome.Refused, fault.InvalidMailboxEmail)
	}
	if list, err := client.Mailboxes(t.Context()); err != nil || len(list) != 0 {
		t.Fatalf("the platform has %+v, %v, want no mailbox", list, err)
	}
}

func TestCreateMailboxFindsTheMailboxAfterAFailure(t *testing.T) {
	env := newTestEnv(t)
	tenantInfo, client := env.preparedTenant(t, nil)
	domainName := env.mailDomain(t, client)
	for address, failure := range map[string]options{
		"executed@":    {"kind": "status", "status": 504, "times": 1}, // the simulator executes the command before it answers 504
		"dropped@":     {"kind": "drop_after", "times": 1},
		"unavailable@": {"kind": "status", "status": 503, "times": 1},
		"throttled@":   {"kind": "status", "status": 429, "times": 1},
	} {
		failure["operation"] = "New-Mailbox"
		env.injectFault(t, failure)
		created, err := client.CreateMailbox(t.Context(), mailboxSpec(address+domainName))
		if err != nil || created.ObjectID == "" {
			t.Errorf("%s: %+v, %v, want a mailbox", address, created, err)
		}
	}
	env.setBehaviour(t, tenantInfo.GUID, options{"cmdlets": busyOnce("New-Mailbox")})
	if created, err := client.CreateMailbox(t.Context(), mailboxSpec("busy@"+domainName)); err != nil || created.ObjectID == "" {
		t.Errorf("Exchange busy once: %+v, %v, want a mailbox", created, err)
	}
	list, err := client.Mailboxes(t.Context())
	if err != nil || len(list) != 5 {
		t.Fatalf("the platform has %+v, %v, want five mailboxes", list, err)
	}
}

func TestCreateMailboxWithoutAnAnswerIsUnknown(t *testing.T) {
	env := newTestEnv(t)
	_, client := env.preparedTenant(t, nil)
	domainName := env.mailDomain(t, client)
	env.injectFault(t, options{"operation": "New-Mailbox", "kind": "drop_before", "times": 9})
	_, err := client.CreateMailbox(t.Context(), mailboxSpec("anna@"+domainName))
	expectOutcome(t, err, outcome.Unknown, fault.ProviderTimeout)
	env.injectFault(t, options{"operation": "Get-Mailbox", "kind": "status", "status": 500, "times": 9})
	_, err = client.CreateMailbox(t.Context(), mailboxSpec("anna@"+domainName))
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
	domainName := env.mailDomain(t, client)
	dehydratedError := "|Microsoft.InvalidOperationInDehydratedContextException|x"
	env.setBehaviour(t, tenantInfo.GUID, options{"cmdlets": options{
		"New-Mailbox": options{"errors": []string{dehydratedError}}, "New-DkimSigningConfig": options{"errors": []string{dehydratedError}},
		"Set-DkimSigningConfig": options{"errors": []string{dehydratedError}},
	}})
	_, err := client.CreateMailbox(t.Context(), mailboxSpec("anna@"+domainName))
	expectOutcome(t, err, outcome.NotReady, fault.Code{})
	_, err = client.EnsureSigning(t.Context(), domainName)
	expectOutcome(t, err, outcome.NotReady, fault.Code{})
	expectOutcome(t, client.EnableSigning(t.Context(), domainName), outcome.Refused, fault.DKIMNotReady)
}

func TestOpenSignInSetsTheAddressAsSignInName(t *testing.T) {
	env := newTestEnv(t)
	_, client := env.preparedTenant(t, options{"upn_alias": true})
	address := "anna@" + env.mailDomain(t, client)
	created, err := client.CreateMailbox(t.Context(), mailboxSpec(address))
	if err != nil || created.PrincipalName == address {
		t.Fatalf("the new mailbox is %+v, %v, want a sign-in name that is not the address", created, err)
	}
	if err := client.OpenSignIn(t.Context(), created.ObjectID, address, secret.New("Corr3ct-horse-battery")); err != nil {
		t.Fatal(err)
	}
	if created, err = client.Mailbox(t.Context(), address); err != nil || created.PrincipalName != address || !created.AccountEnabled {
		t.Fatalf("after OpenSignIn: %+v, %v, want an enabled account with the address as sign-in name", created, err)
	}
}

func TestMailboxesReadsAllPages(t *testing.T) {
	env := newTestEnv(t)
	beforeCreation := env.Now(t)
	tenantInfo, client := env.preparedTenant(t, nil)
	domainName := env.mailDomain(t, client)
	for _, local := range []string{"a", "b", "c"} {
		if _, err := client.CreateMailbox(t.Context(), mailboxSpec(local+"@"+domainName)); err != nil {
			t.Fatal(err)
		}
	}
	env.setBehaviour(t, tenantInfo.GUID, options{"page_size": 1})
	list, err := client.Mailboxes(t.Context())
	if err != nil || len(list) != 3 || list[0].CreatedAt.Before(beforeCreation.Truncate(time.Second)) {
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
	domainName := env.mailDomain(t, client)
	if signing, err := client.Signing(t.Context(), domainName); err != nil || signing != (dns.Signing{}) {
		t.Fatalf("Signing before the keys exist: %+v, %v, want no records", signing, err)
	}
	signing, err := client.EnsureSigning(t.Context(), domainName)
	if err != nil || signing.Enabled || signing.Selector1.Content == "" || signing.Selector1.Content == signing.Selector2.Content {
		t.Fatalf("EnsureSigning: %+v, %v, want two records with different contents, and signing not enabled", signing, err)
	}
	if n := env.calls(t)["New-DkimSigningConfig"]; n != 0 {
		t.Fatalf("New-DkimSigningConfig was sent %d times, want never, because the configuration exists", n)
	}
	env.setBehaviour(t, tenantInfo.GUID, options{"cmdlets": options{"Set-DkimSigningConfig": options{"errors": []string{"|X.ValidationException|anything"}}}})
	expectOutcome(t, client.EnableSigning(t.Context(), domainName), outcome.Refused, fault.DKIMNotReady)
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
			t.Fatalf("the first object name is %q, want the address %q, which fits", objectName(address, 0), address)
		}
	})
}
