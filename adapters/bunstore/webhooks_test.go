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
	"github.com/tenantry/tenantry/adapters/testserver/soak"
	"github.com/tenantry/tenantry/core/access"
	"github.com/tenantry/tenantry/core/event"
	"github.com/tenantry/tenantry/core/fault"
	"github.com/tenantry/tenantry/core/tenant"
	"github.com/tenantry/tenantry/core/webhook"
	"github.com/tenantry/tenantry/ports"
)

const testLease = time.Hour

func addWebhook(t testing.TB, s *Store, owner access.AccountID, change func(*webhook.Webhook)) webhook.Webhook {
	t.Helper()
	hook := webhook.Webhook{ID: newID(), Account: owner, URL: "https://hooks.example.test/in", Status: webhook.Enabled,
		Secrets: webhook.Secrets{Current: []byte("sealed")}, CreatedAt: now}
	if change != nil {
		change(&hook)
	}
	must(t, "add webhook", s.AddWebhook(t.Context(), hook, nil))
	stored, err := s.Webhook(t.Context(), owner, hook.ID)
	must(t, "read webhook", err)
	return stored
}

func fanOut(t testing.TB, s *Store, owner access.AccountID) (waiting []string) {
	t.Helper()
	result, err := fanOutOnce(t, s, owner, 100, now)
	must(t, "fan out", err)
	if result.More {
		t.Fatal("more events follow")
	}
	for _, hook := range result.Waiting {
		waiting = append(waiting, hook.ID)
	}
	return waiting
}

// fanOutOnce fans out events without slots, so that it claims nothing.
func fanOutOnce(t testing.TB, s *Store, owner access.AccountID, limit int, at time.Time) (ports.FanOutResult, error) {
	t.Helper()
	return s.FanOut(t.Context(), []access.AccountID{owner}, limit, slotsOf(0, 0), testLease, at)
}

// slotsOf returns slots for total deliveries, of which failing are for failing webhooks. No webhook
// counts as unproven.
func slotsOf(total, failing int) ports.Slots {
	return ports.Slots{All: total, Unproven: failing, Failing: failing, Conduct: func(string) webhook.Conduct { return webhook.Conduct{Accepted: true} }}
}

// manySlots are more slots than these tests need.
var manySlots = slotsOf(1000, 1000)

func claimDeliveries(t testing.TB, s *Store, hook webhook.Webhook, at time.Time) []ports.ClaimedDelivery {
	t.Helper()
	claimed, err := claimWithSlots(t, s, manySlots, at, hook)
	must(t, "claim", err)
	return claimed.Deliveries
}

func claimWithSlots(t testing.TB, s *Store, slots ports.Slots, at time.Time, hooks ...webhook.Webhook) (ports.ClaimResult, error) {
	t.Helper()
	return s.ClaimDeliveries(context.WithoutCancel(t.Context()), convertAll(hooks, dueWebhook), slots, testLease, at)
}

// dueWebhook returns the reference by which ClaimDeliveries gets a webhook.
func dueWebhook(hook webhook.Webhook) ports.DueWebhook {
	return ports.DueWebhook{Account: hook.Account, ID: hook.ID}
}

func deliveriesOf(t testing.TB, s *Store, hook webhook.Webhook, status webhook.DeliveryStatus) []webhook.Delivery {
	t.Helper()
	list, err := s.ListDeliveries(t.Context(), hook.Account, hook.ID, ports.DeliveryQuery{Status: status, Limit: 1000})
	must(t, "list deliveries", err)
	return list
}

func saveTry(t testing.TB, s *Store, hook webhook.Webhook, d webhook.Delivery, status int, at time.Time) bool {
	t.Helper()
	saved, err := s.SaveDeliveries(t.Context(), []ports.TriedDelivery{triedDelivery(hook, d, status, at)}, at)
	must(t, "save delivery", err)
	return saved[0].Saved
}

// triedDelivery returns a delivery after an attempt that the endpoint answered with this status.
func triedDelivery(hook webhook.Webhook, d webhook.Delivery, status int, at time.Time) ports.TriedDelivery {
	response := webhook.Response{StatusCode: status}
	return ports.TriedDelivery{Delivery: d.AfterTry(response, at, 0), Account: hook.Account, Gone: response.IsGone()}
}

