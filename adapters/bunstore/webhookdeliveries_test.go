// SPDX-License-Identifier: Apache-2.0

package bunstore

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/uptrace/bun"

	"github.com/tenantry/tenantry/adapters/bunstore/database"
	"github.com/tenantry/tenantry/core/access"
	"github.com/tenantry/tenantry/core/event"
	"github.com/tenantry/tenantry/core/fault"
	"github.com/tenantry/tenantry/core/webhook"
	"github.com/tenantry/tenantry/ports"
)

func TestDeliveriesAreClaimedOnce(t *testing.T) {
	eachStore(t, func(t *testing.T, s *Store) {
		owner := newAccount(t, s, "a")
		hook, otherHook := addWebhook(t, s, owner, nil), addWebhook(t, s, owner, nil)
		for n := range 10 {
			emitEvents(t, s, owner, domainEvent(guid(1), fmt.Sprint(n), event.DomainAdded))
		}
		fanOut(t, s, owner)
		withoutSlots, err := claimWithSlots(t, s, slotsOf(0, 0), now, hook)
		must(t, "claim without slots", err)
		if len(withoutSlots.Deliveries) != 0 || !slices.Equal(withoutSlots.Waiting, []ports.DueWebhook{dueWebhook(hook)}) || len(withoutSlots.Next) != 0 {
			t.Errorf("without slots: got %+v, want no delivery and the webhook waiting", withoutSlots)
		}
		var mu sync.Mutex
		var claimed []ports.ClaimedDelivery
		errs := concurrently(20, func(int) error {
			got, err := claimWithSlots(t, s, slotsOf(3, 0), now, hook)
			// An empty result means that another claim has locked the webhook.
			for err == nil && len(got.Deliveries) == 0 && len(got.Waiting) > 0 {
				got, err = claimWithSlots(t, s, slotsOf(3, 0), now, hook)
			}
			mu.Lock()
			defer mu.Unlock()
			claimed = append(claimed, got.Deliveries...)
			return err
		})
		for _, err := range errs {
			must(t, "claim", err)
		}
		if len(claimed) != webhook.MaxConcurrent || claimed[0].Event == nil || claimed[0].Event.ID != claimed[0].EventID || claimed[0].Event.Type != event.DomainAdded {
			t.Fatalf("the claimed deliveries are %+v, want %d with their events", claimed, webhook.MaxConcurrent)
		}
		if claimedOfOther := claimDeliveries(t, s, otherHook, now); len(claimedOfOther) != webhook.MaxConcurrent {
			t.Errorf("%d deliveries of otherHook were claimed, want %d", len(claimedOfOther), webhook.MaxConcurrent)
		}
		if !saveTry(t, s, hook, claimed[0].Delivery, 200, now) || saveTry(t, s, hook, claimed[0].Delivery, 200, now) {
			t.Error("the result of a delivery is not stored, or it is stored twice")
		}
		must(t, "release", s.ReleaseDelivery(t.Context(), owner, claimed[1].Delivery))
		if reclaimed := claimDeliveries(t, s, hook, now); len(reclaimed) != 2 || reclaimed[0].ID != claimed[1].ID || saveTry(t, s, hook, claimed[1].Delivery, 200, now) {
			t.Errorf("after a result and a release: claimed %+v, want 2 with the released delivery first, and its old result must not be saved", reclaimed)
		}
		must(t, "end leases", s.EndLeases(t.Context()))
		if reclaimed := claimDeliveries(t, s, hook, now); len(reclaimed) != webhook.MaxConcurrent {
			t.Errorf("after the leases ended, %d deliveries were claimed, want %d", len(reclaimed), webhook.MaxConcurrent)
		}
		_, err = s.SetActive(t.Context(), owner, false)
		must(t, "suspend", err)
		must(t, "end leases", s.EndLeases(t.Context()))
		if got := claimDeliveries(t, s, hook, now); got != nil {
			t.Errorf("deliveries of a suspended account were claimed: %+v", got)
		}
	})
}

