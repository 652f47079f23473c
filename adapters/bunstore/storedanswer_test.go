// SPDX-License-Identifier: Apache-2.0

package bunstore

import (
	"context"
	"testing"
	"time"

	"github.com/tenantry/tenantry/adapters/bunstore/databasetest"
	"github.com/tenantry/tenantry/core/access"
	"github.com/tenantry/tenantry/core/domain"
	"github.com/tenantry/tenantry/core/fault"
	"github.com/tenantry/tenantry/core/idempotency"
	"github.com/tenantry/tenantry/core/mailbox"
	"github.com/tenantry/tenantry/core/tenant"
	"github.com/tenantry/tenantry/ports"
)

func TestStoredChangesAreRecordedAsEffects(t *testing.T) {
	eachStore(t, func(t *testing.T, s *Store) {
		owner := newAccount(t, s, "ann")
		attached := attachTenant(t, s, owner, 1)
		for name, change := range map[string]func(ctx context.Context) error{
			"a saved tenant": func(ctx context.Context) error { return s.SaveTenant(ctx, owner, attached) },
			"a reserved domain": func(ctx context.Context) error {
				_, err := s.ReserveDomain(ctx, owner, attached.GUID, "a.example", 1, now)
				return err
			},
		} {
			ctx, recordedEffects := watchEffects(t)
			must(t, name, change(ctx))
			if !recordedEffects().Changed {
				t.Fatalf("%s: the change is not recorded as an effect", name)
			}
		}
	})
}

func TestReadsAndRefusedChangesAreNotEffects(t *testing.T) {
	eachStore(t, func(t *testing.T, s *Store) {
		owner, bob := newAccount(t, s, "ann"), newAccount(t, s, "bob")
		attached := attachTenant(t, s, owner, 1)
		addDomain(t, s, owner, attached.GUID, "a.example")
		for name, call := range map[string]func(ctx context.Context) error{
			"a read":                   func(ctx context.Context) error { _, err := s.Tenants(ctx, owner); return err },
			"a row of another account": func(ctx context.Context) error { return s.SaveTenant(ctx, bob, attached) },
			"a domain beyond the limit of one domain": func(ctx context.Context) error {
				_, err := s.ReserveDomain(ctx, owner, attached.GUID, "b.example", 1, now)
				return err
			},
			"a refused attachment": func(ctx context.Context) error {
				_, err := s.Attach(ctx, bob, tenant.Tenant{GUID: attached.GUID, ConsentedAt: now})
				return err
			},
		} {
			ctx, recordedEffects := watchEffects(t)
			if err := call(ctx); err != nil && fault.ErrorOf(err).Code == fault.InternalError {
				t.Fatalf("%s: got %v, want success or a refusal", name, err)
			}
			if recordedEffects().Changed {
				t.Fatalf("%s is recorded as an effect", name)
			}
		}
	})
}

func TestRolledBackChangeIsNotAnEffect(t *testing.T) {
	databasetest.Each(t, func(t *testing.T, url func(testing.TB) string) {
		hook := &cancelBefore{}
		s := migratedStore(t, url(t), hook)
		fixture := newSendLimitFixture(t, s, "ann", 1)
		for statement, change := range map[string]func(ctx context.Context) error{
			`INSERT INTO "tenant_licenses"`: func(ctx context.Context) error {
				return s.SaveLicenses(ctx, fixture.owner, fixture.guid, tenant.Licenses{Paid: 1}, now)
			},
			`INSERT INTO "send_tenants"`: func(ctx context.Context) error {
				_, _, err := s.SeizeTenant(ctx, fixture.owner, fixture.guid, longLease)
				return err
			},
		} {
			var effects ports.Effects
			hook.cutOff(t, statement, func(ctx context.Context) error { return change(ports.WithEffects(ctx, &effects)) })
			if effects.Recorded().Changed {
				t.Fatalf("%s: the rolled back change is recorded as an effect", statement)
			}
		}
	})
}