func TestWebhooksAreStored(t *testing.T) {
	eachStore(t, func(t *testing.T, s *Store) {
		accountA, accountB := newAccount(t, s, "a"), newAccount(t, s, "b")
		webhook1 := addWebhook(t, s, accountA, func(hook *webhook.Webhook) {
			hook.Types, hook.Tenants, hook.Description = []event.Type{event.DomainAdded, event.KeyRevoked}, []tenant.GUID{guid(1)}, hostileText
		})
		if !slices.Equal(webhook1.Types, []event.Type{event.DomainAdded, event.KeyRevoked}) || webhook1.Tenants[0] != guid(1) || webhook1.Description != hostileText ||
			string(webhook1.Secrets.Current) != "sealed" || webhook1.Secrets.Previous != nil || webhook1.IsFailing() || !webhook1.CreatedAt.Equal(now) {
			t.Fatalf("stored as %+v", webhook1)
		}
		webhook2 := addWebhook(t, s, accountA, nil)
		list, err := s.Webhooks(t.Context(), accountA, "", 1)
		must(t, "list", err)
		page2, err := s.Webhooks(t.Context(), accountA, list[0].ID, 10)
		must(t, "list the rest", err)
		if list[0].ID != webhook2.ID || len(page2) != 1 || page2[0].ID != webhook1.ID {
			t.Errorf("pages %v, %v", list, page2)
		}
		_, foreign := s.Webhook(t.Context(), accountB, webhook1.ID)
		_, unknown := s.Webhook(t.Context(), accountB, newID())
		requireRefusal(t, "foreign webhook", foreign, fault.WebhookNotFound)
		requireSameError(t, "webhook", foreign, unknown)
		requireRefusal(t, "remove a foreign webhook", s.RemoveWebhook(t.Context(), accountB, webhook1.ID, nil), fault.WebhookNotFound)
		_, err = s.ChangeWebhook(t.Context(), accountB, webhook1.ID, "", nil, func(*webhook.Webhook) { t.Error("changed") })
		requireRefusal(t, "change a foreign webhook", err, fault.WebhookNotFound)
		requireRefusal(t, "replay to a foreign webhook", s.Replay(t.Context(), accountB, webhook1.ID, ports.ReplayFrom{}), fault.WebhookNotFound)
		changed, err := s.ChangeWebhook(t.Context(), accountA, webhook1.ID, "", nil, func(hook *webhook.Webhook) {
			hook.URL, hook.Types, hook.Secrets = "https://other.example.test", nil, hook.Secrets.Rotate([]byte("new"), time.Hour, now)
		})
		must(t, "change", err)
		read, err := s.Webhook(t.Context(), accountA, webhook1.ID)
		must(t, "read", err)
		if read.URL != changed.URL || len(read.Types) != 0 || string(read.Secrets.Previous) != "sealed" || !read.Secrets.PreviousUntil.Equal(now.Add(time.Hour)) {
			t.Errorf("changed to %+v", read)
		}
		if other, err := s.Webhook(t.Context(), accountA, webhook2.ID); err != nil || other.URL != webhook2.URL {
			t.Errorf("the other webhook is %+v, %v", other, err)
		}
		must(t, "remove", s.RemoveWebhook(t.Context(), accountA, webhook1.ID, nil))
		if _, err := s.Webhook(t.Context(), accountA, webhook2.ID); err != nil {
			t.Errorf("the other webhook: %v", err)
		}
	})
}

func TestTheNumberOfWebhooksIsLimited(t *testing.T) {
	eachStore(t, func(t *testing.T, s *Store) {
		accountA, accountB := newAccount(t, s, "a"), newAccount(t, s, "b")
		addWebhook(t, s, accountB, nil)
		errs := concurrently(2*webhook.MaxPerAccount, func(int) error {
			return s.AddWebhook(t.Context(), webhook.Webhook{ID: newID(), Account: accountA, URL: "https://x.test", Status: webhook.Enabled,
				Secrets: webhook.Secrets{Current: []byte("x")}, CreatedAt: now}, nil)
		})
		if n := countWinners(t, errs, fault.WebhookLimitReached); n != webhook.MaxPerAccount {
			t.Errorf("%d were added", n)
		}
	})
}

// TestFanOutGivesEachEventOnce checks that each webhook gets each event that it wants once, while
// several processes fan out and events are written.
func TestFanOutGivesEachEventOnce(t *testing.T) {
	eachStore(t, func(t *testing.T, s *Store) {
		owner, other := newAccount(t, s, "a"), newAccount(t, s, "b")
		emitEvents(t, s, owner, domainEvent(guid(1), "before", event.DomainAdded))
		allTypes := addWebhook(t, s, owner, nil)
		oneType := addWebhook(t, s, owner, func(hook *webhook.Webhook) { hook.Types = []event.Type{event.DomainRemoved} })
		bounded := addWebhook(t, s, owner, func(hook *webhook.Webhook) { hook.Tenants = []tenant.GUID{guid(2)} })
		disabled := addWebhook(t, s, owner, func(hook *webhook.Webhook) { hook.Status = webhook.Disabled })
		foreign := addWebhook(t, s, other, nil)
		const writers, rounds = 4, 10
		errs := concurrently(2*writers, func(i int) error {
			for n := range rounds {
				if i < writers {
					emitEvents(t, s, owner, domainEvent(guid(1), fmt.Sprint(i, n), event.DomainAdded), domainEvent(guid(2), fmt.Sprint(i, n), event.DomainRemoved))
					continue
				}
				if _, err := fanOutOnce(t, s, owner, 7, now); err != nil {
					return err
				}
			}
			return nil
		})
		if n := countWinners(t, errs, nil); n != len(errs) {
			t.Fatal(errs)
		}
		for hasMore := true; hasMore; {
			fanned, err := fanOutOnce(t, s, owner, 7, now)
			must(t, "fan out", err)
			hasMore = fanned.More
		}
		for _, tt := range []struct {
			hook webhook.Webhook
			want int
		}{{allTypes, 2 * writers * rounds}, {oneType, writers * rounds}, {bounded, writers * rounds}, {disabled, 0}, {foreign, 0}} {
			seen := map[string]bool{}
			for _, d := range deliveriesOf(t, s, tt.hook, "") {
				seen[d.EventID] = true
			}
			if n := len(deliveriesOf(t, s, tt.hook, "")); n != tt.want || len(seen) != n {
				t.Errorf("%d deliveries of %d events, want %d", n, len(seen), tt.want)
			}
		}
		lagging, err := s.AccountsWithNewEvents(t.Context(), 10)
		must(t, "list accounts", err)
		if len(lagging) != 0 {
			t.Errorf("accounts with unread events: %v", lagging)
		}
	})
}

