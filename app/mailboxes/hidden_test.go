// SPDX-License-Identifier: Apache-2.0

package mailboxes

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tenantry/tenantry/adapters/fake"
	"github.com/tenantry/tenantry/core/fault"
	"github.com/tenantry/tenantry/core/mailbox"
	"github.com/tenantry/tenantry/core/observation"
	"github.com/tenantry/tenantry/core/outcome"
	"github.com/tenantry/tenantry/core/tenant"
	"github.com/tenantry/tenantry/ports"
)

// TestProvisionKeepsAMailboxThatReplicasDoNotShow checks a request for a completed mailbox that a
// discovery missed, because the platform's replicas lag. The platform refuses to create the mailbox
// again. The row keeps its id and its limit, and the mailbox gets no second password. The same is
// true if the replicas show the mailbox again during the request.
func TestProvisionKeepsAMailboxThatReplicasDoNotShow(t *testing.T) {
	const anna = "anna@example.test"
	for _, tc := range []struct {
		name   string
		misses int // the number of the request's reads that do not show the mailbox; 0 means all reads
	}{{"all reads miss the mailbox", 0}, {"a read after the refusal finds the mailbox", 1}} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				fx := newFixture(t)
				_, err := fx.provision(t.Context(), anna)
				must(t, err)
				mailboxBefore := fx.storedMailboxes(t)[0]
				must(t, fx.store.SetSendLimit(t.Context(), fx.account.ID, mailboxBefore.ID, 7, fx.Now()))
				time.Sleep(time.Minute)
				fx.discover(t, fx.Now())
				if listed := fx.storedMailboxes(t); len(listed) != 0 {
					t.Fatalf("the missed mailbox is still listed: %+v", listed)
				}
				endMisses := fx.fake.Fail(fake.Fault{Method: "Mailbox", Kind: outcome.Refused, Code: fault.MailboxNotFound, Times: tc.misses})
				got, err := fx.provision(t.Context(), anna)
				if tc.misses == 0 {
					requireRefusal(t, err, fault.ProviderTimeout)
					endMisses()
					shown, err := fx.fake.For(guid).Mailbox(t.Context(), anna)
					must(t, err)
					time.Sleep(time.Minute)
					fx.discover(t, fx.Now(), shown)
				} else {
					must(t, err)
					if got[0].Status != mailbox.ResultExists {
						t.Errorf("got %+v, want an existing mailbox", got[0])
					}
				}
				fx.requireComplete(t, 1)
				if mailboxAfter := fx.storedMailboxes(t)[0]; mailboxAfter.ID != mailboxBefore.ID || mailboxAfter.DailySendLimit != 7 {
					t.Errorf("the mailbox is stored as %+v, want the id %s and the limit 7", mailboxAfter, mailboxBefore.ID)
				}
				if passwords := fx.fake.Calls("OpenSignIn"); passwords != 1 {
					t.Errorf("the password was set %d times, want 1", passwords)
				}
			})
		})
	}
}

// TestMissedMailboxFailsIfADifferentObjectHasItsAddress checks requests for a mailbox that a
// discovery missed, while a different object has the address. As long as the platform's replicas
// may lag, the requests fail with provider_timeout. After that time the platform's refusal to
// create the mailbox is final, and the row counts as missing again.
func TestMissedMailboxFailsIfADifferentObjectHasItsAddress(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const anna = "anna@example.test"
		fx := newFixture(t)
		_, err := fx.provision(t.Context(), anna)
		must(t, err)
		time.Sleep(time.Minute)
		fx.discover(t, fx.Now())
		fx.fake.Fail(fake.Fault{Method: "Mailbox", Kind: outcome.Refused, Code: fault.MailboxNotFound})
		for range 2 {
			_, err = fx.provision(t.Context(), anna)
			requireRefusal(t, err, fault.ProviderTimeout)
			time.Sleep(time.Minute)
		}
		time.Sleep(observation.ReplicaLag)
		for range 2 {
			got, err := fx.provision(t.Context(), anna)
			must(t, err)
			if got[0].Status != mailbox.ResultFailed || got[0].Failure.Code != fault.InvalidMailboxEmail {
				t.Fatalf("got %+v, want the failure invalid_mailbox_email", got[0])
			}
		}
		if listed := fx.storedMailboxes(t); len(listed) != 0 {
			t.Errorf("the missed mailbox is listed: %+v", listed)
		}
		_, err = fx.provision(t.Context(), "b@example.test", "c@example.test", "d@example.test")
		must(t, err) // the missing mailbox does not count against the limit
	})
}

// TestProvisionCompletesAMailboxThatReplicasDoNotShow sends the same request twice. The first
// request creates the mailbox and fails before it sets the password. Then a discovery misses the
// mailbox, because the platform's replicas lag. The second request sets the password and reports
// the mailbox as created.
func TestProvisionCompletesAMailboxThatReplicasDoNotShow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const anna = "anna@example.test"
		fx := newFixture(t)
		endFault := fx.fake.Fail(fake.Fault{Method: "OpenSignIn", Kind: outcome.Throttled})
		_, err := fx.provision(t.Context(), anna)
		requireRefusal(t, err, fault.ProviderUnavailable)
		endFault()
		mailboxBefore := fx.storedMailboxes(t)[0]
		time.Sleep(time.Minute)
		fx.discover(t, fx.Now())
		if listed := fx.storedMailboxes(t); len(listed) != 0 {
			t.Fatalf("the missed mailbox is still listed: %+v", listed)
		}
		got, err := fx.provision(t.Context(), anna)
		must(t, err)
		if got[0].Status != mailbox.ResultCreated || got[0].Mailbox.ID != mailboxBefore.ID {
			t.Errorf("got %+v, want a created mailbox with the id %s", got[0], mailboxBefore.ID)
		}
		fx.requireComplete(t, 1)
	})
}

// existingMailboxPlatform is a platform on which CreateMailbox returns an existing mailbox.
type existingMailboxPlatform struct {
	ports.MailPlatform
	existing mailbox.Platform
}

func (p existingMailboxPlatform) For(id tenant.GUID) ports.MailTenant {
	return existingMailboxTenant{p.MailPlatform.For(id), p.existing}
}

type existingMailboxTenant struct {
	ports.MailTenant
	existing mailbox.Platform
}

func (m existingMailboxTenant) CreateMailbox(context.Context, mailbox.Spec) (mailbox.Platform, error) {
	return m.existing, nil
}

// TestProvisionSetsNoPasswordForAnEarlierObject checks a request for a completed mailbox that a
// discovery missed. CreateMailbox returns the mailbox whose object id the row already has. The
// request must not set the password of this mailbox again.
func TestProvisionSetsNoPasswordForAnEarlierObject(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const anna = "anna@example.test"
		fx := newFixture(t)
		_, err := fx.provision(t.Context(), anna)
		must(t, err)
		existing, err := fx.fake.For(guid).Mailbox(t.Context(), anna)
		must(t, err)
		time.Sleep(time.Minute)
		fx.discover(t, fx.Now())
		fx.Platform = existingMailboxPlatform{fx.fake, existing}
		fx.fake.Fail(fake.Fault{Method: "Mailbox", Kind: outcome.Refused, Code: fault.MailboxNotFound, Times: 1})
		got, err := fx.provision(t.Context(), anna)
		must(t, err)
		if got[0].Status != mailbox.ResultExists {
			t.Errorf("got %+v, want an existing mailbox", got[0])
		}
		fx.requireComplete(t, 1)
		if passwords := fx.fake.Calls("OpenSignIn"); passwords != 1 {
			t.Errorf("the password was set %d times, want 1", passwords)
		}
	})
}
