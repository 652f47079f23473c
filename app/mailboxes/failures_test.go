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

// shortTimeout is the Service.Timeout of tests in fake time whose requests shall time out.
const shortTimeout = 500 * time.Millisecond

func TestProvisionRetriesTransientErrors(t *testing.T) {
	for _, tc := range []struct {
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
		t.Run(tc.name, func(t *testing.T) {
			fx := newFixture(t)
			fx.fake.Fail(tc.fault)
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
	for _, tc := range []struct {
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
		inFakeTime(t, tc.name, func(t *testing.T) {
			fx := newFixture(t)
			fx.Timeout = shortTimeout
			endFault := fx.fake.Fail(tc.fault)
			_, err := fx.provision(t.Context(), "anna@example.test")
			requireRefusal(t, err, tc.want)
			if tc.want == fault.ProviderUnavailable && fault.ErrorOf(err).RetryAfter != 7*time.Second { // as the fake platform demands
				t.Fatalf("the error says to retry after %s, want 7s", fault.ErrorOf(err).RetryAfter)
			}
			endFault()
			if kept := !fx.reserveAnna(t); kept != tc.keepsRow {
				t.Fatalf("the row was kept: %v, want %v", kept, tc.keepsRow)
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

// TestProvisionKeepsTheRowOfAnEarlierRequest sends three requests for one mailbox. The first
// request creates the mailbox without an answer. The second request fails and keeps the row. The
// third request reports the mailbox as created.
func TestProvisionKeepsTheRowOfAnEarlierRequest(t *testing.T) {
	missFault := fake.Fault{Method: "Mailbox", Kind: outcome.Refused, Code: fault.MailboxNotFound}
	for _, tc := range []struct {
		name   string
		faults []fake.Fault
		want   fault.Code
	}{
		{"reads fail", []fake.Fault{{Method: "Mailbox", Kind: outcome.Down}}, fault.ProviderUnavailable},
		{"the domain is not accepted", []fake.Fault{missFault, {Method: "CreateMailbox", Kind: outcome.NotReady}}, fault.ProviderTimeout},
	} {
		inFakeTime(t, tc.name, func(t *testing.T) {
			fx := newFixture(t)
			fx.createWithoutAnswer(t)
			var endFaults []func()
			for _, f := range tc.faults {
				endFaults = append(endFaults, fx.fake.Fail(f))
			}
			fx.Timeout = shortTimeout
			_, err := fx.provision(t.Context(), "anna@example.test")
			requireRefusal(t, err, tc.want)
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

// TestProvisionReleasesTheRowOfATakenAddress checks that the row of an earlier request is deleted
// if the platform refuses the address at each try and shows no mailbox with this address.
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
			t.Fatalf("CreateMailbox was called %d times, want %d", tries, 1+maxHiddenLookups)
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

// overtakenStore is a store that calls overtake once, right after a request has reserved its rows.
type overtakenStore struct {
	ports.MailboxStore
	overtake func()
}

func (s *overtakenStore) ReserveMailboxes(ctx context.Context, owner access.AccountID, domainID string, specs []mailbox.Spec, limit int, now time.Time) ([]mailbox.Mailbox, error) {
	rows, err := s.MailboxStore.ReserveMailboxes(ctx, owner, domainID, specs, limit, now)
	if overtake := s.overtake; overtake != nil {
		s.overtake = nil
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
			t.Fatalf("the overtaking request got %v, want a created mailbox", statuses(got))
		}
	}}
	got, err := overtakenService.Provision(t.Context(), fx.account, guid, newRequest("anna@example.test"), nil)
	must(t, err)
	if got[0].Status != "exists" {
		t.Fatalf("got %v, want an existing mailbox", statuses(got))
	}
	fx.requireComplete(t, 1)
}

func TestATakenAddressFailsOnlyItsMailbox(t *testing.T) {
	fx := newFixture(t)
	fx.fake.Occupy(guid, "taken@example.test")
	got, err := fx.provision(t.Context(), "taken@example.test", "anna@example.test")
	must(t, err)
	if got[0].Status != "failed" || got[0].Failure.Code != fault.InvalidMailboxEmail || got[1].Status != "created" {
		t.Fatalf("got %+v, want a failed and a created mailbox", got)
	}
	fx.requireComplete(t, 1)
	if freeSlots := fx.reserveFreeSlots(t); freeSlots != mailbox.MaxPerDomain-1 {
		t.Fatalf("%d slots are free, want %d", freeSlots, mailbox.MaxPerDomain-1)
	}
}

// TestRefusalFailsOnlyItsMailbox checks that the platform's refusal of one mailbox fails only that
// mailbox. The row is kept if the mailbox was created at the platform, and deleted otherwise.
func TestRefusalFailsOnlyItsMailbox(t *testing.T) {
	for _, tc := range []struct {
		method   string
		keepsRow bool
	}{{"Mailbox", false}, {"CreateMailbox", false}, {"OpenSignIn", true}, {"OpenSubmission", true}} {
		t.Run(tc.method, func(t *testing.T) {
			fx := newFixture(t)
			endFault := fx.fake.Fail(fake.Fault{
				Method: tc.method, Object: "anna@example.test", Kind: outcome.Refused, Code: fault.ProviderError,
			})
			got, err := fx.provision(t.Context(), "anna@example.test", "ben@example.test")
			must(t, err)
			if got[0].Status != "failed" || got[0].Failure.Code != fault.ProviderError || got[0].Failure.Detail == "" || got[1].Status != "created" {
				t.Fatalf("got %+v, want a failed and a created mailbox", got)
			}
			if calls := fx.fake.Calls(tc.method); calls > 3 { // a refused call is not repeated until the time limit
				t.Fatalf("%d calls of %s for two mailboxes, want at most 3", calls, tc.method)
			}
			endFault()
			if kept := !fx.reserveAnna(t); kept != tc.keepsRow {
				t.Fatalf("the row was kept: %v, want %v", kept, tc.keepsRow)
			}
			got, err = fx.provision(t.Context(), "anna@example.test", "ben@example.test")
			must(t, err)
			if got[0].Status != "created" || got[1].Status != "exists" || fx.fake.Effects("CreateMailbox") != 2 {
				t.Fatalf("after the refusal: got %v after %d creations, want created and exists after 2", statuses(got), fx.fake.Effects("CreateMailbox"))
			}
			fx.requireComplete(t, 2)
		})
	}
}

// TestProvisionReportsTheMailboxesOfAFailedRequestAsCreated checks a request that creates one
// mailbox and fails because of a different mailbox. The caller gets no results, so the repeated
// request reports both mailboxes as created.
func TestProvisionReportsTheMailboxesOfAFailedRequestAsCreated(t *testing.T) {
	for _, tc := range []struct {
		name  string
		fault fake.Fault
		want  fault.Code
	}{
		{"access is denied", fake.Fault{Method: "CreateMailbox", Kind: outcome.Refused, Code: fault.AccessDenied}, fault.AccessDenied},
		{"the platform throttles", fake.Fault{Method: "OpenSignIn", Kind: outcome.Throttled}, fault.ProviderUnavailable},
		{"the time limit is reached", fake.Fault{Method: "OpenSubmission", Kind: outcome.NotReady}, fault.ProviderTimeout},
	} {
		inFakeTime(t, tc.name, func(t *testing.T) {
			fx := newFixture(t)
			fx.Timeout = shortTimeout
			tc.fault.Object = "ben@example.test"
			endFault := fx.fake.Fail(tc.fault)
			_, err := fx.provision(t.Context(), "anna@example.test", "ben@example.test")
			requireRefusal(t, err, tc.want)
			if stored := fx.storedMailboxes(t)[0]; stored.Address != "anna@example.test" || stored.PrincipalName != stored.Address || !stored.AccountEnabled {
				t.Fatalf("stored is %+v, want the created mailbox of anna", stored)
			}
			endFault()
			fx.Timeout = apptest.HangTimeout
			for _, want := range []string{"created", "exists"} {
				got, err := fx.provision(t.Context(), "anna@example.test", "ben@example.test")
				must(t, err)
				if got[0].Status != want || got[1].Status != want || fx.fake.Effects("CreateMailbox") != 2 {
					t.Fatalf("got %v after %d creations, want %s for both mailboxes after 2", statuses(got), fx.fake.Effects("CreateMailbox"), want)
				}
			}
			fx.requireComplete(t, 2)
		})
	}
}

// TestProvisionKeepsTheRowOfAnUnknownOutcome checks that a refused read does not delete the row if
// the outcome of an earlier creation is unknown.
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

func TestProvisionWithoutAccessReleasesTheRows(t *testing.T) {
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
// server does not accept the domain. A lagging replica that shows an earlier domain with the same
// name can cause this. After the mail server has refused a mailbox, the next request checks again
// whether the mail server accepts the domain.
func TestProvisionChecksTheDomainAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fx := newFixture(t)
		fx.Timeout = shortTimeout
		endFault := fx.fake.Fail(fake.Fault{Method: "CreateMailbox", Kind: outcome.NotReady})
		_, err := fx.provision(t.Context(), "anna@example.test")
		requireRefusal(t, err, fault.ProviderTimeout)
		endFault()
		if d, err := fx.store.Domain(t.Context(), fx.account.ID, guid, zone); err != nil || d.MailReady {
			t.Fatalf("after the refusal, the domain is stored as %+v, %v, want MailReady false", d, err)
		}
		fx.Timeout = apptest.HangTimeout
		reads := fx.fake.Calls("MailDomains")
		_, err = fx.provision(t.Context(), "anna@example.test")
		must(t, err)
		if d, err := fx.store.Domain(t.Context(), fx.account.ID, guid, zone); err != nil || !d.MailReady || fx.fake.Calls("MailDomains") == reads {
			t.Fatalf("the domain is stored as %+v, %v after %d new reads, want MailReady true after at least one", d, err, fx.fake.Calls("MailDomains")-reads)
		}
	})
}

// TestUnknownOutcomeDoesNotHideARefusedDomain checks calls of CreateMailbox with an unknown
// outcome, after the mail server has refused the domain. If a read finds the mailbox, the mail
// server accepts the domain. Otherwise the domain is stored as not accepted.
func TestUnknownOutcomeDoesNotHideARefusedDomain(t *testing.T) {
	for name, hasEffect := range map[string]bool{"without effect": false, "with effect": true} {
		inFakeTime(t, name, func(t *testing.T) {
			fx := newFixture(t)
			fx.Timeout = shortTimeout
			fx.fake.Fail(fake.Fault{Method: "CreateMailbox", Kind: outcome.NotReady, Times: 1})
			fx.fake.Fail(fake.Fault{Method: "CreateMailbox", Kind: outcome.Unknown, AfterEffect: hasEffect})
			_, err := fx.provision(t.Context(), "anna@example.test")
			if created := err == nil; created != hasEffect {
				t.Fatalf("the request ended with %v, want success %t", err, hasEffect)
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
		t.Fatalf("the domain is stored as %+v, want MailReady true and a DKIM record", d)
	}
}

func TestProvisionContinuesWithoutItsCaller(t *testing.T) {
	fx := newFixture(t)
	gate := fx.fake.Hold("CreateMailbox")
	ctx, cancel := context.WithCancel(t.Context())
	provisioned := make(chan error)
	go func() {
		_, err := fx.provision(ctx, "anna@example.test")
		provisioned <- err
	}()
	<-gate.Arrived()
	cancel()
	gate.Release()
	must(t, <-provisioned)
	fx.requireComplete(t, 1)
}
