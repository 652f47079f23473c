// SPDX-License-Identifier: Apache-2.0

package mailboxes

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tenantry/tenantry/adapters/fake"
	"github.com/tenantry/tenantry/app/apptest"
	"github.com/tenantry/tenantry/core/access"
	"github.com/tenantry/tenantry/core/domain"
	"github.com/tenantry/tenantry/core/fault"
	"github.com/tenantry/tenantry/core/mailbox"
	"github.com/tenantry/tenantry/core/outcome"
	"github.com/tenantry/tenantry/core/tenant"
	"github.com/tenantry/tenantry/ports"
)

// shortTimeout is a Service.Timeout that tests in fake time reach.
const shortTimeout = 500 * time.Millisecond

func TestProvisionRetriesTransientErrors(t *testing.T) {
	for _, tt := range []struct {
		name  string
		fault fake.Fault
	}{
		{"the domain is not accepted yet", fake.Fault{Method: "CreateMailbox", Kind: outcome.NotReady, Times: 3}},
		{"the directory lags", fake.Fault{Method: "OpenSignIn", Kind: outcome.NotReady, Times: 3}},
		{"the mail server lags", fake.Fault{Method: "OpenSubmission", Kind: outcome.NotReady, Times: 3}},
		{"the call of CreateMailbox is lost", fake.Fault{Method: "CreateMailbox", Kind: outcome.Unknown, Times: 1}},
		{"the answer of CreateMailbox is lost", fake.Fault{Method: "CreateMailbox", Kind: outcome.Unknown, Times: 1, AfterEffect: true}},
		{"the answer of CreateMailbox is broken, and the mailbox was created", fake.Fault{Method: "CreateMailbox", Kind: outcome.Broken, Times: 1, AfterEffect: true}},
		{"the answer of OpenSignIn is lost", fake.Fault{Method: "OpenSignIn", Kind: outcome.Unknown, Times: 1, AfterEffect: true}},
		{"the answer of OpenSubmission is lost", fake.Fault{Method: "OpenSubmission", Kind: outcome.Unknown, Times: 1, AfterEffect: true}},
		{"a read is lost", fake.Fault{Method: "Mailbox", Kind: outcome.Unknown, Times: 1}},
		{"the answer of a read is broken twice", fake.Fault{Method: "Mailbox", Kind: outcome.Broken, Times: 2}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			fx := newFixture(t)
			fx.fake.Fail(tt.fault)
			got, err := fx.provision(t.Context(), "anna@example.test")
			must(t, err)
			if got[0].Status != "created" || fx.fake.Effects("CreateMailbox") != 1 {
				t.Fatalf("got %v after %d creations, want created after 1", statuses(got), fx.fake.Effects("CreateMailbox"))
			}
			fx.requireComplete(t, 1)
		})
	}
}

// TestProvisionConvergesAfterLastingErrors checks that lasting errors of the platform fail the
// request. After the errors have ended, the same request succeeds. Only one mailbox is created.
func TestProvisionConvergesAfterLastingErrors(t *testing.T) {
	for _, tt := range []struct {
		name  string
		fault fake.Fault
		want  fault.Code
		// keepsRow is true if the row must be kept, because a mailbox may exist at the platform.
		keepsRow bool
	}{
		{"the domain is never accepted", fake.Fault{Method: "CreateMailbox", Kind: outcome.NotReady}, fault.ProviderTimeout, false},
		{"all calls of CreateMailbox are lost", fake.Fault{Method: "CreateMailbox", Kind: outcome.Unknown}, fault.ProviderTimeout, true},
		{"all reads are lost", fake.Fault{Method: "Mailbox", Kind: outcome.Unknown}, fault.ProviderTimeout, false},
		{"all answers of CreateMailbox are broken", fake.Fault{Method: "CreateMailbox", Kind: outcome.Broken}, fault.ProviderError, true},
		{"all answers of reads are broken", fake.Fault{Method: "Mailbox", Kind: outcome.Broken}, fault.ProviderError, false},
		{"calls of CreateMailbox are throttled", fake.Fault{Method: "CreateMailbox", Kind: outcome.Throttled}, fault.ProviderUnavailable, false},
		{"the platform is down", fake.Fault{Kind: outcome.Down}, fault.ProviderUnavailable, false},
		{"a setting is invalid", fake.Fault{Kind: outcome.Refused, Code: fault.ServiceUnavailable}, fault.ServiceUnavailable, false},
		{"a setting is invalid after the creation", fake.Fault{Method: "OpenSignIn", Kind: outcome.Refused, Code: fault.ServiceUnavailable}, fault.ServiceUnavailable, true},
		{"the directory never shows the account", fake.Fault{Method: "OpenSignIn", Kind: outcome.NotReady}, fault.ProviderTimeout, true},
		{"sign-in is throttled", fake.Fault{Method: "OpenSignIn", Kind: outcome.Throttled}, fault.ProviderUnavailable, true},
		{"all calls of OpenSubmission are lost", fake.Fault{Method: "OpenSubmission", Kind: outcome.Unknown}, fault.ProviderTimeout, true},
	} {
		inFakeTime(t, tt.name, func(t *testing.T) {
			fx := newFixture(t)
			fx.Timeout = shortTimeout
			endFault := fx.fake.Fail(tt.fault)
			_, err := fx.provision(t.Context(), "anna@example.test")
			requireRefusal(t, err, tt.want)
			if tt.want == fault.ProviderUnavailable && fault.ErrorOf(err).RetryAfter != 7*time.Second {
				t.Fatalf("the error says to retry after %s", fault.ErrorOf(err).RetryAfter)
			}
			endFault()
			if kept := !fx.reserveAnna(t); kept != tt.keepsRow {
				t.Fatalf("the row was kept: %v, want %v", kept, tt.keepsRow)
			}
			fx.Timeout = apptest.HangTimeout
			got, err := fx.provision(t.Context(), "anna@example.test")
			must(t, err)
			if got[0].Status != "created" || fx.fake.Effects("CreateMailbox") != 1 {
				t.Fatalf("got %v after %d creations, want created after 1", statuses(got), fx.fake.Effects("CreateMailbox"))
			}
			fx.requireComplete(t, 1)
		})
	}
}

