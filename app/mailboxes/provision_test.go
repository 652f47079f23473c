// SPDX-License-Identifier: Apache-2.0

package mailboxes

import (
	"slices"
	"testing"

	"github.com/tenantry/tenantry/core/access"
	"github.com/tenantry/tenantry/core/domain"
	"github.com/tenantry/tenantry/core/fault"
	"github.com/tenantry/tenantry/core/mailbox"
	"github.com/tenantry/tenantry/core/secret"
	"github.com/tenantry/tenantry/core/tenant"
)

func TestProvisionCreatesAndFindsMailboxes(t *testing.T) {
	fx := newFixture(t)
	got, err := fx.provision(t.Context(), "Anna@Example.TEST", "ben@example.test")
	must(t, err)
	if !slices.Equal(statuses(got), []string{"created", "created"}) {
		t.Fatalf("got %v, want two created mailboxes", statuses(got))
	}
	if m := got[0].Mailbox; m.Address != "anna@example.test" || m.PrincipalName != m.Address || m.Alias == "" || m.DisplayName != "Anna Keller" {
		t.Fatalf("the result is %+v, want the mailbox of Anna Keller with the address in lower case", m)
	}
	fx.requireComplete(t, 2)
	got, err = fx.provision(t.Context(), "carl@example.test", "anna@example.test", "ben@example.test")
	must(t, err)
	if !slices.Equal(statuses(got), []string{"created", "exists", "exists"}) {
		t.Fatalf("got %v, want one created and two existing mailboxes", statuses(got))
	}
	fx.requireComplete(t, 3)
	signIns := fx.fake.Calls("OpenSignIn")
	got, err = fx.provision(t.Context(), "carl@example.test", "anna@example.test", "ben@example.test")
	must(t, err)
	if !slices.Equal(statuses(got), []string{"exists", "exists", "exists"}) || fx.fake.Calls("OpenSignIn") != signIns {
		t.Fatalf("got %v and %d more passwords, want three existing mailboxes and no password", statuses(got), fx.fake.Calls("OpenSignIn")-signIns)
	}
}

func TestProvisionRecordsExistingMailboxes(t *testing.T) {
	fx := newFixture(t)
	_, err := fx.fake.For(guid).CreateMailbox(t.Context(), mailbox.Spec{DisplayName: "Old", Address: "old@example.test"})
	must(t, err)
	got, err := fx.provision(t.Context(), "old@example.test")
	must(t, err)
	if got[0].Status != "exists" || got[0].Mailbox.DisplayName != "Old" {
		t.Fatalf("got %+v, want the existing mailbox", got[0])
	}
	if atPlatform := fx.fake.SnapshotOf(guid).Mailboxes[0]; atPlatform.PasswordSet || atPlatform.AccountEnabled {
		t.Fatalf("a mailbox that tenantry did not create was changed: %+v", atPlatform)
	}
	if stored := fx.storedMailboxes(t); len(stored) != 1 || stored[0].Provisioned || stored[0].Stage != mailbox.Ready {
		t.Fatalf("stored are %+v, want one ready mailbox that was not provisioned", stored)
	}
}