func TestRedeliveryAndReplayDeliverEventsAgain(t *testing.T) {
	eachStore(t, func(t *testing.T, s *Store) {
		owner, otherOwner := newAccount(t, s, "a"), newAccount(t, s, "b")
		hook, otherHook := addWebhook(t, s, owner, nil), addWebhook(t, s, owner, nil)
		emitEvents(t, s, owner, domainEvent(guid(1), "1", event.DomainAdded), domainEvent(guid(1), "2", event.DomainAdded))
		fanOut(t, s, owner)
		for _, d := range claimDeliveries(t, s, hook, now) {
			saveTry(t, s, hook, d.Delivery, 200, now)
		}
		delivered := deliveriesOf(t, s, hook, webhook.Delivered)
		if len(delivered) != 2 || delivered[0].ID < delivered[1].ID || len(delivered[0].Attempts) != 1 || delivered[0].Attempts[0].StatusCode != 200 || delivered[0].Tries != 1 {
			t.Fatalf("delivered: %+v, want two, newest first, after one attempt with the status 200", delivered)
		}
		redelivery, err := s.Redeliver(t.Context(), owner, hook.ID, delivered[1].ID, now)
		must(t, "redeliver", err)
		if redelivery.Status != webhook.Pending || redelivery.Tries != 0 || len(redelivery.Attempts) != 1 {
			t.Errorf("redelivered: %+v, want it pending without tries, with its earlier attempt", redelivery)
		}
		if got := claimDeliveries(t, s, hook, now); len(got) != 1 || got[0].ID != delivered[1].ID || got[0].EventID != delivered[1].EventID {
			t.Errorf("claimed: %+v, want only the redelivery", got)
		}
		for label, tc := range map[string]struct {
			owner             access.AccountID
			webhook, delivery string
			want              fault.Code
		}{
			"for another account":               {otherOwner, hook.ID, delivered[0].ID, fault.WebhookNotFound},
			"a delivery of a different webhook": {owner, otherHook.ID, delivered[0].ID, fault.DeliveryNotFound},
			"an unknown delivery":               {owner, hook.ID, newID(), fault.DeliveryNotFound},
		} {
			_, err := s.Redeliver(t.Context(), tc.owner, tc.webhook, tc.delivery, now)
			requireRefusal(t, "redeliver "+label, err, tc.want)
		}
		_, err = s.ListDeliveries(t.Context(), otherOwner, hook.ID, ports.DeliveryQuery{Limit: 1})
		requireRefusal(t, "list", err, fault.WebhookNotFound)
		page, err := s.ListDeliveries(t.Context(), owner, hook.ID, ports.DeliveryQuery{Limit: 1, Before: delivered[0].ID})
		must(t, "list the older delivery", err)
		if len(page) != 1 || page[0].ID != delivered[1].ID {
			t.Errorf("the page before the newer delivery is %+v, want only the older delivery", page)
		}

		must(t, "replay", s.Replay(t.Context(), owner, hook.ID, ports.ReplayFrom{Sequence: 1}))
		fanOut(t, s, owner)
		if deliveries := deliveriesOf(t, s, hook, ""); len(deliveries) != 3 || deliveries[0].EventID != delivered[0].EventID || len(deliveriesOf(t, s, otherHook, "")) != 2 {
			t.Errorf("after a replay: %+v, want one more delivery, of the second event", deliveries)
		}
		must(t, "replay from the end", s.Replay(t.Context(), owner, hook.ID, ports.ReplayFrom{At: time.Now().Add(time.Hour)}))
		requireRefusal(t, "replay from after the end", s.Replay(t.Context(), owner, hook.ID, ports.ReplayFrom{Sequence: 99}), fault.InvalidRequest)
		fanOut(t, s, owner)
		if deliveries := deliveriesOf(t, s, hook, ""); len(deliveries) != 3 {
			t.Errorf("%d deliveries after a replay from the end, want 3", len(deliveries))
		}
		must(t, "replay all", s.Replay(t.Context(), owner, hook.ID, ports.ReplayFrom{At: time.Now().Add(-time.Hour)}))
		fanOut(t, s, owner)
		if deliveries := deliveriesOf(t, s, hook, ""); len(deliveries) != 5 {
			t.Errorf("%d deliveries after a replay of all events, want 5", len(deliveries))
		}
		_, err = s.DropEvents(t.Context(), time.Now().Add(48*time.Hour))
		must(t, "drop events", err)
		requireRefusal(t, "replay dropped events", s.Replay(t.Context(), owner, hook.ID, ports.ReplayFrom{Sequence: 0}), fault.CursorExpired)
	})
}