// TestProvisionKeepsTheRowOfAnEarlierRequest checks a mailbox of an earlier request that the
// platform does not show yet. A failing later request keeps the row. A third request reports the
// mailbox as created.
func TestProvisionKeepsTheRowOfAnEarlierRequest(t *testing.T) {
	missFault := fake.Fault{Method: "Mailbox", Kind: outcome.Refused, Code: fault.MailboxNotFound}
	for _, tt := range []struct {
		name   string
		faults []fake.Fault
		want   fault.Code
	}{
		{"reads fail", []fake.Fault{{Method: "Mailbox", Kind: outcome.Down}}, fault.ProviderUnavailable},
		{"the domain is not accepted", []fake.Fault{missFault, {Method: "CreateMailbox", Kind: outcome.NotReady}}, fault.ProviderTimeout},
	} {
		inFakeTime(t, tt.name, func(t *testing.T) {
			fx := newFixture(t)
			fx.createWithoutAnswer(t)
			var endFaults []func()
			for _, f := range tt.faults {
				endFaults = append(endFaults, fx.fake.Fail(f))
			}
			fx.Timeout = shortTimeout
			_, err := fx.provision(t.Context(), "anna@example.test")
			requireRefusal(t, err, tt.want)
			for _, endFault := range endFaults {
				endFault()
			}
			fx.Timeout = apptest.HangTimeout
			got, err := fx.provision(t.Context(), "anna@example.test")
			must(t, err)
			if got[0].Status != "created" || fx.fake.Effects("CreateMailbox") != 1 {
				t.Fatalf("got %v after %d creations, want created after 1", statuses(got), fx.fake.Effects("CreateMailbox"))
			}
			fx.requireComplete(t, 1)
		})
	}
}

func TestProvisionReadsAgainWhenTheAddressIsTaken(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fx := newFixture(t)
		fx.createWithoutAnswer(t)
		fx.fake.Fail(fake.Fault{Method: "Mailbox", Kind: outcome.Refused, Code: fault.MailboxNotFound, Times: 3})
		got, err := fx.provision(t.Context(), "anna@example.test")
		must(t, err)
		if got[0].Status != "created" {
			t.Fatalf("got %+v, want a created mailbox", got[0])
		}
		fx.requireComplete(t, 1)
	})
}

// TestProvisionReleasesTheRowOfATakenAddress checks that the row is deleted if the platform refuses
// the address at each try and never shows a mailbox with this address.
func TestProvisionReleasesTheRowOfATakenAddress(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fx := newFixture(t)
		fx.reserveAnna(t)
		fx.fake.Occupy(guid, "anna@example.test")
		got, err := fx.provision(t.Context(), "anna@example.test")
		must(t, err)
		if got[0].Status != "failed" || got[0].Failure.Code != fault.InvalidMailboxEmail {
			t.Fatalf("got %+v, want the failure invalid_mailbox_email", got[0])
		}
		if tries := fx.fake.Calls("CreateMailbox"); tries != 1+maxHiddenLookups {
			t.Fatalf("%d tries, want %d", tries, 1+maxHiddenLookups)
		}
		if freeSlots := fx.reserveFreeSlots(t); freeSlots != mailbox.MaxPerDomain {
			t.Fatalf("%d slots are free, want %d", freeSlots, mailbox.MaxPerDomain)
		}
	})
}

