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

func TestProvisionMakesAndFinds(t *testing.T) {
	fx := newFixture(t)
	got, err := fx.provision(t.Context(), "Anna@Example.TEST", "ben@example.test")
	must(t, err)
	if !slices.Equal(statuses(got), []string{"created", "created"}) {
		t.Fatalf("got %v", statuses(got))
	}
	if m := got[0].Mailbox; m.Address != "anna@example.test" || m.PrincipalName != m.Address || m.Alias == "" || m.DisplayName != "Anna Keller" {
		t.Fatalf("the result is %+v", m)
	}
	fx.requireComplete(t, 2)
	got, err = fx.provision(t.Context(), "carl@example.test", "anna@example.test", "ben@example.test")
	must(t, err)
	if !slices.Equal(statuses(got), []string{"created", "exists", "exists"}) {
		t.Fatalf("got %v", statuses(got))
	}
	fx.requireComplete(t, 3)
	signIns := fx.fake.Calls("OpenSignIn")
	got, err = fx.provision(t.Context(), "carl@example.test", "anna@example.test", "ben@example.test")
	must(t, err)
	if !slices.Equal(statuses(got), []string{"exists", "exists", "exists"}) || fx.fake.Calls("OpenSignIn") != signIns {
		t.Fatalf("three existing addresses at the limit: got %v", statuses(got))
	}
}

func TestProvisionRecordsExistingMailboxes(t *testing.T) {
	fx := newFixture(t)
	_, err := fx.fake.For(guid).CreateMailbox(t.Context(), mailbox.Spec{DisplayName: "Old", Address: "old@example.test"})
	must(t, err)
	got, err := fx.provision(t.Context(), "old@example.test")
	must(t, err)
	if got[0].Status != "exists" || got[0].Mailbox.DisplayName != "Old" {
		t.Fatalf("got %+v", got[0])
	}
	if held := fx.fake.SnapshotOf(guid).Mailboxes[0]; held.PasswordSet || held.AccountEnabled {
		t.Fatalf("a mailbox that tenantry did not create was changed: %+v", held)
	}
	if s := fx.stored(t); len(s) != 1 || s[0].Provisioned || s[0].Stage != mailbox.Ready {
		t.Fatalf("stored %+v", s)
	}
}

