// SPDX-License-Identifier: Apache-2.0

package mailboxes

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"

	"github.com/tenantry/tenantry/adapters/fake"
	"github.com/tenantry/tenantry/core/access"
	"github.com/tenantry/tenantry/core/fault"
	"github.com/tenantry/tenantry/core/mailbox"
	"github.com/tenantry/tenantry/core/outcome"
	"github.com/tenantry/tenantry/ports"
)

const concurrentRequests = 50

// runConcurrently runs concurrentRequests requests and returns their errors. It repeats a request
// that the busy store refused.
func runConcurrently(request func(n int) error) []error {
	errs := make([]error, concurrentRequests)
	var requests sync.WaitGroup
	for n := range concurrentRequests {
		requests.Go(func() {
			for errs[n] = request(n); errors.Is(errs[n], fault.ServiceUnavailable); {
				errs[n] = request(n)
			}
		})
	}
	requests.Wait()
	return errs
}

func TestTheLimitHoldsUnderManyRequests(t *testing.T) {
	fx := newFixture(t)
	admitted := 0
	for _, err := range runConcurrently(func(n int) error {
		_, err := fx.provision(t.Context(), fmt.Sprintf("box-%d@example.test", n))
		return err
	}) {
		switch {
		case err == nil:
			admitted++
		case !errors.Is(err, fault.MailboxLimitReached):
			t.Fatalf("got %v, want mailbox_limit_reached", err)
		}
	}
	if admitted != mailbox.MaxPerDomain {
		t.Fatalf("%d requests were admitted, want %d", admitted, mailbox.MaxPerDomain)
	}
	fx.requireComplete(t, mailbox.MaxPerDomain)
}

func TestConcurrentRequestsCreateEachMailboxOnce(t *testing.T) {
	fx := newFixture(t)
	for _, err := range runConcurrently(func(int) error {
		results, err := fx.provision(t.Context(), "anna@example.test", "ben@example.test", "carl@example.test")
		for _, result := range results {
			if result.Failure != nil {
				return result.Failure
			}
		}
		return err
	}) {
		must(t, err)
	}
	fx.requireComplete(t, 3)
	if creations := fx.fake.Effects("CreateMailbox"); creations != 3 {
		t.Fatalf("%d mailboxes were created, want 3", creations)
	}
}

// contestedStore is a store in which a later request reserves the mailbox of an earlier request.
// The reservation happens just before the earlier request first stores the row with the given
// stage.
type contestedStore struct {
	ports.MailboxStore
	fx    *fixture
	stage mailbox.Stage
	// laterRefused is true if the platform refuses the later request, which then releases the row.
	laterRefused bool
}

func (s *contestedStore) SaveMailbox(ctx context.Context, owner access.AccountID, m mailbox.Mailbox) error {
	if m.Stage == s.stage {
		s.stage = ""
		specs := []mailbox.Spec{{DisplayName: m.DisplayName, Address: m.Address}}
		rows, err := s.MailboxStore.ReserveMailboxes(ctx, owner, m.DomainID, specs, mailbox.MaxPerDomain, s.fx.Now())
		if err == nil && s.laterRefused {
			err = s.MailboxStore.ReleaseMailbox(ctx, owner, rows[0].ID, rows[0].ReservedAt)
		}
		if err != nil {
			return err
		}
	}
	return s.MailboxStore.SaveMailbox(ctx, owner, m)
}

// TestFailedProvisionLeavesALaterReservation checks that a failing request does not delete the row
// while a later request for the same mailbox is in progress.
func TestFailedProvisionLeavesALaterReservation(t *testing.T) {
	fx := newFixture(t)
	fx.Mailboxes = &contestedStore{MailboxStore: fx.store, fx: fx, stage: mailbox.Creating}
	fx.fake.Fail(fake.Fault{Method: "CreateMailbox", Kind: outcome.Throttled, Times: 1})
	_, err := fx.provision(t.Context(), "anna@example.test")
	if !errors.Is(err, fault.ProviderUnavailable) {
		t.Fatalf("got %v, want provider_unavailable", err)
	}
	if fx.reserveAnna(t) {
		t.Error("the row of the later request was released")
	}
}

// TestProvisionSurvivesTheReleaseOfALaterRequest checks that a created mailbox is stored even if a
// later request for the same address was refused and released the row.
func TestProvisionSurvivesTheReleaseOfALaterRequest(t *testing.T) {
	fx := newFixture(t)
	fx.Mailboxes = &contestedStore{MailboxStore: fx.store, fx: fx, stage: mailbox.Created, laterRefused: true}
	results, err := fx.provision(t.Context(), "anna@example.test")
	must(t, err)
	if results[0].Status != mailbox.ResultCreated {
		t.Errorf("got %+v, want a created mailbox", results[0])
	}
	fx.requireComplete(t, 1)
	if got, stored := results[0].Mailbox, fx.storedMailboxes(t)[0]; got.ID != stored.ID || !got.CreatedAt.Equal(stored.CreatedAt) {
		t.Errorf("the answer has the id %s, created at %s; stored is %s, created at %s", got.ID, got.CreatedAt, stored.ID, stored.CreatedAt)
	}
}