// createWithoutAnswer sends a request that creates a mailbox. The answers of the creation and of
// all later reads are lost, so that the request fails.
func (fx *fixture) createWithoutAnswer(t *testing.T) {
	t.Helper()
	endFaults := []func(){
		fx.fake.Fail(fake.Fault{Method: "CreateMailbox", Kind: outcome.Unknown, AfterEffect: true}),
		fx.fake.Fail(fake.Fault{Method: "Mailbox", Kind: outcome.Unknown, Skip: 1}),
	}
	fx.Timeout = shortTimeout
	_, err := fx.provision(t.Context(), "anna@example.test")
	requireRefusal(t, err, fault.ProviderTimeout)
	for _, endFault := range endFaults {
		endFault()
	}
	fx.Timeout = apptest.HangTimeout
}

// overtakenStore is a store in which a second request runs completely right after the first request
// has reserved the row.
type overtakenStore struct {
	ports.MailboxStore
	overtake func()
}

func (o *overtakenStore) ReserveMailboxes(ctx context.Context, owner access.AccountID, domainID string, specs []mailbox.Spec, limit int, now time.Time) ([]mailbox.Mailbox, error) {
	rows, err := o.MailboxStore.ReserveMailboxes(ctx, owner, domainID, specs, limit, now)
	if overtake := o.overtake; overtake != nil {
		o.overtake = nil
		overtake()
	}
	return rows, err
}

func TestOvertakenProvisionFindsTheMailbox(t *testing.T) {
	fx := newFixture(t)
	overtakenService := fx.service()
	overtakenService.Mailboxes = &overtakenStore{fx.store, func() {
		got, err := fx.provision(t.Context(), "anna@example.test")
		must(t, err)
		if got[0].Status != "created" {
			t.Fatalf("the other request got %v", statuses(got))
		}
	}}
	got, err := overtakenService.Provision(t.Context(), fx.account, guid, newRequest("anna@example.test"), nil)
	must(t, err)
	if got[0].Status != "exists" {
		t.Fatalf("got %v, want an existing mailbox", statuses(got))
	}
	fx.requireComplete(t, 1)
}

func TestAFailedMailboxDoesNotFailTheOthers(t *testing.T) {
	fx := newFixture(t)
	fx.fake.Occupy(guid, "taken@example.test")
	got, err := fx.provision(t.Context(), "taken@example.test", "anna@example.test")
	must(t, err)
	if got[0].Status != "failed" || got[0].Failure.Code != fault.InvalidMailboxEmail || got[1].Status != "created" {
		t.Fatalf("got %+v, want a failed and a created mailbox", got)
	}
	fx.requireComplete(t, 1)
	if freeSlots := fx.reserveFreeSlots(t); freeSlots != 2 {
		t.Fatalf("%d slots are free, want 2", freeSlots)
	}
}

// TestProvisionFailsWhatThePlatformRefuses checks that a refusal about one mailbox fails only that
// mailbox. Its row is kept if the mailbox was created at the platform, and deleted otherwise.
func TestProvisionFailsWhatThePlatformRefuses(t *testing.T) {
	for _, tt := range []struct {
		method   string
		keepsRow bool
	}{{"Mailbox", false}, {"CreateMailbox", false}, {"OpenSignIn", true}, {"OpenSubmission", true}} {
		t.Run(tt.method, func(t *testing.T) {
			fx := newFixture(t)
			endFault := fx.fake.Fail(fake.Fault{
				Method: tt.method, Object: "anna@example.test", Kind: outcome.Refused, Code: fault.ProviderError,
			})
			got, err := fx.provision(t.Context(), "anna@example.test", "ben@example.test")
			must(t, err)
			if got[0].Status != "failed" || got[0].Failure.Code != fault.ProviderError || got[0].Failure.Detail == "" || got[1].Status != "created" {
				t.Fatalf("got %+v, want a failed and a created mailbox", got)
			}
			if n := fx.fake.Calls(tt.method); n > 3 {
				t.Fatalf("%d calls of %s, want at most 3", n, tt.method)
			}
			endFault()
			if kept := !fx.reserveAnna(t); kept != tt.keepsRow {
				t.Fatalf("the row was kept: %v, want %v", kept, tt.keepsRow)
			}
			got, err = fx.provision(t.Context(), "anna@example.test", "ben@example.test")
			must(t, err)
			if got[0].Status != "created" || got[1].Status != "exists" || fx.fake.Effects("CreateMailbox") != 2 {
				t.Fatalf("after the refusals: %+v", got)
			}
			fx.requireComplete(t, 2)
		})
	}
}