// watchEffects returns a context and a function that returns the effects recorded in the context.
func watchEffects(t testing.TB) (context.Context, func() idempotency.Effects) {
	var effects ports.Effects
	return ports.WithEffects(t.Context(), &effects), effects.Recorded
}

// tenantFixture is a tenant with a domain and two mailboxes.
type tenantFixture struct {
	owner  access.AccountID
	domain domain.Domain
	boxes  []mailbox.Mailbox
}

func newTenantFixture(t testing.TB, s *Store) tenantFixture {
	t.Helper()
	fixture := tenantFixture{owner: newAccount(t, s, "ann")}
	fixture.domain = addDomain(t, s, fixture.owner, attachTenant(t, s, fixture.owner, 1).GUID, "contoso.test")
	for _, local := range []string{"sales", "support"} {
		fixture.boxes = append(fixture.boxes, addMailbox(t, s, fixture.owner, fixture.domain, local, mailbox.Created))
	}
	return fixture
}

// answeredChange is a change that commits a stored answer. isStored reports whether the store has
// the result of the change.
type answeredChange struct {
	change   func(storedAnswer *ports.StoredAnswer) error
	isStored func(t testing.TB) bool
}

func (fixture tenantFixture) changes(ctx context.Context, s *Store) map[string]answeredChange {
	return map[string]answeredChange{
		"a deletion": {
			func(storedAnswer *ports.StoredAnswer) error {
				return s.DeleteTenant(ctx, fixture.owner, fixture.domain.TenantGUID, storedAnswer)
			},
			func(t testing.TB) bool {
				n, err := s.TenantCount(t.Context(), fixture.owner)
				must(t, "count tenants", err)
				return n == 0
			},
		},
		"a saved domain": {
			func(storedAnswer *ports.StoredAnswer) error {
				d := fixture.domain
				d.Verified = true
				return s.SaveDomain(ctx, fixture.owner, d, storedAnswer)
			},
			func(t testing.TB) bool {
				d, err := s.DomainByID(t.Context(), fixture.owner, fixture.domain.ID)
				must(t, "find domain", err)
				return d.Verified
			},
		},
		"concluded mailboxes": {
			func(storedAnswer *ports.StoredAnswer) error {
				return s.ConcludeMailboxes(ctx, fixture.owner, withStageReady(fixture.boxes), storedAnswer)
			},
			func(t testing.TB) bool { return fixture.countReady(t, s) == len(fixture.boxes) },
		},
	}
}

func (fixture tenantFixture) countReady(t testing.TB, s *Store) (n int) {
	t.Helper()
	mailboxes, err := s.Mailboxes(t.Context(), fixture.owner, fixture.domain.TenantGUID)
	must(t, "list mailboxes", err)
	for _, m := range mailboxes {
		if m.Stage == mailbox.Ready {
			n++
		}
	}
	return n
}

func withStageReady(boxes []mailbox.Mailbox) []mailbox.Mailbox {
	mailboxes := make([]mailbox.Mailbox, 0, len(boxes))
	for _, m := range boxes {
		m.Stage = mailbox.Ready
		mailboxes = append(mailboxes, m)
	}
	return mailboxes
}

// newStoredAnswer returns a stored answer with the text "answer", which the attempt at the claimed
// key stores.
func newStoredAnswer(claim ports.Claim, attempt string) *ports.StoredAnswer {
	return &ports.StoredAnswer{Key: claim.Key, Attempt: attempt, Answer: []byte("answer"), Until: now.Add(time.Hour)}
}

func storedAnswerOf(key idempotency.KeyID, attempt string, answer []byte, until time.Time) ports.StoredAnswer {
	return ports.StoredAnswer{Key: key, Attempt: attempt, Answer: answer, Until: until}
}