func TestProvisionRefusesInvalidRequests(t *testing.T) {
	unverified := func(t *testing.T, fx *fixture) {
		fx.changeDomain(t, zone, func(d *domain.Domain) { d.Verified = false })
	}
	notReady := func(t *testing.T, fx *fixture) {
		fx.changeTenant(t, func(x *tenant.Tenant) { x.Bootstrap = tenant.BootstrapPending })
	}
	smtpOff := func(t *testing.T, fx *fixture) {
		fx.changeTenant(t, func(x *tenant.Tenant) { x.SMTPAuth = tenant.SMTPAuthDisabled })
	}
	revoked := func(t *testing.T, fx *fixture) {
		fx.changeTenant(t, func(x *tenant.Tenant) { x.Consent = tenant.ConsentRevoked })
	}
	downgraded := func(_ *testing.T, fx *fixture) { fx.acc.Plan.TenantSlots = 0 }
	full := func(t *testing.T, fx *fixture) {
		_, err := fx.provision(t.Context(), "a@example.test", "b@example.test", "c@example.test")
		must(t, err)
	}
	for _, tt := range []struct {
		name    string
		arrange []func(*testing.T, *fixture)
		change  func(*Request)
		want    fault.Code
	}{
		{"no mailbox named", nil, func(r *Request) { r.Mailboxes = nil }, fault.InvalidRequest},
		{"an empty name", nil, func(r *Request) { r.Mailboxes[0].DisplayName = " " }, fault.InvalidRequest},
		{"an unknown domain", nil, func(r *Request) { r.Domain = "other.test" }, fault.DomainNotFound},
		{"a domain that is none", nil, func(r *Request) { r.Domain = "" }, fault.DomainNotFound},
		{"an address of another domain", nil, func(r *Request) { r.Mailboxes[0].Address = "a@other.test" }, fault.InvalidMailboxEmail},
		{"a bad local part", nil, func(r *Request) { r.Mailboxes[0].Address = "a b@example.test" }, fault.InvalidMailboxEmail},
		{"an address twice", nil, func(r *Request) {
			r.Mailboxes = append(r.Mailboxes, mailbox.Spec{DisplayName: "Anna", Address: "NEW@example.test"})
		}, fault.DuplicateMailboxEmail},
		{"a weak password", nil, func(r *Request) { r.Password = secret.New("simple") }, fault.WeakPassword},
		{"an unverified domain", []func(*testing.T, *fixture){unverified}, nil, fault.DomainNotVerified},
		{"a full domain", []func(*testing.T, *fixture){full}, nil, fault.MailboxLimitReached},
		{"more than fit at once", nil, func(r *Request) {
			for _, a := range []string{"b", "c", "d"} {
				r.Mailboxes = append(r.Mailboxes, mailbox.Spec{DisplayName: "Anna", Address: a + "@example.test"})
			}
		}, fault.MailboxLimitReached},
		{"more tenants than the plan allows", []func(*testing.T, *fixture){downgraded}, nil, fault.TenantLimitReached},
		{"bootstrap not ready", []func(*testing.T, *fixture){notReady}, nil, fault.ExchangeNotReady},
		{"SMTP AUTH off", []func(*testing.T, *fixture){smtpOff}, nil, fault.SMTPAuthNotEnabled},
		// The order of refusals when several apply.
		{"the body before the domain", nil, func(r *Request) { r.Domain, r.Mailboxes = "other.test", nil }, fault.InvalidRequest},
		{"ownership before the rules", nil, func(r *Request) { r.Domain, r.Password = "other.test", secret.New("x") }, fault.DomainNotFound},
		{"the consent is gone", []func(*testing.T, *fixture){revoked}, nil, fault.AccessDenied},
		{"the consent before the state", []func(*testing.T, *fixture){revoked, unverified, downgraded, notReady}, nil, fault.AccessDenied},
		{"the consent before the cap", []func(*testing.T, *fixture){full, revoked}, nil, fault.AccessDenied},
		{"the rules before the consent", []func(*testing.T, *fixture){revoked}, func(r *Request) { r.Password = secret.New("x") }, fault.WeakPassword},
		{"ownership before the consent", []func(*testing.T, *fixture){revoked}, func(r *Request) { r.Domain = "other.test" }, fault.DomainNotFound},
		{"the rules before the ceiling", []func(*testing.T, *fixture){unverified, downgraded}, nil, fault.DomainNotVerified},
		{"the cap before the ceiling", []func(*testing.T, *fixture){full, downgraded}, nil, fault.MailboxLimitReached},
		{"the ceiling before the state", []func(*testing.T, *fixture){downgraded, notReady}, nil, fault.TenantLimitReached},
		{"bootstrap before SMTP AUTH", []func(*testing.T, *fixture){smtpOff, notReady}, nil, fault.ExchangeNotReady},
	} {
		t.Run(tt.name, func(t *testing.T) {
			fx := newFixture(t)
			for _, arrange := range tt.arrange {
				arrange(t, fx)
			}
			made := fx.fake.Effects("CreateMailbox")
			r := request("new@example.test")
			if tt.change != nil {
				tt.change(&r)
			}
			_, err := fx.Provision(t.Context(), fx.acc, guid, r, nil)
			refused(t, err, tt.want)
			if fx.fake.Effects("CreateMailbox") != made {
				t.Fatal("a mailbox was created although the request was refused")
			}
		})
	}
}

func TestProvisionOfOthersIsNotFound(t *testing.T) {
	fx := newFixture(t)
	stranger, err := fx.store.CreateAccount(t.Context(), "other@example.com", "complete", 0, fx.Now())
	must(t, err)
	for name, id := range map[string]tenant.GUID{"another account's": guid, "unknown": tenant.NoGUID} {
		t.Run(name, func(t *testing.T) {
			_, err := fx.Provision(t.Context(), stranger, id, request("anna@example.test"), nil)
			refused(t, err, fault.TenantNotFound)
		})
	}
	_, err = fx.Usage(t.Context(), stranger.ID, guid, "x")
	refused(t, err, fault.TenantNotFound)
	_, err = fx.List(t.Context(), access.AccountID(tenant.NoGUID), guid)
	refused(t, err, fault.TenantNotFound)
}

func TestProvisionWithoutSMTPAuthWhereTheOperatorAllows(t *testing.T) {
	fx := newFixture(t)
	fx.RequireSMTPAuth = false
	fx.changeTenant(t, func(x *tenant.Tenant) { x.SMTPAuth = tenant.SMTPAuthRefused })
	got, err := fx.provision(t.Context(), "anna@example.test")
	must(t, err)
	if got[0].Status != "created" || fx.fake.Calls("OpenSubmission") != 0 {
		t.Fatalf("got %v with %d calls to open submission", statuses(got), fx.fake.Calls("OpenSubmission"))
	}
}