// TestProvisionReportsWhatAnUnansweredRequestCreated checks a request that creates one mailbox and
// fails because of another. The caller gets no results, so the repeated request reports both
// mailboxes as created.
func TestProvisionReportsWhatAnUnansweredRequestCreated(t *testing.T) {
	for _, tt := range []struct {
		name  string
		fault fake.Fault
		want  fault.Code
	}{
		{"access is denied", fake.Fault{Method: "CreateMailbox", Kind: outcome.Refused, Code: fault.AccessDenied}, fault.AccessDenied},
		{"the platform throttles", fake.Fault{Method: "OpenSignIn", Kind: outcome.Throttled}, fault.ProviderUnavailable},
		{"the time limit is reached", fake.Fault{Method: "OpenSubmission", Kind: outcome.NotReady}, fault.ProviderTimeout},
	} {
		inFakeTime(t, tt.name, func(t *testing.T) {
			fx := newFixture(t)
			fx.Timeout = shortTimeout
			tt.fault.Object = "ben@example.test"
			endFault := fx.fake.Fail(tt.fault)
			_, err := fx.provision(t.Context(), "anna@example.test", "ben@example.test")
			requireRefusal(t, err, tt.want)
			if s := fx.storedMailboxes(t); s[0].Address != "anna@example.test" || s[0].PrincipalName != s[0].Address || !s[0].AccountEnabled {
				t.Fatalf("anna is not stored as created: %+v", s)
			}
			endFault()
			fx.Timeout = apptest.HangTimeout
			for _, want := range []string{"created", "exists"} {
				got, err := fx.provision(t.Context(), "anna@example.test", "ben@example.test")
				must(t, err)
				if got[0].Status != want || got[1].Status != want || fx.fake.Effects("CreateMailbox") != 2 {
					t.Fatalf("got %v, want %s", statuses(got), want)
				}
			}
			fx.requireComplete(t, 2)
		})
	}
}

// TestProvisionKeepsTheRowOfAnUnknownOutcome checks that a refusal does not delete the row if the
// outcome of an earlier creation is unknown.
func TestProvisionKeepsTheRowOfAnUnknownOutcome(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fx := newFixture(t)
		fx.createWithoutAnswer(t)
		endFault := fx.fake.Fail(fake.Fault{Method: "Mailbox", Kind: outcome.Refused, Code: fault.ProviderError})
		got, err := fx.provision(t.Context(), "anna@example.test")
		must(t, err)
		if got[0].Status != "failed" {
			t.Fatalf("got %+v, want a failed mailbox", got[0])
		}
		endFault()
		got, err = fx.provision(t.Context(), "anna@example.test")
		must(t, err)
		if got[0].Status != "created" || fx.fake.Effects("CreateMailbox") != 1 {
			t.Fatalf("got %+v, want a mailbox that was created once", got[0])
		}
	})
}

func TestProvisionNeedsNoDKIM(t *testing.T) {
	fx := newFixture(t)
	fx.changeDomain(t, zone, func(d *domain.Domain) { d.MailReady = false })
	fx.fake.Fail(fake.Fault{Method: "EnsureSigning", Kind: outcome.Refused, Code: fault.ProviderError})
	got, err := fx.provision(t.Context(), "anna@example.test")
	must(t, err)
	if got[0].Status != "created" {
		t.Fatalf("got %+v, want a created mailbox", got[0])
	}
}

func TestProvisionCanBeRepeatedAfterARefusedPassword(t *testing.T) {
	fx := newFixture(t)
	fx.fake.Fail(fake.Fault{Method: "OpenSignIn", Kind: outcome.Refused, Code: fault.WeakPassword, Times: 1})
	got, err := fx.provision(t.Context(), "anna@example.test")
	must(t, err)
	if got[0].Status != "failed" || got[0].Failure.Code != fault.WeakPassword {
		t.Fatalf("got %+v, want the failure weak_password", got[0])
	}
	got, err = fx.provision(t.Context(), "anna@example.test")
	must(t, err)
	if got[0].Status != "created" || fx.fake.Effects("CreateMailbox") != 1 {
		t.Fatalf("got %+v, want a mailbox that was created once", got[0])
	}
	fx.requireComplete(t, 1)
}