func TestOnlyAccountsWithUnreadEventsAreListedAndInRandomOrder(t *testing.T) {
	eachStore(t, func(t *testing.T, s *Store) {
		accountA, accountB, accountC := newAccount(t, s, "a"), newAccount(t, s, "b"), newAccount(t, s, "c")
		for _, owner := range []access.AccountID{accountA, accountB, accountC} {
			addWebhook(t, s, owner, nil)
			addWebhook(t, s, owner, nil)
			emitEvents(t, s, owner, domainEvent(guid(1), "d", event.DomainAdded))
		}
		_, err := s.SetActive(t.Context(), accountB, false)
		must(t, "suspend", err)
		want := []access.AccountID{accountA, accountC}
		slices.Sort(want)
		got, err := s.AccountsWithNewEvents(t.Context(), 10)
		must(t, "list", err)
		slices.Sort(got)
		if !slices.Equal(got, want) {
			t.Errorf("accounts with unread events: %v, want %v", got, want)
		}
		first := map[access.AccountID]bool{}
		for range 200 { // each account must come first sometimes, so that none waits for all others
			listed, err := s.AccountsWithNewEvents(t.Context(), 1)
			must(t, "list one", err)
			if len(listed) != 1 {
				t.Fatalf("a list of one has %v", listed)
			}
			first[listed[0]] = true
		}
		if len(first) != 2 || first[accountB] {
			t.Errorf("only %v are first", first)
		}
		if ids := fanOut(t, s, accountA); len(ids) != 2 {
			t.Errorf("%d webhooks got deliveries", len(ids))
		}
		if got, err := s.AccountsWithNewEvents(t.Context(), 10); err != nil || !slices.Equal(got, []access.AccountID{accountC}) {
			t.Errorf("accounts with unread events: %v, %v", got, err)
		}
	})
}