func TestChangeCommitsItsAnswer(t *testing.T) {
	eachStore(t, func(t *testing.T, s *Store) {
		fixture, key := newTenantFixture(t, s), byte(0)
		for _, label := range []string{"a saved domain", "concluded mailboxes", "a deletion"} {
			key++
			claim := newClaim(fixture.owner, key)
			ctx, recordedEffects := watchEffects(t)
			answered := fixture.changes(ctx, s)[label]
			must(t, label, answered.change(newStoredAnswer(claim, mustClaim(t, s, claim))))
			if !recordedEffects().Completed {
				t.Fatalf("%s is not recorded as completed", label)
			}
			record := requireRecord(t, s, claim.Key)
			if !answered.isStored(t) || string(record.Answer) != "answer" || record.Leased || !record.ExpiresAt.Equal(now.Add(time.Hour)) {
				t.Fatalf("%s: stored is %v, want true; the record of the key is %+v, want the answer for an hour and no lease", label, answered.isStored(t), record)
			}
			// The attempt still holds the key, so it can renew its lease and finish.
			requireLeaseHeld(t, "renew after "+label, true)(s.RenewKeyLease(t.Context(), claim.Key, record.Attempt, longLease))
			requireLeaseHeld(t, "finish after "+label, true)(s.Finish(t.Context(), storedAnswerOf(claim.Key, record.Attempt, []byte("answer"), now)))
		}
	})
}

func TestAttemptThatLostItsKeyChangesNothing(t *testing.T) {
	eachStore(t, func(t *testing.T, s *Store) {
		fixture := newTenantFixture(t, s)
		claim := newClaim(fixture.owner, 1)
		claim.Lease = expiredLease
		lostAttempt := mustClaim(t, s, claim)
		currentAttempt, isClaimed, err := s.TakeOver(t.Context(), lostAttempt, claim)
		must(t, "take over", err)
		if !isClaimed {
			t.Fatal("the key of an attempt whose lease had expired was not taken over")
		}
		ctx, recordedEffects := watchEffects(t)
		for label, answered := range fixture.changes(ctx, s) {
			requireRefusal(t, label, answered.change(newStoredAnswer(claim, lostAttempt)), fault.KeyInProgress)
			if recordedEffects().Completed {
				t.Fatalf("%s is recorded as completed", label)
			}
			if record := requireRecord(t, s, claim.Key); answered.isStored(t) || record.Answer != nil || record.Attempt != currentAttempt {
				t.Fatalf("%s: stored is %v, want false; the record of the key is %+v, want no answer and the attempt %s", label, answered.isStored(t), record, currentAttempt)
			}
		}
	})
}

func TestRefusedChangeCompletesNothing(t *testing.T) {
	eachStore(t, func(t *testing.T, s *Store) {
		fixture, bob := newTenantFixture(t, s), newAccount(t, s, "bob")
		withUnknownMailbox := append(withStageReady(fixture.boxes), mailbox.Mailbox{ID: string(unknownGUID), Address: "gone@contoso.test", Stage: mailbox.Ready})
		claim := newClaim(fixture.owner, 1)
		storedAnswer := newStoredAnswer(claim, mustClaim(t, s, claim))
		requireRefusal(t, "delete", s.DeleteTenant(t.Context(), bob, fixture.domain.TenantGUID, storedAnswer), fault.TenantNotFound)
		requireRefusal(t, "save domain", s.SaveDomain(t.Context(), bob, fixture.domain, storedAnswer), fault.DomainNotFound)
		requireRefusal(t, "conclude for another account", s.ConcludeMailboxes(t.Context(), bob, withStageReady(fixture.boxes), storedAnswer), fault.MailboxNotFound)
		requireRefusal(t, "conclude", s.ConcludeMailboxes(t.Context(), fixture.owner, withUnknownMailbox, storedAnswer), fault.MailboxNotFound)
		if record := requireRecord(t, s, claim.Key); record.Answer != nil || !record.Leased || fixture.countReady(t, s) != 0 {
			t.Fatalf("%d mailboxes are concluded, want 0; the record of the key is %+v, want a lease and no answer", fixture.countReady(t, s), record)
		}
	})
}