func TestProvisionWithAccessWithdrawnReleasesTheRows(t *testing.T) {
	for grant, want := range map[string]tenant.Consent{
		"consent": tenant.ConsentRevoked, "exchange_role": tenant.ConsentGranted,
	} {
		t.Run(grant, func(t *testing.T) {
			fx := newFixture(t)
			fx.fake.Revoke(guid, grant)
			_, err := fx.provision(t.Context(), "anna@example.test", "ben@example.test")
			requireRefusal(t, err, fault.AccessDenied)
			stored, err := fx.store.Tenant(t.Context(), fx.account.ID, guid)
			must(t, err)
			if stored.Consent != want {
				t.Fatalf("the consent is stored as %s, want %s", stored.Consent, want)
			}
			if freeSlots := fx.reserveFreeSlots(t); freeSlots != mailbox.MaxPerDomain {
				t.Fatalf("%d slots are free, want %d", freeSlots, mailbox.MaxPerDomain)
			}
		})
	}
}

// TestProvisionChecksTheDomainAgain checks a domain that is stored as accepted although the mail
// server does not accept it. For example, a lagging replica has shown an earlier domain with the
// same name. After the mail server has refused a mailbox, the next request checks again whether the
// mail server accepts the domain.
func TestProvisionChecksTheDomainAgain(t *testing.T) {
	inFakeTime(t, "refused mailbox", func(t *testing.T) {
		fx := newFixture(t)
		fx.Timeout = shortTimeout
		endFault := fx.fake.Fail(fake.Fault{Method: "CreateMailbox", Kind: outcome.NotReady})
		_, err := fx.provision(t.Context(), "anna@example.test")
		requireRefusal(t, err, fault.ProviderTimeout)
		endFault()
		if d, err := fx.store.Domain(t.Context(), fx.account.ID, guid, zone); err != nil || d.MailReady {
			t.Fatalf("the domain is stored as %+v, %v", d, err)
		}
		fx.Timeout = apptest.HangTimeout
		reads := fx.fake.Calls("MailDomains")
		_, err = fx.provision(t.Context(), "anna@example.test")
		must(t, err)
		if d, err := fx.store.Domain(t.Context(), fx.account.ID, guid, zone); err != nil || !d.MailReady || fx.fake.Calls("MailDomains") == reads {
			t.Fatalf("the domain is stored as %+v, %v", d, err)
		}
	})
}

// TestCallWithoutOutcomeDoesNotHideARefusedDomain checks a call with an unknown outcome after the
// mail server has refused the domain. If the call created the mailbox, the mail server accepts the
// domain. Otherwise the domain is stored as not accepted.
func TestCallWithoutOutcomeDoesNotHideARefusedDomain(t *testing.T) {
	for name, hasEffect := range map[string]bool{"without effect": false, "with effect": true} {
		inFakeTime(t, name, func(t *testing.T) {
			fx := newFixture(t)
			fx.Timeout = shortTimeout
			fx.fake.Fail(fake.Fault{Method: "CreateMailbox", Kind: outcome.NotReady, Times: 1})
			fx.fake.Fail(fake.Fault{Method: "CreateMailbox", Kind: outcome.Unknown, AfterEffect: hasEffect})
			_, err := fx.provision(t.Context(), "anna@example.test")
			if created := err == nil; created != hasEffect {
				t.Fatalf("the request ended with %v", err)
			}
			if d, err := fx.store.Domain(t.Context(), fx.account.ID, guid, zone); err != nil || d.MailReady != hasEffect {
				t.Errorf("the domain is stored with MailReady %v, %v, want %v", d.MailReady, err, hasEffect)
			}
		})
	}
}

func TestProvisionReconcilesTheDomainFirst(t *testing.T) {
	fx := newFixture(t)
	fx.changeDomain(t, zone, func(d *domain.Domain) { d.MailReady = false })
	_, err := fx.provision(t.Context(), "anna@example.test")
	must(t, err)
	d, err := fx.store.Domain(t.Context(), fx.account.ID, guid, zone)
	must(t, err)
	if !d.MailReady || d.Signing.Selector1.Content == "" {
		t.Fatalf("the domain is stored as %+v", d)
	}
}

func TestProvisionContinuesWithoutItsCaller(t *testing.T) {
	fx := newFixture(t)
	gate := fx.fake.Hold("CreateMailbox")
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error)
	go func() {
		_, err := fx.provision(ctx, "anna@example.test")
		done <- err
	}()
	<-gate.Arrived()
	cancel()
	gate.Release()
	must(t, <-done)
	fx.requireComplete(t, 1)
}