func TestDeliveriesAreClaimedOnce(t *testing.T) {
	eachStore(t, func(t *testing.T, s *Store) {
		owner := newAccount(t, s, "a")
		hook, other := addWebhook(t, s, owner, nil), addWebhook(t, s, owner, nil)
		for n := range 10 {
			emitEvents(t, s, owner, domainEvent(guid(1), fmt.Sprint(n), event.DomainAdded))
		}
		fanOut(t, s, owner)
		none, err := claimWithSlots(t, s, slotsOf(0, 0), now, hook)
		must(t, "claim without slots", err)
		if len(none.Deliveries) != 0 || !slices.Equal(none.Waiting, []ports.DueWebhook{dueWebhook(hook)}) || len(none.Next) != 0 {
			t.Errorf("claimed without slots: %+v", none)
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
		countWinners(t, errs, nil)
		if len(claimed) != webhook.MaxConcurrent || claimed[0].Event == nil || claimed[0].Event.ID != claimed[0].EventID || claimed[0].Event.Type != event.DomainAdded {
			t.Fatalf("claimed %+v", claimed)
		}
		if more := claimDeliveries(t, s, other, now); len(more) != webhook.MaxConcurrent {
			t.Errorf("the other webhook has %d", len(more))
		}
		if !saveTry(t, s, hook, claimed[0].Delivery, 200, now) || saveTry(t, s, hook, claimed[0].Delivery, 200, now) {
			t.Error("a result is stored once")
		}
		must(t, "release", s.ReleaseDelivery(t.Context(), owner, claimed[1].Delivery))
		if again := claimDeliveries(t, s, hook, now); len(again) != 2 || again[0].ID != claimed[1].ID || saveTry(t, s, hook, claimed[1].Delivery, 200, now) {
			t.Errorf("claimed after a result and a release: %+v", again)
		}
		must(t, "end leases", s.EndLeases(t.Context()))
		if again := claimDeliveries(t, s, hook, now); len(again) != webhook.MaxConcurrent {
			t.Errorf("claimed after the leases ended: %d", len(again))
		}
		_, err = s.SetActive(t.Context(), owner, false)
		must(t, "suspend", err)
		must(t, "end leases", s.EndLeases(t.Context()))
		if got := claimDeliveries(t, s, hook, now); got != nil {
			t.Errorf("claimed for a suspended account: %+v", got)
		}
	})
}

func TestFailingWebhooksAreDisabled(t *testing.T) {
	eachStore(t, func(t *testing.T, s *Store) {
		owner := newAccount(t, s, "a")
		hook := addWebhook(t, s, owner, func(hook *webhook.Webhook) { hook.Types = []event.Type{event.DomainAdded} })
		watcher := addWebhook(t, s, owner, func(hook *webhook.Webhook) { hook.Types = []event.Type{event.WebhookDisabled} })
		for n := range 3 {
			emitEvents(t, s, owner, domainEvent(guid(1), fmt.Sprint(n), event.DomainAdded))
		}
		fanOut(t, s, owner)
		first := claimDeliveries(t, s, hook, now)
		saveTry(t, s, hook, first[0].Delivery, 500, now)
		saveTry(t, s, hook, first[1].Delivery, 500, now.Add(time.Minute))
		read, err := s.Webhook(t.Context(), owner, hook.ID)
		must(t, "read", err)
		again, err := claimWithSlots(t, s, slotsOf(10, 0), now.Add(5*time.Second), hook)
		must(t, "claim without a slot for failing webhooks", err)
		if !read.FailingSince.Equal(now) || len(again.Waiting) != 0 || len(again.Deliveries) != 0 || !again.Next[dueWebhook(hook)].Equal(now.Add(time.Minute+5*time.Second)) {
			t.Errorf("failing since %v, due while a delivery is claimed: %+v", read.FailingSince, again)
		}
		saveTry(t, s, hook, first[2].Delivery, 200, now)
		if read, err := s.Webhook(t.Context(), owner, hook.ID); err != nil || read.IsFailing() {
			t.Errorf("after a success: %+v, %v", read, err)
		}
		anHourLater := claimDeliveries(t, s, hook, now.Add(time.Hour))
		saveTry(t, s, hook, anHourLater[0].Delivery, 500, now.Add(time.Hour))
		if n, err := s.DisableFailing(t.Context(), now.Add(2*time.Hour), 10); n != 0 || err != nil {
			t.Fatalf("%d with pending deliveries are disabled, %v", n, err)
		}
		saveTry(t, s, hook, anHourLater[1].Delivery, 500, now.Add(time.Hour+webhook.DisableAfter-time.Second))
		if read, err := s.Webhook(t.Context(), owner, hook.ID); err != nil || read.Status != webhook.Enabled {
			t.Fatalf("disabled too early: %+v, %v", read, err)
		}
		lateClaim := claimDeliveries(t, s, hook, now.Add(24*time.Hour))
		saveTry(t, s, hook, lateClaim[0].Delivery, 500, now.Add(time.Hour+webhook.DisableAfter))
		read, err = s.Webhook(t.Context(), owner, hook.ID)
		must(t, "read", err)
		if pending := deliveriesOf(t, s, hook, webhook.Pending); read.Status != webhook.Disabled || len(pending) != 0 || claimDeliveries(t, s, hook, now.Add(240*time.Hour)) != nil {
			t.Errorf("status %s, pending %v", read.Status, pending)
		}
		fanOut(t, s, owner)
		toldDeliveries := claimDeliveries(t, s, watcher, now)
		if len(toldDeliveries) != 1 || toldDeliveries[0].Event.Subject.ID != hook.ID {
			t.Errorf("the other webhook was told %+v", toldDeliveries)
		}
		emitEvents(t, s, owner, domainEvent(guid(1), "missed", event.DomainAdded))
		_, err = s.ChangeWebhook(t.Context(), owner, hook.ID, "", nil, func(hook *webhook.Webhook) { hook.Status = webhook.Enabled })
		must(t, "enable", err)
		emitEvents(t, s, owner, domainEvent(guid(1), "new", event.DomainAdded))
		fanOut(t, s, owner)
		if got := claimDeliveries(t, s, hook, now); len(got) != 1 || got[0].Event.Subject.ID != "new" {
			t.Errorf("after it was enabled: %+v", got)
		}
	})
}

func TestAGoneEndpointIsDisabledAtOnce(t *testing.T) {
	eachStore(t, func(t *testing.T, s *Store) {
		owner := newAccount(t, s, "a")
		hook := addWebhook(t, s, owner, nil)
		emitEvents(t, s, owner, domainEvent(guid(1), "d", event.DomainAdded), domainEvent(guid(1), "e", event.DomainAdded))
		fanOut(t, s, owner)
		saveTry(t, s, hook, claimDeliveries(t, s, hook, now)[0].Delivery, 410, now)
		read, err := s.Webhook(t.Context(), owner, hook.ID)
		must(t, "read", err)
		page, err := s.LoggedEvents(t.Context(), owner, ports.LogQuery{Types: []event.Type{event.WebhookDisabled}, Limit: 10})
		must(t, "read the log", err)
		if failed := deliveriesOf(t, s, hook, webhook.Failed); read.Status != webhook.Disabled || len(failed) != 2 || len(page.Events) != 1 {
			t.Errorf("status %s, %d failed, %d events", read.Status, len(failed), len(page.Events))
		}
	})
}

func TestRedeliveryAndReplayDeliverEventsAgain(t *testing.T) {
	eachStore(t, func(t *testing.T, s *Store) {
		owner, other := newAccount(t, s, "a"), newAccount(t, s, "b")
		hook, second := addWebhook(t, s, owner, nil), addWebhook(t, s, owner, nil)
		emitEvents(t, s, owner, domainEvent(guid(1), "1", event.DomainAdded), domainEvent(guid(1), "2", event.DomainAdded))
		fanOut(t, s, owner)
		for _, d := range claimDeliveries(t, s, hook, now) {
			saveTry(t, s, hook, d.Delivery, 200, now)
		}
		delivered := deliveriesOf(t, s, hook, webhook.Delivered)
		if len(delivered) != 2 || delivered[0].ID < delivered[1].ID || len(delivered[0].Attempts) != 1 || delivered[0].Attempts[0].StatusCode != 200 || delivered[0].Tries != 1 {
			t.Fatalf("delivered: %+v", delivered)
		}
		redelivery, err := s.Redeliver(t.Context(), owner, hook.ID, delivered[1].ID, now)
		must(t, "redeliver", err)
		if redelivery.Status != webhook.Pending || redelivery.Tries != 0 || len(redelivery.Attempts) != 1 {
			t.Errorf("redelivered: %+v", redelivery)
		}
		if got := claimDeliveries(t, s, hook, now); len(got) != 1 || got[0].ID != delivered[1].ID || got[0].EventID != delivered[1].EventID {
			t.Errorf("claimed: %+v", got)
		}
		for _, tt := range []struct {
			owner             access.AccountID
			webhook, delivery string
			code              fault.Code
		}{
			{other, hook.ID, delivered[0].ID, fault.WebhookNotFound}, {owner, second.ID, delivered[0].ID, fault.DeliveryNotFound}, {owner, hook.ID, newID(), fault.DeliveryNotFound},
		} {
			_, err := s.Redeliver(t.Context(), tt.owner, tt.webhook, tt.delivery, now)
			requireRefusal(t, "redeliver", err, tt.code)
		}
		_, err = s.ListDeliveries(t.Context(), other, hook.ID, ports.DeliveryQuery{Limit: 1})
		requireRefusal(t, "list", err, fault.WebhookNotFound)
		page, err := s.ListDeliveries(t.Context(), owner, hook.ID, ports.DeliveryQuery{Limit: 1, Before: delivered[0].ID})
		must(t, "second page", err)
		if len(page) != 1 || page[0].ID != delivered[1].ID {
			t.Errorf("second page: %+v", page)
		}

		must(t, "replay", s.Replay(t.Context(), owner, hook.ID, ports.ReplayFrom{Sequence: 1}))
		fanOut(t, s, owner)
		if deliveries := deliveriesOf(t, s, hook, ""); len(deliveries) != 3 || deliveries[0].EventID != delivered[0].EventID || len(deliveriesOf(t, s, second, "")) != 2 {
			t.Errorf("after a replay: %+v", deliveries)
		}
		must(t, "replay from the end", s.Replay(t.Context(), owner, hook.ID, ports.ReplayFrom{At: time.Now().Add(time.Hour)}))
		requireRefusal(t, "replay from after the end", s.Replay(t.Context(), owner, hook.ID, ports.ReplayFrom{Sequence: 99}), fault.InvalidRequest)
		fanOut(t, s, owner)
		if deliveries := deliveriesOf(t, s, hook, ""); len(deliveries) != 3 {
			t.Errorf("%d deliveries after a replay of nothing", len(deliveries))
		}
		must(t, "replay all", s.Replay(t.Context(), owner, hook.ID, ports.ReplayFrom{At: time.Now().Add(-time.Hour)}))
		fanOut(t, s, owner)
		if deliveries := deliveriesOf(t, s, hook, ""); len(deliveries) != 5 {
			t.Errorf("%d deliveries after a replay of all", len(deliveries))
		}
		_, err = s.DropEvents(t.Context(), time.Now().Add(48*time.Hour))
		must(t, "drop events", err)
		requireRefusal(t, "replay dropped events", s.Replay(t.Context(), owner, hook.ID, ports.ReplayFrom{Sequence: 0}), fault.CursorExpired)
	})
}

// TestReplayFromATimeFindsTheFirstEvent draws times of events that are nearly in order, and
// compares the position for each time with a search through all events.
func TestReplayFromATimeFindsTheFirstEvent(t *testing.T) {
	const size, dropped = 300, 20
	eachStore(t, func(t *testing.T, s *Store) {
		owner, random := newAccount(t, s, "a"), soak.Rand(t)
		rows := make([]eventRow, 0, size)
		for i := range size - dropped {
			at := now.Add(time.Duration(i/10)*time.Hour + time.Duration(random.Int64N(int64(maxDisorder)))).Truncate(time.Millisecond)
			rows = append(rows, eventRow{AccountID: accountKey(owner), Sequence: int64(dropped + i + 1), ID: newID(), Type: string(event.DomainAdded),
				TenantGUID: string(guid(1)), SubjectType: "domain", SubjectID: "d", Version: 1, Data: []byte("{}"), CreatedAt: storedTime(at)})
		}
		_, err := s.db.NewInsert().Model(&rows).Exec(t.Context())
		must(t, "insert", err)
		log := eventLogRow{AccountID: accountKey(owner), LastSequence: size, DroppedSequence: dropped}
		for range 100 {
			at := now.Add(time.Duration(random.Int64N(int64(size/10+2)*int64(time.Hour))) - time.Hour)
			if random.IntN(2) == 0 {
				at = rows[random.IntN(len(rows))].CreatedAt
			}
			want := int64(size)
			if first := slices.IndexFunc(rows, func(r eventRow) bool { return !r.CreatedAt.Before(storedTime(at)) }); first >= 0 {
				want = rows[first].Sequence - 1
			}
			must(t, "find position", s.db.Run(t.Context(), "find position", func(ctx context.Context, db bun.IDB) error {
				got, err := positionAt(ctx, db, log, at)
				if got != want {
					t.Errorf("%s: position %d, want %d", at, got, want)
				}
				return err
			}))
		}
	})
}

func TestTestDeliveriesAreClaimedWhenTheyAreMade(t *testing.T) {
	eachStore(t, func(t *testing.T, s *Store) {
		owner, other := newAccount(t, s, "a"), newAccount(t, s, "b")
		hook := addWebhook(t, s, owner, func(hook *webhook.Webhook) { hook.Status = webhook.Disabled })
		_, _, err := s.ClaimTest(t.Context(), other, hook.ID, testLease, now)
		requireRefusal(t, "test", err, fault.WebhookNotFound)
		for n := range webhook.MaxConcurrent {
			d, claimed, err := s.ClaimTest(t.Context(), owner, hook.ID, testLease, now)
			must(t, "test", err)
			if !claimed || d.Event == nil || d.Event.Type != webhook.TestType || d.EventID != d.Event.ID {
				t.Fatalf("test %d: %+v", n, d)
			}
			if n == 0 {
				defer func() {
					if !saveTry(t, s, hook, d.Delivery, 200, now) {
						t.Error("the result of a test is not stored")
					}
				}()
			}
		}
		if _, claimed, err := s.ClaimTest(t.Context(), owner, hook.ID, testLease, now); claimed || err != nil {
			t.Errorf("one more: %v, %v", claimed, err)
		}
	})
}

func TestDueWebhooksAreListedAndCounted(t *testing.T) {
	eachStore(t, func(t *testing.T, s *Store) {
		accountA, accountB := newAccount(t, s, "a"), newAccount(t, s, "b")
		var hooks []webhook.Webhook
		for _, owner := range []access.AccountID{accountA, accountA, accountB} {
			hooks = append(hooks, addWebhook(t, s, owner, nil))
		}
		addWebhook(t, s, accountB, func(hook *webhook.Webhook) { hook.Status = webhook.Disabled })
		emitEvents(t, s, accountA, domainEvent(guid(1), "1", event.DomainAdded), domainEvent(guid(1), "2", event.DomainAdded))
		emitEvents(t, s, accountB, domainEvent(guid(1), "1", event.DomainAdded))
		fanOut(t, s, accountA)
		_, err := fanOutOnce(t, s, accountB, 10, now.Add(-time.Minute))
		must(t, "fan out", err)
		dueAt := func(at time.Time, limit int) (ids []string) {
			t.Helper()
			dueWebhooks, err := s.DueWebhooks(t.Context(), at, limit)
			must(t, "due webhooks", err)
			for _, d := range dueWebhooks {
				ids = append(ids, d.ID)
			}
			return ids
		}
		if got := dueAt(now, 10); len(got) != 3 || got[0] != hooks[2].ID || !slices.Equal(dueAt(now, 1), got[:1]) || len(dueAt(now.Add(-time.Second), 10)) != 1 {
			t.Errorf("due: %v", got)
		}
		failed := claimDeliveries(t, s, hooks[2], now)[0]
		saveTry(t, s, hooks[2], failed.Delivery, 500, now)
		claimDeliveries(t, s, hooks[0], now)
		if got := dueAt(now.Add(time.Second), 10); !slices.Equal(got, []string{hooks[1].ID}) {
			t.Errorf("due after claims: %v", got)
		}
		h, err := s.WebhookHealth(t.Context(), now.Add(time.Minute))
		must(t, "health", err)
		if want := (ports.WebhookHealth{Enabled: 3, Disabled: 1, Failing: 1, Pending: 5, OldestDue: now}); h != want {
			t.Errorf("health %+v, want %+v", h, want)
		}
		_, err = s.SetActive(t.Context(), accountA, false)
		must(t, "suspend", err)
		if h, err := s.WebhookHealth(t.Context(), now.Add(time.Minute)); err != nil || h.Pending != 1 || !h.OldestDue.IsZero() || dueAt(now, 10) != nil {
			t.Errorf("health of suspended accounts %+v, %v", h, err)
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
		listAfter := func(webhookID string, d webhook.Delivery) ([]webhook.Delivery, error) {
			return s.ListDeliveries(t.Context(), owner, webhookID, ports.DeliveryQuery{Before: d.ID, Limit: 10})
		}
		if remaining, err := listAfter(hook.ID, deliveries[1]); err != nil || len(remaining) != 1 {
			t.Errorf("before the oldest deliveries were dropped: %v, %v", remaining, err)
		}
		_, err := listAfter(addWebhook(t, s, owner, nil).ID, deliveries[1])
		requireRefusal(t, "a cursor of a different webhook", err, fault.InvalidRequest)
		drop := func(limit int) int {
			t.Helper()
			n, err := s.DropDeliveries(t.Context(), now.Add(2*time.Hour), limit)
			must(t, "drop", err)
			return n
		}
		if a, b, c := drop(1), drop(5), drop(5); a != 1 || b != 1 || c != 0 || len(deliveriesOf(t, s, hook, "")) != 1 {
			t.Errorf("dropped %d, %d, %d", a, b, c)
		}
		_, err = listAfter(hook.ID, deliveries[1])
		requireRefusal(t, "a cursor of a dropped delivery", err, fault.CursorExpired)
		if remaining, err := listAfter(hook.ID, deliveries[0]); err != nil || len(remaining) != 0 {
			t.Errorf("after the newest delivery: %v, %v", remaining, err)
		}
	})
}

func TestClosingAnAccountRemovesItsWebhooks(t *testing.T) {
	eachStore(t, func(t *testing.T, s *Store) {
		accountA, accountB := newAccount(t, s, "a"), newAccount(t, s, "b")
		removed, kept := addWebhook(t, s, accountA, nil), addWebhook(t, s, accountB, nil)
		_, err := s.CloseAccount(t.Context(), accountA, now)
		must(t, "close", err)
		_, err = s.Webhook(t.Context(), accountA, removed.ID)
		requireRefusal(t, "webhook of a closed account", err, fault.WebhookNotFound)
		if _, err := s.Webhook(t.Context(), accountB, kept.ID); err != nil {
			t.Error(err)
		}
	})
}

func TestFailingWebhooksWithoutDeliveriesAreDisabled(t *testing.T) {
	eachStore(t, func(t *testing.T, s *Store) {
		owner := newAccount(t, s, "a")
		hook, working := addWebhook(t, s, owner, nil), addWebhook(t, s, owner, nil)
		tested := addWebhook(t, s, owner, nil)
		test, _, err := s.ClaimTest(t.Context(), owner, tested.ID, testLease, now)
		must(t, "test", err)
		saveTry(t, s, tested, test.Delivery, 500, now) // a failed test does not make a webhook failing
		emitEvents(t, s, owner, domainEvent(guid(1), "d", event.DomainAdded))
		fanOut(t, s, owner)
		saveTry(t, s, tested, claimDeliveries(t, s, tested, now)[0].Delivery, 200, now)
		for _, failingOrWorking := range []webhook.Webhook{hook, working} {
			d := claimDeliveries(t, s, failingOrWorking, now)[0].Delivery
			d.Tries = webhook.MaxTries - 1 // so that no delivery is pending after this try
			saveTry(t, s, failingOrWorking, d, map[string]int{hook.ID: 500, working.ID: 200}[failingOrWorking.ID], now)
		}
		for _, tt := range []struct {
			since time.Time
			want  int
		}{{now.Add(-time.Second), 0}, {now, 1}, {now, 0}} {
			if n, err := s.DisableFailing(t.Context(), tt.since, 10); n != tt.want || err != nil {
				t.Fatalf("%d are disabled, %v", n, err)
			}
		}
		page, err := s.LoggedEvents(t.Context(), owner, ports.LogQuery{After: ports.FromOldest, Limit: 10})
		must(t, "read the log", err)
		if len(page.Events) != 2 || page.Events[1].Type != event.WebhookDisabled || page.Events[1].Subject.ID != hook.ID {
			t.Errorf("events %+v", page.Events)
		}
	})
}

// TestTriesAtAnOldURLDoNotCount changes the URL of a failing webhook while a message is sent.
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
		read, err := s.Webhook(t.Context(), owner, hook.ID)
		must(t, "read", err)
		if read.Status != webhook.Enabled || !read.FailingSince.IsZero() {
			t.Errorf("%s, failing since %s", read.Status, read.FailingSince)
		}
		if again := claimDeliveries(t, s, hook, now.Add(24*time.Hour)); len(again) != 1 {
			t.Errorf("%d deliveries for the new URL", len(again))
		}
	})
}