// TestRedeliverDuringATryKeepsAllTriesButOne redelivers a delivery during its last try.
func TestRedeliverDuringATryKeepsAllTriesButOne(t *testing.T) {
	for status, wantStatus := range map[int]webhook.DeliveryStatus{500: webhook.Pending, 200: webhook.Delivered} {
		eachStore(t, func(t *testing.T, s *Store) {
			owner := newAccount(t, s, "a")
			hook := addWebhook(t, s, owner, nil)
			emitEvents(t, s, owner, domainEvent(guid(1), "1", event.DomainAdded))
			fanOut(t, s, owner)
			execSQL(t, s, "UPDATE webhook_deliveries SET tries = ? WHERE account_id = ?", webhook.MaxTries-1, accountKey(owner))
			delivery := claimDeliveries(t, s, hook, now)[0]
			later := now.Add(time.Minute)
			_, err := s.Redeliver(t.Context(), owner, hook.ID, delivery.ID, later)
			must(t, "redeliver", err)
			if reclaimed := claimDeliveries(t, s, hook, later); len(reclaimed) != 0 {
				t.Errorf("claimed %+v during the try, want no delivery", reclaimed)
			}
			saved, err := s.SaveDeliveries(t.Context(), []ports.TriedDelivery{triedDelivery(hook, delivery.Delivery, status, now)}, later)
			must(t, "save", err)
			got := deliveriesOf(t, s, hook, "")[0]
			if got.Status != wantStatus || got.Tries != 1 || len(got.Attempts) != 1 || !got.NextAttemptAt.Equal(later) || saved[0] != (ports.SavedDelivery{Saved: true, HasDue: wantStatus == webhook.Pending}) {
				t.Errorf("after the status %d: %+v, saved %+v; want it %s and due at once, with one try and one attempt", status, got, saved[0], wantStatus)
			}
		})
	}
}

// TestRepeatedSaveCountsATryOnce saves the same result twice, as after a commit whose answer was
// lost.
func TestRepeatedSaveCountsATryOnce(t *testing.T) {
	eachStore(t, func(t *testing.T, s *Store) {
		owner := newAccount(t, s, "a")
		hook := addWebhook(t, s, owner, nil)
		emitEvents(t, s, owner, domainEvent(guid(1), "1", event.DomainAdded))
		fanOut(t, s, owner)
		d := claimDeliveries(t, s, hook, now)[0]
		for range 2 {
			_, err := s.SaveDeliveries(t.Context(), []ports.TriedDelivery{triedDelivery(hook, d.Delivery, 500, now)}, now)
			must(t, "save", err)
		}
		if got := deliveriesOf(t, s, hook, "")[0]; got.Tries != 1 || got.Status != webhook.Pending {
			t.Errorf("got %+v, want a pending delivery with one try", got)
		}
	})
}

