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
	"github.com/tenantry/tenantry/core/outcome"
	"github.com/tenantry/tenantry/core/tenant"
	"github.com/tenantry/tenantry/ports"
)

// TestProvisionKeepsAMailboxThatReplicasDoNotShow checks a request for a completed mailbox that a
// discovery missed, because the platform's replicas lag. The platform refuses to create it again.
// The row keeps its id and its limit, and the mailbox gets no second password, also if the replicas
// show the mailbox again in the middle of the request.
func TestProvisionKeepsAMailboxThatReplicasDoNotShow(t *testing.T) {
	const anna = "anna@example.test"
	for _, tt := range []struct {
		name   string
		misses int // the reads of the request that do not show the mailbox; 0 means all
	}{{"all reads miss it", 0}, {"a read after the refusal finds it", 1}} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				h := newFixture(t)
				_, err := h.provision(t.Context(), anna)
				must(t, err)
				before := h.stored(t)[0]
				must(t, h.store.SetSendLimit(t.Context(), h.acc.ID, before.ID, 7, h.Now()))
				discover := func(found ports.Found) {
					time.Sleep(time.Minute)
					found.Began, found.At = h.Now(), h.Now()
					must(t, h.store.SaveDiscovery(t.Context(), h.acc.ID, guid, found))
				}
				discover(ports.Found{Mailboxes: []mailbox.Platform{}, MissedMailboxes: map[string]bool{anna: true}})
				if left := h.stored(t); len(left) != 0 {
					t.Fatalf("listed are %+v", left)
				}
				show := h.fake.Fail(fake.Fault{Method: "Mailbox", Kind: outcome.Refused, Code: fault.MailboxNotFound, Times: tt.misses})
				got, err := h.provision(t.Context(), anna)
				if tt.misses == 0 {
					refused(t, err, fault.ProviderTimeout)
					show()
					shown, err := h.fake.For(guid).Mailbox(t.Context(), anna)
					must(t, err)
					discover(ports.Found{Mailboxes: []mailbox.Platform{shown}})
				} else {
					must(t, err)
					if got[0].Status != mailbox.ResultExists {
						t.Errorf("got %+v", got[0])
					}
				}
				h.requireComplete(t, 1)
				if after := h.stored(t)[0]; after.ID != before.ID || after.DailySendLimit != 7 {
					t.Errorf("stored is %+v, before %+v", after, before)
				}
				if n := h.fake.Calls("OpenSignIn"); n != 1 {
					t.Errorf("the password was set %d times", n)
				}
			})
		})
	}
}

// findingPlatform is a platform whose client finds the existing mailbox when its creation is
// refused.
type findingPlatform struct {
	ports.MailPlatform
	existing mailbox.Platform
}

func (p findingPlatform) For(id tenant.GUID) ports.MailTenant {
	return findingTenant{p.MailPlatform.For(id), p.existing}
}

type findingTenant struct {
	ports.MailTenant
	existing mailbox.Platform
}

func (m findingTenant) CreateMailbox(context.Context, mailbox.Spec) (mailbox.Platform, error) {
	return m.existing, nil
}

// TestProvisionSetsNoPasswordForAnEarlierObject checks a request for a completed mailbox that a
// discovery missed, if the creation returns the object that the row had before.
func TestProvisionSetsNoPasswordForAnEarlierObject(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const anna = "anna@example.test"
		h := newFixture(t)
		_, err := h.provision(t.Context(), anna)
		must(t, err)
		existing, err := h.fake.For(guid).Mailbox(t.Context(), anna)
		must(t, err)
		time.Sleep(time.Minute)
		must(t, h.store.SaveDiscovery(t.Context(), h.acc.ID, guid, ports.Found{
			Began: h.Now(), At: h.Now(), Mailboxes: []mailbox.Platform{}, MissedMailboxes: map[string]bool{anna: true},
		}))
		h.Platform = findingPlatform{h.fake, existing}
		h.fake.Fail(fake.Fault{Method: "Mailbox", Kind: outcome.Refused, Code: fault.MailboxNotFound, Times: 1})
		got, err := h.provision(t.Context(), anna)
		must(t, err)
		if got[0].Status != mailbox.ResultExists {
			t.Errorf("got %+v", got[0])
		}
		h.requireComplete(t, 1)
		if n := h.fake.Calls("OpenSignIn"); n != 1 {
			t.Errorf("the password was set %d times", n)
		}
	})
}