// TestAReplayDelaysNoOtherWebhook checks that one fan-out reads both the old events for a replay
// and the new events for the account's other webhooks.
func TestAReplayDelaysNoOtherWebhook(t *testing.T) {
	eachStore(t, func(t *testing.T, s *Store) {
		owner := newAccount(t, s, "a")
		replayed, other := addWebhook(t, s, owner, nil), addWebhook(t, s, owner, nil)
		for n := range 8 {
			emitEvents(t, s, owner, domainEvent(guid(1), fmt.Sprint(n), event.DomainAdded))
		}
		fanOut(t, s, owner)
		must(t, "replay", s.Replay(t.Context(), owner, replayed.ID, ports.ReplayFrom{Sequence: 0}))
		emitEvents(t, s, owner, domainEvent(guid(1), "new", event.DomainAdded))
		fanned, err := fanOutOnce(t, s, owner, 3, now)
		must(t, "fan out", err)
		if a, b := len(deliveriesOf(t, s, replayed, "")), len(deliveriesOf(t, s, other, "")); a != 8+3 || b != 9 || !fanned.More {
			t.Errorf("%d deliveries of the replay, %d of the other webhook, more: %v", a, b, fanned.More)
		}
		for hasMore := true; hasMore; {
			fanned, err := fanOutOnce(t, s, owner, 3, now)
			must(t, "fan out", err)
			hasMore = fanned.More
		}
		if a, b := len(deliveriesOf(t, s, replayed, "")), len(deliveriesOf(t, s, other, "")); a != 8+9 || b != 9 {
			t.Errorf("in the end %d deliveries of the replay, %d of the other webhook", a, b)
		}
	})
}