func TestTestDeliveriesAreClaimedWhenTheyAreMade(t *testing.T) {
	eachStore(t, func(t *testing.T, s *Store) {
		owner, otherOwner := newAccount(t, s, "a"), newAccount(t, s, "b")
		hook := addWebhook(t, s, owner, func(hook *webhook.Webhook) { hook.Status = webhook.Disabled })
		_, _, err := s.ClaimTest(t.Context(), otherOwner, hook.ID, testLease, now)
		requireRefusal(t, "test for another account", err, fault.WebhookNotFound)
		var claimed []ports.ClaimedDelivery
		for n := range webhook.MaxConcurrent {
			d, isClaimed, err := s.ClaimTest(t.Context(), owner, hook.ID, testLease, now)
			must(t, "test", err)
			if !isClaimed || d.Event == nil || d.Event.Type != webhook.TestType || d.EventID != d.Event.ID {
				t.Fatalf("test %d: claimed is %v, the delivery is %+v, want a claimed test event", n, isClaimed, d)
			}
			claimed = append(claimed, d)
		}
		if _, isClaimed, err := s.ClaimTest(t.Context(), owner, hook.ID, testLease, now); isClaimed || err != nil {
			t.Errorf("one more test: claimed is %v (%v), want false", isClaimed, err)
		}
		if !saveTry(t, s, hook, claimed[0].Delivery, 200, now) {
			t.Error("the result of a test is not stored")
		}
	})
}

func TestOldDeliveriesAreDropped(t *testing.T) {
	eachStore(t, func(t *testing.T, s *Store) {
		owner := newAccount(t, s, "a")
		hook := addWebhook(t, s, owner, nil)
		for n := range 3 {
			emitEvents(t, s, owner, domainEvent(guid(1), fmt.Sprint(n), event.DomainAdded))
			_, err := fanOutOnce(t, s, owner, 10, now.Add(time.Duration(n)*time.Hour))
			must(t, "fan out", err)
		}
		deliveries := deliveriesOf(t, s, hook, "")
		listOlder := func(webhookID string, delivery webhook.Delivery) ([]webhook.Delivery, error) {
			return s.ListDeliveries(t.Context(), owner, webhookID, ports.DeliveryQuery{Before: delivery.ID, Limit: 10})
		}
		if remaining, err := listOlder(hook.ID, deliveries[1]); err != nil || len(remaining) != 1 {
			t.Errorf("before the oldest deliveries were dropped: got %v, %v, want one older delivery", remaining, err)
		}
		_, err := listOlder(addWebhook(t, s, owner, nil).ID, deliveries[1])
		requireRefusal(t, "a cursor of a different webhook", err, fault.InvalidRequest)
		drop := func(limit int) int {
			t.Helper()
			n, err := s.DropDeliveries(t.Context(), now.Add(2*time.Hour), limit)
			must(t, "drop", err)
			return n
		}
		if first, second, third := drop(1), drop(5), drop(5); first != 1 || second != 1 || third != 0 || len(deliveriesOf(t, s, hook, "")) != 1 {
			t.Errorf("the calls dropped %d, %d and %d deliveries, want 1, 1 and 0, so that one is left", first, second, third)
		}
		_, err = listOlder(hook.ID, deliveries[1])
		requireRefusal(t, "a cursor of a dropped delivery", err, fault.CursorExpired)
		if remaining, err := listOlder(hook.ID, deliveries[0]); err != nil || len(remaining) != 0 {
			t.Errorf("deliveries older than the remaining one: got %v, %v, want none", remaining, err)
		}
	})
}

// TestTriesAtAnOldURLDoNotCount changes the URL of a failing webhook while a delivery is claimed.
func TestTriesAtAnOldURLDoNotCount(t *testing.T) {
	eachStore(t, func(t *testing.T, s *Store) {
		owner := newAccount(t, s, "a")
		hook := addWebhook(t, s, owner, nil)
		emitEvents(t, s, owner, domainEvent(guid(1), "d", event.DomainAdded))
		fanOut(t, s, owner)
		saveTry(t, s, hook, claimDeliveries(t, s, hook, now)[0].Delivery, 500, now)
		delivery := claimDeliveries(t, s, hook, now.Add(24*time.Hour))[0].Delivery
		_, err := s.ChangeWebhook(t.Context(), owner, hook.ID, "", nil, func(hook *webhook.Webhook) { hook.URL = "https://new.example.test/in" })
		must(t, "change the URL", err)
		if saveTry(t, s, hook, delivery, 410, now.Add(24*time.Hour)) {
			t.Error("a late 410 of the old URL is stored")
		}
		stored, err := s.Webhook(t.Context(), owner, hook.ID)
		must(t, "read", err)
		if stored.Status != webhook.Enabled || !stored.FailingSince.IsZero() {
			t.Errorf("the webhook is %s and failing since %s, want enabled and not failing", stored.Status, stored.FailingSince)
		}
		if claimedAtNewURL := claimDeliveries(t, s, hook, now.Add(24*time.Hour)); len(claimedAtNewURL) != 1 {
			t.Errorf("%d deliveries were claimed for the new URL, want 1", len(claimedAtNewURL))
		}
	})
}