func TestProvisionRefusesInvalidRequests(t *testing.T) {
	unverifyDomain := func(t *testing.T, fx *fixture) {
		fx.changeDomain(t, zone, func(d *domain.Domain) { d.Verified = false })
	}
	resetBootstrap := func(t *testing.T, fx *fixture) {
		fx.changeTenant(t, func(stored *tenant.Tenant) { stored.Bootstrap = tenant.BootstrapPending })
	}
	disableSMTPAuth := func(t *testing.T, fx *fixture) {
		fx.changeTenant(t, func(stored *tenant.Tenant) { stored.SMTPAuth = tenant.SMTPAuthDisabled })
	}
	revokeConsent := func(t *testing.T, fx *fixture) {
		fx.changeTenant(t, func(stored *tenant.Tenant) { stored.Consent = tenant.ConsentRevoked })
	}
	downgradePlan := func(_ *testing.T, fx *fixture) { fx.account.Plan.TenantSlots = 0 }
	fillDomain := func(t *testing.T, fx *fixture) {
		_, err := fx.provision(t.Context(), "a@example.test", "b@example.test", "c@example.test")
		must(t, err)
	}
	for _, tc := range []struct {
		name    string
		arrange []func(*testing.T, *fixture)
		change  func(*Request)
		want    fault.Code
	}{
		{"an empty name", nil, func(r *Request) { r.Mailboxes[0].DisplayName = " " }, fault.InvalidRequest},
		{"an unknown domain", nil, func(r *Request) { r.Domain = "other.test" }, fault.DomainNotFound},
		{"an empty domain name", nil, func(r *Request) { r.Domain = "" }, fault.DomainNotFound},
		{"an address of a different domain", nil, func(r *Request) { r.Mailboxes[0].Address = "a@other.test" }, fault.InvalidMailboxEmail},
		{"an invalid local part", nil, func(r *Request) { r.Mailboxes[0].Address = "a b@example.test" }, fault.InvalidMailboxEmail},
		{"an address twice", nil, func(r *Request) {
			r.Mailboxes = append(r.Mailboxes, mailbox.Spec{DisplayName: "Anna", Address: "NEW@example.test"})
		}, fault.DuplicateMailboxEmail},
		{"a weak password", nil, func(r *Request) { r.Password = secret.New("simple") }, fault.WeakPassword},
		{"an unverified domain", []func(*testing.T, *fixture){unverifyDomain}, nil, fault.DomainNotVerified},
		{"a full domain", []func(*testing.T, *fixture){fillDomain}, nil, fault.MailboxLimitReached},
		{"more mailboxes than a domain may have", nil, func(r *Request) {
			for _, localPart := range []string{"b", "c", "d"} {
				r.Mailboxes = append(r.Mailboxes, mailbox.Spec{DisplayName: "Anna", Address: localPart + "@example.test"})
			}
		}, fault.MailboxLimitReached},
		{"more tenants than the plan allows", []func(*testing.T, *fixture){downgradePlan}, nil, fault.TenantLimitReached},
		{"a tenant that is not ready", []func(*testing.T, *fixture){resetBootstrap}, nil, fault.ExchangeNotReady},
		{"SMTP AUTH is disabled", []func(*testing.T, *fixture){disableSMTPAuth}, nil, fault.SMTPAuthNotEnabled},
		// The next cases check the order of refusals when several refusals apply.
		{"the names are checked before the domain", nil, func(r *Request) { r.Domain, r.Mailboxes[0].DisplayName = "other.test", " " }, fault.InvalidRequest},
		{"the domain is checked before the password", nil, func(r *Request) { r.Domain, r.Password = "other.test", secret.New("x") }, fault.DomainNotFound},
		{"the consent is revoked", []func(*testing.T, *fixture){revokeConsent}, nil, fault.AccessDenied},
		{"the consent is checked before the state of domain and tenant", []func(*testing.T, *fixture){revokeConsent, unverifyDomain, downgradePlan, resetBootstrap}, nil, fault.AccessDenied},
		{"the consent is checked before the limit of the domain", []func(*testing.T, *fixture){fillDomain, revokeConsent}, nil, fault.AccessDenied},
		{"the password is checked before the consent", []func(*testing.T, *fixture){revokeConsent}, func(r *Request) { r.Password = secret.New("x") }, fault.WeakPassword},
		{"the domain is checked before the consent", []func(*testing.T, *fixture){revokeConsent}, func(r *Request) { r.Domain = "other.test" }, fault.DomainNotFound},
		{"the verification is checked before the limit of the plan", []func(*testing.T, *fixture){unverifyDomain, downgradePlan}, nil, fault.DomainNotVerified},
		{"the limit of the domain is checked before the limit of the plan", []func(*testing.T, *fixture){fillDomain, downgradePlan}, nil, fault.MailboxLimitReached},
		{"the limit of the plan is checked before the bootstrap", []func(*testing.T, *fixture){downgradePlan, resetBootstrap}, nil, fault.TenantLimitReached},
		{"the bootstrap is checked before SMTP AUTH", []func(*testing.T, *fixture){disableSMTPAuth, resetBootstrap}, nil, fault.ExchangeNotReady},
	} {
		t.Run(tc.name, func(t *testing.T) {
			fx := newFixture(t)
			for _, arrange := range tc.arrange {
				arrange(t, fx)
			}
			creations := fx.fake.Effects("CreateMailbox")
			request := newRequest("new@example.test")
			if tc.change != nil {
				tc.change(&request)
			}
			_, err := fx.Provision(t.Context(), fx.account, guid, request, nil)
			requireRefusal(t, err, tc.want)
			if fx.fake.Effects("CreateMailbox") != creations {
				t.Fatal("a mailbox was created although the request was refused")
			}
		})
	}
}

func TestTenantsOfOtherAccountsAreNotFound(t *testing.T) {
	fx := newFixture(t)
	foreignAccount, err := fx.store.CreateAccount(t.Context(), "other@example.com", "complete", 0, fx.Now())
	must(t, err)
	for name, id := range map[string]tenant.GUID{"a tenant of a different account": guid, "an unknown tenant": tenant.NoGUID} {
		t.Run(name, func(t *testing.T) {
			_, err := fx.Provision(t.Context(), foreignAccount, id, newRequest("anna@example.test"), nil)
			requireRefusal(t, err, fault.TenantNotFound)
		})
	}
	_, err = fx.Usage(t.Context(), foreignAccount.ID, guid, "x")
	requireRefusal(t, err, fault.TenantNotFound)
	_, err = fx.List(t.Context(), access.AccountID(tenant.NoGUID), guid)
	requireRefusal(t, err, fault.TenantNotFound)
}

func TestProvisionNeedsNoSMTPAuthIfTheOperatorDoesNotRequireIt(t *testing.T) {
	fx := newFixture(t)
	fx.RequireSMTPAuth = false
	fx.changeTenant(t, func(stored *tenant.Tenant) { stored.SMTPAuth = tenant.SMTPAuthRefused })
	got, err := fx.provision(t.Context(), "anna@example.test")
	must(t, err)
	if got[0].Status != "created" || fx.fake.Calls("OpenSubmission") != 0 {
		t.Fatalf("got %v after %d calls of OpenSubmission, want a created mailbox after none", statuses(got), fx.fake.Calls("OpenSubmission"))
	}
}