// TestFanOutClaimsWhatItAdds checks the limits of the claims: four deliveries of a webhook, one of
// a failing webhook, both over all calls, and the number of slots.
func TestFanOutClaimsWhatItAdds(t *testing.T) {
	eachStore(t, func(t *testing.T, s *Store) {
		accountA, accountB := newAccount(t, s, "a"), newAccount(t, s, "b")
		working, failing := addWebhook(t, s, accountA, nil), addWebhook(t, s, accountB, func(hook *webhook.Webhook) { hook.FailingSince = now })
		emit := func(n int) {
			for i := range n {
				for _, owner := range []access.AccountID{accountA, accountB} {
					emitEvents(t, s, owner, domainEvent(guid(1), fmt.Sprint(i), event.DomainAdded))
				}
			}
		}
		fan := func(slots ports.Slots) (claims map[string]int, waiting []ports.DueWebhook) {
			t.Helper()
			fanned, err := s.FanOut(t.Context(), []access.AccountID{accountA, accountB}, 100, slots, testLease, now)
			must(t, "fan out", err)
			claims = map[string]int{}
			for _, d := range fanned.Claimed {
				claims[d.WebhookID]++
				if (d.Standing == webhook.Proven) != (d.WebhookID == working.ID) || d.Event == nil || d.Event.ID != d.EventID || d.Webhook.ID != d.WebhookID || d.Webhook.Account != d.Event.Account {
					t.Errorf("claimed %+v", d)
				}
				if claims[d.WebhookID] == 1 && !saveTry(t, s, d.Webhook, d.Delivery, 200, now) {
					t.Error("the result of a claim is not stored")
				}
			}
			return claims, fanned.Waiting
		}
		emit(6)
		claims, waiting := fan(slotsOf(3, 0))
		if claims[working.ID] != 3 || claims[failing.ID] != 0 || len(waiting) != 2 {
			t.Errorf("with three slots: %v, waiting %v", claims, waiting)
		}
		emit(6)
		claims, waiting = fan(manySlots)
		if claims[working.ID] != 2 || claims[failing.ID] != 1 || len(waiting) != 0 {
			t.Errorf("with slots: %v, waiting %v", claims, waiting)
		}
		if n := len(claimDeliveries(t, s, working, now)); n != 1 {
			t.Errorf("%d claimed after one try finished", n)
		}
		if n := len(deliveriesOf(t, s, working, webhook.Pending)); n != 10 {
			t.Errorf("%d pending", n)
		}
	})
}