// TestDeliveriesAreClaimedTogether claims deliveries of several webhooks in one call. Each webhook
// must get its oldest due deliveries with their events, as many as its standing and the slots
// allow.
func TestDeliveriesAreClaimedTogether(t *testing.T) {
	eachStore(t, func(t *testing.T, s *Store) {
		accountA, accountB, suspended := newAccount(t, s, "a"), newAccount(t, s, "b"), newAccount(t, s, "c")
		proven, failing, unproven := addWebhook(t, s, accountA, nil), addWebhook(t, s, accountB, func(hook *webhook.Webhook) { hook.FailingSince = now }), addWebhook(t, s, accountB, nil)
		notDue, disabled, removed, hookOfSuspended := addWebhook(t, s, accountB, nil), addWebhook(t, s, accountA, nil), addWebhook(t, s, accountA, nil), addWebhook(t, s, suspended, nil)
		for _, owner := range []access.AccountID{accountA, accountB, suspended} {
			for n := range 5 {
				emitEvents(t, s, owner, domainEvent(guid(1), fmt.Sprint(n), event.DomainAdded))
				_, err := fanOutOnce(t, s, owner, 100, now.Add(time.Duration(n)*time.Second))
				must(t, "fan out", err)
			}
		}
		// The first try of each delivery of notDue fails, so no delivery is due before now + 1 h.
		for _, d := range claimDeliveries(t, s, notDue, now.Add(time.Hour)) {
			saveTry(t, s, notDue, d.Delivery, 500, now.Add(time.Hour))
		}
		saveTry(t, s, notDue, claimDeliveries(t, s, notDue, now.Add(time.Hour))[0].Delivery, 500, now.Add(2*time.Hour))
		_, err := s.ChangeWebhook(t.Context(), accountA, disabled.ID, "", nil, func(hook *webhook.Webhook) { hook.Status = webhook.Disabled })
		must(t, "disable", err)
		must(t, "remove", s.RemoveWebhook(t.Context(), accountA, removed.ID, nil))
		_, err = s.SetActive(t.Context(), suspended, false)
		must(t, "suspend", err)

		slots := slotsOf(100, 100)
		slots.Responsiveness = func(id string) webhook.Responsiveness { return webhook.Responsiveness{Accepted: id != unproven.ID} }
		got, err := claimWithSlots(t, s, slots, now.Add(time.Minute), proven, failing, unproven, notDue, disabled, removed, hookOfSuspended, proven)
		must(t, "claim", err)
		claimed := map[string][]string{}
		for _, d := range got.Deliveries {
			claimed[d.WebhookID] = append(claimed[d.WebhookID], d.Event.Subject.ID)
			if d.Webhook.ID != d.WebhookID || d.Event.ID != d.EventID || d.Event.Account != d.Webhook.Account || d.Standing != slots.Standing(d.Webhook) {
				t.Errorf("claimed %+v, want it with its own webhook, event and standing", d)
			}
		}
		want := map[string][]string{proven.ID: {"0", "1", "2", "3"}, failing.ID: {"0"}, unproven.ID: {"0"}}
		if !maps.EqualFunc(claimed, want, slices.Equal) || len(got.Waiting) != 0 {
			t.Errorf("claimed the events %v, want %v; waiting are %v, want none", claimed, want, got.Waiting)
		}
		if next := got.Next[dueWebhook(notDue)]; len(got.Next) != 1 || !next.Equal(now.Add(time.Hour+5*time.Second)) {
			t.Errorf("the next due times are %v, want one, of the webhook that is not due, an hour and 5 seconds from now", got.Next)
		}
		must(t, "end leases", s.EndLeases(t.Context()))
		fewSlots := slotsOf(100, 0)
		fewSlots.Responsiveness = slots.Responsiveness
		got, err = claimWithSlots(t, s, fewSlots, now.Add(time.Minute), failing, unproven, proven)
		must(t, "claim with slots for proven webhooks only", err)
		if len(got.Deliveries) != webhook.MaxConcurrent || len(got.Waiting) != 2 {
			t.Errorf("%d deliveries were claimed, want %d; waiting are %v, want 2 webhooks", len(got.Deliveries), webhook.MaxConcurrent, got.Waiting)
		}
	})
}

// TestClaimsDoNotWaitForLockedWebhooks checks that a claim skips and reports the webhooks that
// another transaction has locked. SQLite has only one writing transaction at a time, so the test
// needs PostgreSQL.
func TestClaimsDoNotWaitForLockedWebhooks(t *testing.T) {
	eachStore(t, func(t *testing.T, s *Store) {
		if !database.IsPostgres(s.db) {
			return
		}
		owner := newAccount(t, s, "a")
		locked, free, disabled := addWebhook(t, s, owner, nil), addWebhook(t, s, owner, nil), addWebhook(t, s, owner, nil)
		emitEvents(t, s, owner, domainEvent(guid(1), "d", event.DomainAdded))
		fanOut(t, s, owner)
		_, err := s.ChangeWebhook(t.Context(), owner, disabled.ID, "", nil, func(hook *webhook.Webhook) { hook.Status = webhook.Disabled })
		must(t, "disable", err)
		must(t, "lock", s.inTransaction(t.Context(), "lock webhook", func(ctx context.Context, tx bun.IDB) error {
			if _, err := s.lockWebhook(ctx, tx, accountKey(owner), locked.ID); err != nil {
				return err
			}
			// If the claim waited for the lock, the timeout would make it fail.
			claimCtx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			got, err := s.ClaimDeliveries(claimCtx, convertAll([]webhook.Webhook{locked, free, disabled}, dueWebhook), manySlots, testLease, now)
			must(t, "claim", err)
			if len(got.Deliveries) != 1 || got.Deliveries[0].WebhookID != free.ID || !slices.Equal(got.Waiting, []ports.DueWebhook{dueWebhook(locked)}) {
				t.Errorf("claimed %+v, waiting %v, want a delivery of the free webhook, and the locked webhook waiting", got.Deliveries, got.Waiting)
			}
			return nil
		}))
		if got := claimDeliveries(t, s, locked, now); len(got) != 1 {
			t.Errorf("after the transaction with the lock: claimed %+v, want one delivery", got)
		}
	})
}