// TestDeliveriesAreClaimedTogether claims deliveries of several webhooks in one call. Each webhook
// gets the same as in a call of its own: its oldest due deliveries with their events, as far as its
// standing and the slots allow.
func TestDeliveriesAreClaimedTogether(t *testing.T) {
	eachStore(t, func(t *testing.T, s *Store) {
		accountA, accountB, suspended := newAccount(t, s, "a"), newAccount(t, s, "b"), newAccount(t, s, "c")
		proven, failing, unproven := addWebhook(t, s, accountA, nil), addWebhook(t, s, accountB, func(hook *webhook.Webhook) { hook.FailingSince = now }), addWebhook(t, s, accountB, nil)
		later, off, removed, waits := addWebhook(t, s, accountB, nil), addWebhook(t, s, accountA, nil), addWebhook(t, s, accountA, nil), addWebhook(t, s, suspended, nil)
		for _, owner := range []access.AccountID{accountA, accountB, suspended} {
			for n := range 5 {
				emitEvents(t, s, owner, domainEvent(guid(1), fmt.Sprint(n), event.DomainAdded))
				_, err := fanOutOnce(t, s, owner, 100, now.Add(time.Duration(n)*time.Second))
				must(t, "fan out", err)
			}
		}
		for _, d := range claimDeliveries(t, s, later, now.Add(time.Hour)) {
			saveTry(t, s, later, d.Delivery, 500, now.Add(time.Hour))
		}
		saveTry(t, s, later, claimDeliveries(t, s, later, now.Add(time.Hour))[0].Delivery, 500, now.Add(2*time.Hour))
		_, err := s.ChangeWebhook(t.Context(), accountA, off.ID, "", nil, func(hook *webhook.Webhook) { hook.Status = webhook.Disabled })
		must(t, "disable", err)
		must(t, "remove", s.RemoveWebhook(t.Context(), accountA, removed.ID, nil))
		_, err = s.SetActive(t.Context(), suspended, false)
		must(t, "suspend", err)

		slots := slotsOf(100, 100)
		slots.Conduct = func(id string) webhook.Conduct { return webhook.Conduct{Accepted: id != unproven.ID} }
		got, err := claimWithSlots(t, s, slots, now.Add(time.Minute), proven, failing, unproven, later, off, removed, waits, proven)
		must(t, "claim", err)
		claimed := map[string][]string{}
		for _, d := range got.Deliveries {
			claimed[d.WebhookID] = append(claimed[d.WebhookID], d.Event.Subject.ID)
			if d.Webhook.ID != d.WebhookID || d.Event.ID != d.EventID || d.Event.Account != d.Webhook.Account || d.Standing != slots.Standing(d.Webhook) {
				t.Errorf("claimed %+v", d)
			}
		}
		want := map[string][]string{proven.ID: {"0", "1", "2", "3"}, failing.ID: {"0"}, unproven.ID: {"0"}}
		if !maps.EqualFunc(claimed, want, slices.Equal) || len(got.Waiting) != 0 {
			t.Errorf("claimed %v, want %v; waiting %v", claimed, want, got.Waiting)
		}
		if next := got.Next[dueWebhook(later)]; len(got.Next) != 1 || !next.Equal(now.Add(time.Hour+5*time.Second)) {
			t.Errorf("next: %v", got.Next)
		}
		must(t, "end leases", s.EndLeases(t.Context()))
		fewSlots := slotsOf(100, 0)
		fewSlots.Conduct = slots.Conduct
		got, err = claimWithSlots(t, s, fewSlots, now.Add(time.Minute), failing, unproven, proven)
		must(t, "claim with slots for proven webhooks alone", err)
		if len(got.Deliveries) != webhook.MaxConcurrent || len(got.Waiting) != 2 {
			t.Errorf("claimed %d, waiting %v", len(got.Deliveries), got.Waiting)
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
		locked, free, off := addWebhook(t, s, owner, nil), addWebhook(t, s, owner, nil), addWebhook(t, s, owner, nil)
		emitEvents(t, s, owner, domainEvent(guid(1), "d", event.DomainAdded))
		fanOut(t, s, owner)
		_, err := s.ChangeWebhook(t.Context(), owner, off.ID, "", nil, func(hook *webhook.Webhook) { hook.Status = webhook.Disabled })
		must(t, "disable", err)
		must(t, "lock", s.inTransaction(t.Context(), "lock webhook", func(ctx context.Context, tx bun.IDB) error {
			if _, err := s.lockWebhook(ctx, tx, accountKey(owner), locked.ID); err != nil {
				return err
			}
			// The timeout makes a claim fail that waits for the lock.
			claimCtx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			got, err := s.ClaimDeliveries(claimCtx, convertAll([]webhook.Webhook{locked, free, off}, dueWebhook), manySlots, testLease, now)
			must(t, "claim", err)
			if len(got.Deliveries) != 1 || got.Deliveries[0].WebhookID != free.ID || !slices.Equal(got.Waiting, []ports.DueWebhook{dueWebhook(locked)}) {
				t.Errorf("claimed %+v, waiting %v", got.Deliveries, got.Waiting)
			}
			return nil
		}))
		if got := claimDeliveries(t, s, locked, now); len(got) != 1 {
			t.Errorf("after the other transaction: %+v", got)
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
		for _, tt := range []struct {
			hook   webhook.Webhook
			status int
		}{{failing, 500}, {disabled, 410}, {removed, 200}, {late, 200}} {
			batch = append(batch, triedDelivery(tt.hook, claimDeliveries(t, s, tt.hook, now)[0].Delivery, tt.status, now))
		}
		must(t, "remove", s.RemoveWebhook(t.Context(), accountA, removed.ID, nil))
		must(t, "end leases", s.EndLeases(t.Context()))
		claimDeliveries(t, s, late, now)
		saved, err := s.SaveDeliveries(t.Context(), batch, now)
		must(t, "save", err)
		savedNotDue := ports.SavedDelivery{Saved: true}
		want := []ports.SavedDelivery{{Saved: true, HasDue: true}, {Saved: true, HasDue: true}, {Saved: true, HasDue: true}, {Saved: true, HasDue: true}, savedNotDue, savedNotDue, {}, {HasDue: true}}
		if !slices.Equal(saved, want) {
			t.Errorf("saved %+v, want %+v", saved, want)
		}
		for _, tt := range []struct {
			hook      webhook.Webhook
			delivered int
			status    webhook.Status
			failing   bool
		}{{succeeding, 4, webhook.Enabled, false}, {failing, 0, webhook.Enabled, true}, {disabled, 0, webhook.Disabled, true}, {late, 0, webhook.Enabled, false}} {
			read, err := s.Webhook(t.Context(), tt.hook.Account, tt.hook.ID)
			must(t, "read", err)
			if n := len(deliveriesOf(t, s, tt.hook, webhook.Delivered)); n != tt.delivered || read.Status != tt.status || read.IsFailing() != tt.failing {
				t.Errorf("%d delivered, %s, failing %v; want %+v", n, read.Status, read.IsFailing(), tt)
			}
		}
		if again := claimDeliveries(t, s, failing, now.Add(time.Minute)); len(again) != 1 || len(again[0].Attempts) != 1 {
			t.Errorf("the failed one is claimed again as %+v", again)
		}
	})
}