// TestResultsAreSavedTogether saves results of several webhooks at once. Each result must change
// only its own webhook.
func TestResultsAreSavedTogether(t *testing.T) {
	eachStore(t, func(t *testing.T, s *Store) {
		accountA, accountB := newAccount(t, s, "a"), newAccount(t, s, "b")
		succeeding, failing, disabled := addWebhook(t, s, accountA, nil), addWebhook(t, s, accountB, nil), addWebhook(t, s, accountB, nil)
		removed, late := addWebhook(t, s, accountA, nil), addWebhook(t, s, accountA, nil)
		var batch []ports.TriedDelivery
		for n := range 6 {
			emitEvents(t, s, accountA, domainEvent(guid(1), fmt.Sprint(n), event.DomainAdded))
		}
		emitEvents(t, s, accountB, domainEvent(guid(1), "b", event.DomainAdded))
		fanOut(t, s, accountA)
		fanOut(t, s, accountB)
		for _, d := range claimDeliveries(t, s, succeeding, now) {
			batch = append(batch, triedDelivery(succeeding, d.Delivery, 200, now))
		}
		for _, try := range []struct {
			hook   webhook.Webhook
			status int
		}{{failing, 500}, {disabled, 410}, {removed, 200}, {late, 200}} {
			batch = append(batch, triedDelivery(try.hook, claimDeliveries(t, s, try.hook, now)[0].Delivery, try.status, now))
		}
		must(t, "remove", s.RemoveWebhook(t.Context(), accountA, removed.ID, nil))
		execSQL(t, s, "UPDATE webhook_deliveries SET leased_until = 1 WHERE account_id = ?", accountKey(accountA))
		// The leases have expired. After a second claim of late, the first result is refused.
		claimDeliveries(t, s, late, now)
		saved, err := s.SaveDeliveries(t.Context(), batch, now)
		must(t, "save", err)
		savedHasDue, savedNotDue := ports.SavedDelivery{Saved: true, HasDue: true}, ports.SavedDelivery{Saved: true}
		want := []ports.SavedDelivery{
			savedHasDue, savedHasDue, savedHasDue, savedHasDue, // of succeeding
			savedNotDue, savedNotDue, {}, {HasDue: true}, // of failing, disabled, removed and late
		}
		if !slices.Equal(saved, want) {
			t.Errorf("saved %+v, want %+v", saved, want)
		}
		for label, tc := range map[string]struct {
			hook      webhook.Webhook
			delivered int
			status    webhook.Status
			isFailing bool
		}{
			"succeeding": {succeeding, webhook.MaxConcurrent, webhook.Enabled, false}, "failing": {failing, 0, webhook.Enabled, true},
			"disabled": {disabled, 0, webhook.Disabled, true}, "late": {late, 0, webhook.Enabled, false},
		} {
			stored, err := s.Webhook(t.Context(), tc.hook.Account, tc.hook.ID)
			must(t, "read", err)
			if n := len(deliveriesOf(t, s, tc.hook, webhook.Delivered)); n != tc.delivered || stored.Status != tc.status || stored.IsFailing() != tc.isFailing {
				t.Errorf("webhook %s: %d delivered, want %d; the status is %s, want %s; failing is %v, want %v",
					label, n, tc.delivered, stored.Status, tc.status, stored.IsFailing(), tc.isFailing)
			}
		}
		if reclaimed := claimDeliveries(t, s, failing, now.Add(time.Minute)); len(reclaimed) != 1 || len(reclaimed[0].Attempts) != 1 {
			t.Errorf("the failed delivery is claimed again as %+v, want one attempt", reclaimed)
		}
	})
}

// TestTriesThatSentNothingDoNotCountForTheEndpoint saves failed tries in which nothing was sent.
func TestTriesThatSentNothingDoNotCountForTheEndpoint(t *testing.T) {
	for _, failingSince := range []time.Time{{}, now.Add(-webhook.DisableAfter)} {
		eachStore(t, func(t *testing.T, s *Store) {
			owner := newAccount(t, s, "a")
			hook := addWebhook(t, s, owner, func(hook *webhook.Webhook) { hook.FailingSince = failingSince })
			emitEvents(t, s, owner, domainEvent(guid(1), "1", event.DomainAdded))
			fanOut(t, s, owner)
			tried := triedDelivery(hook, claimDeliveries(t, s, hook, now)[0].Delivery, 0, now)
			tried.NotSent = true
			_, err := s.SaveDeliveries(t.Context(), []ports.TriedDelivery{tried}, now)
			must(t, "save", err)
			stored, err := s.Webhook(t.Context(), owner, hook.ID)
			must(t, "read", err)
			if got := deliveriesOf(t, s, hook, webhook.Pending); len(got) != 1 || len(got[0].Attempts) != 1 || !stored.FailingSince.Equal(failingSince) || stored.Status != webhook.Enabled {
				t.Errorf("the pending deliveries are %+v, want one with an attempt; the webhook is %s and failing since %v, want it enabled and %v", got, stored.Status, stored.FailingSince, failingSince)
			}
		})
	}
}
