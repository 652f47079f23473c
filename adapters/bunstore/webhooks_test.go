// SPDX-License-Identifier: Apache-2.0

package bunstore

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/tenantry/tenantry/core/access"
	"github.com/tenantry/tenantry/core/event"
	"github.com/tenantry/tenantry/core/fault"
	"github.com/tenantry/tenantry/core/tenant"
	"github.com/tenantry/tenantry/core/webhook"
	"github.com/tenantry/tenantry/ports"
)

const testLease = time.Hour

// addWebhook stores an enabled webhook for all types and tenants. If change is not nil, it changes
// the webhook first.
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

// fanOut fans out all events of the account, without slots. It returns the ids of the webhooks
// whose deliveries wait for slots.
func fanOut(t testing.TB, s *Store, owner access.AccountID) (waiting []string) {
	t.Helper()
	result, err := fanOutOnce(t, s, owner, 100, now)
	must(t, "fan out", err)
	if result.More {
		t.Fatal("the fan-out left events, want it to read all events of the test")
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

// slotsOf returns total free slots. Failing webhooks can take at most failing of them. No webhook
// counts as unproven.
func slotsOf(total, failing int) ports.Slots {
	return ports.Slots{Total: total, Unproven: failing, Failing: failing, Responsiveness: func(string) webhook.Responsiveness { return webhook.Responsiveness{Accepted: true} }}
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

// dueWebhook returns the ports.DueWebhook that names a webhook in a call of ClaimDeliveries.
func dueWebhook(hook webhook.Webhook) ports.DueWebhook {
	return ports.DueWebhook{Account: hook.Account, ID: hook.ID}
}

func deliveriesOf(t testing.TB, s *Store, hook webhook.Webhook, status webhook.DeliveryStatus) []webhook.Delivery {
	t.Helper()
	list, err := s.ListDeliveries(t.Context(), hook.Account, hook.ID, ports.DeliveryQuery{Status: status, Limit: 1000})
	must(t, "list deliveries", err)
	return list
}

// saveTry stores a try that the endpoint answered with this status. It returns whether the store
// saved the result.
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

func TestWebhooksAreStoredForTheirAccount(t *testing.T) {
	eachStore(t, func(t *testing.T, s *Store) {
		accountA, accountB := newAccount(t, s, "a"), newAccount(t, s, "b")
		webhook1 := addWebhook(t, s, accountA, func(hook *webhook.Webhook) {
			hook.Types, hook.Tenants, hook.Description = []event.Type{event.DomainAdded, event.KeyRevoked}, []tenant.GUID{guid(1)}, hostileText
		})
		if !slices.Equal(webhook1.Types, []event.Type{event.DomainAdded, event.KeyRevoked}) || webhook1.Tenants[0] != guid(1) || webhook1.Description != hostileText ||
			string(webhook1.Secrets.Current) != "sealed" || webhook1.Secrets.Previous != nil || webhook1.IsFailing() || !webhook1.CreatedAt.Equal(now) {
			t.Fatalf("stored as %+v, want the values that were added", webhook1)
		}
		webhook2 := addWebhook(t, s, accountA, nil)
		page1, err := s.Webhooks(t.Context(), accountA, "", 1)
		must(t, "list", err)
		page2, err := s.Webhooks(t.Context(), accountA, page1[0].ID, 10)
		must(t, "list the rest", err)
		if page1[0].ID != webhook2.ID || len(page2) != 1 || page2[0].ID != webhook1.ID {
			t.Errorf("the pages are %v and %v, want the newer webhook first", page1, page2)
		}
		_, foreign := s.Webhook(t.Context(), accountB, webhook1.ID)
		_, unknown := s.Webhook(t.Context(), accountB, newID())
		requireRefusal(t, "foreign webhook", foreign, fault.WebhookNotFound)
		requireSameError(t, "webhook", foreign, unknown)
		requireRefusal(t, "remove a foreign webhook", s.RemoveWebhook(t.Context(), accountB, webhook1.ID, nil), fault.WebhookNotFound)
		_, err = s.ChangeWebhook(t.Context(), accountB, webhook1.ID, "", nil, func(*webhook.Webhook) { t.Error("the change was made, want a refusal") })
		requireRefusal(t, "change a foreign webhook", err, fault.WebhookNotFound)
		requireRefusal(t, "replay to a foreign webhook", s.Replay(t.Context(), accountB, webhook1.ID, ports.ReplayFrom{}), fault.WebhookNotFound)
		changed, err := s.ChangeWebhook(t.Context(), accountA, webhook1.ID, "", nil, func(hook *webhook.Webhook) {
			hook.URL, hook.Types, hook.Secrets = "https://other.example.test", nil, hook.Secrets.Rotate([]byte("new"), time.Hour, now)
		})
		must(t, "change", err)
		stored1, err := s.Webhook(t.Context(), accountA, webhook1.ID)
		must(t, "read", err)
		if stored1.URL != changed.URL || len(stored1.Types) != 0 || string(stored1.Secrets.Previous) != "sealed" || !stored1.Secrets.PreviousUntil.Equal(now.Add(time.Hour)) {
			t.Errorf("webhook1 is %+v, want the new URL, no types and both secrets", stored1)
		}
		if stored2, err := s.Webhook(t.Context(), accountA, webhook2.ID); err != nil || stored2.URL != webhook2.URL {
			t.Errorf("webhook2 is %+v, %v, want it unchanged", stored2, err)
		}
		must(t, "remove", s.RemoveWebhook(t.Context(), accountA, webhook1.ID, nil))
		_, err = s.Webhook(t.Context(), accountA, webhook1.ID)
		requireRefusal(t, "removed webhook", err, fault.WebhookNotFound)
		if _, err := s.Webhook(t.Context(), accountA, webhook2.ID); err != nil {
			t.Errorf("webhook2 after the removal of webhook1: %v", err)
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
			t.Errorf("%d webhooks were added, want %d", n, webhook.MaxPerAccount)
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
		claimed := claimDeliveries(t, s, hook, now)
		saveTry(t, s, hook, claimed[0].Delivery, 500, now)
		saveTry(t, s, hook, claimed[1].Delivery, 500, now.Add(time.Minute))
		stored, err := s.Webhook(t.Context(), owner, hook.ID)
		must(t, "read", err)
		claimedMeanwhile, err := claimWithSlots(t, s, slotsOf(10, 0), now.Add(5*time.Second), hook)
		must(t, "claim without a slot for failing webhooks", err)
		if !stored.FailingSince.Equal(now) || len(claimedMeanwhile.Waiting) != 0 || len(claimedMeanwhile.Deliveries) != 0 || !claimedMeanwhile.Next[dueWebhook(hook)].Equal(now.Add(time.Minute+5*time.Second)) {
			t.Errorf("the webhook is failing since %v, want %v; claimed while a delivery is leased: %+v, want nothing, and the next try after a minute and 5 seconds", stored.FailingSince, now, claimedMeanwhile)
		}
		saveTry(t, s, hook, claimed[2].Delivery, 200, now)
		if stored, err := s.Webhook(t.Context(), owner, hook.ID); err != nil || stored.IsFailing() {
			t.Errorf("after a success the webhook is %+v, %v, want it not to be failing", stored, err)
		}
		anHourLater := claimDeliveries(t, s, hook, now.Add(time.Hour))
		saveTry(t, s, hook, anHourLater[0].Delivery, 500, now.Add(time.Hour))
		if n, err := s.DisableFailing(t.Context(), now.Add(2*time.Hour), 10); n != 0 || err != nil {
			t.Fatalf("%d webhooks with pending deliveries were disabled, want none (%v)", n, err)
		}
		saveTry(t, s, hook, anHourLater[1].Delivery, 500, now.Add(time.Hour+webhook.DisableAfter-time.Second))
		if stored, err := s.Webhook(t.Context(), owner, hook.ID); err != nil || stored.Status != webhook.Enabled {
			t.Fatalf("before DisableAfter is over, the webhook is %+v, %v, want it enabled", stored, err)
		}
		lateClaim := claimDeliveries(t, s, hook, now.Add(24*time.Hour))
		saveTry(t, s, hook, lateClaim[0].Delivery, 500, now.Add(time.Hour+webhook.DisableAfter))
		stored, err = s.Webhook(t.Context(), owner, hook.ID)
		must(t, "read", err)
		if pending := deliveriesOf(t, s, hook, webhook.Pending); stored.Status != webhook.Disabled || len(pending) != 0 || claimDeliveries(t, s, hook, now.Add(240*time.Hour)) != nil {
			t.Errorf("the status is %s, want disabled; the pending deliveries are %v, want none", stored.Status, pending)
		}
		fanOut(t, s, owner)
		watcherDeliveries := claimDeliveries(t, s, watcher, now)
		if len(watcherDeliveries) != 1 || watcherDeliveries[0].Event.Subject.ID != hook.ID {
			t.Errorf("the watcher gets %+v, want one event about the disabled webhook", watcherDeliveries)
		}
		emitEvents(t, s, owner, domainEvent(guid(1), "missed", event.DomainAdded))
		_, err = s.ChangeWebhook(t.Context(), owner, hook.ID, "", nil, func(hook *webhook.Webhook) { hook.Status = webhook.Enabled })
		must(t, "enable", err)
		emitEvents(t, s, owner, domainEvent(guid(1), "new", event.DomainAdded))
		fanOut(t, s, owner)
		if got := claimDeliveries(t, s, hook, now); len(got) != 1 || got[0].Event.Subject.ID != "new" {
			t.Errorf("after the webhook was enabled: claimed %+v, want only the new event", got)
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
		stored, err := s.Webhook(t.Context(), owner, hook.ID)
		must(t, "read", err)
		page, err := s.LoggedEvents(t.Context(), owner, ports.LogQuery{Types: []event.Type{event.WebhookDisabled}, Limit: 10})
		must(t, "read the log", err)
		if failed := deliveriesOf(t, s, hook, webhook.Failed); stored.Status != webhook.Disabled || len(failed) != 2 || len(page.Events) != 1 {
			t.Errorf("the status is %s, want disabled; %d deliveries failed, want 2; %d events were logged, want 1", stored.Status, len(failed), len(page.Events))
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
		if got := dueAt(now, 10); len(got) != 3 || !slices.Equal(dueAt(now.Add(-time.Second), 10), []string{hooks[2].ID}) {
			t.Errorf("the due webhooks are %v, want three, and a second earlier only the webhook of account b", got)
		}
		listed := map[string]bool{}
		for range 100 {
			listed[dueAt(now, 1)[0]] = true
		}
		if len(listed) != 3 {
			t.Errorf("100 lists of one due webhook had only %v, want each of the three webhooks", listed)
		}
		failed := claimDeliveries(t, s, hooks[2], now)[0]
		saveTry(t, s, hooks[2], failed.Delivery, 500, now)
		claimDeliveries(t, s, hooks[0], now)
		if got := dueAt(now.Add(time.Second), 10); !slices.Equal(got, []string{hooks[1].ID}) {
			t.Errorf("the due webhooks after the claims are %v, want only hooks[1]", got)
		}
		health, err := s.WebhookHealth(t.Context(), now.Add(time.Minute))
		must(t, "health", err)
		if want := (ports.WebhookHealth{Enabled: 3, Disabled: 1, Failing: 1, Pending: 5, OldestDue: now}); health != want {
			t.Errorf("the health is %+v, want %+v", health, want)
		}
		_, err = s.SetActive(t.Context(), accountA, false)
		must(t, "suspend", err)
		if health, err := s.WebhookHealth(t.Context(), now.Add(time.Minute)); err != nil || health.Pending != 1 || !health.OldestDue.IsZero() || dueAt(now, 10) != nil {
			t.Errorf("the health after the suspension is %+v, %v, want one pending delivery and none due", health, err)
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
			t.Errorf("the webhook of the account that was not closed: %v", err)
		}
	})
}

func TestFailingWebhooksWithoutDeliveriesAreDisabled(t *testing.T) {
	eachStore(t, func(t *testing.T, s *Store) {
		owner := newAccount(t, s, "a")
		failing, working := addWebhook(t, s, owner, nil), addWebhook(t, s, owner, nil)
		tested := addWebhook(t, s, owner, nil)
		emitEvents(t, s, owner, domainEvent(guid(1), "d", event.DomainAdded))
		fanOut(t, s, owner)
		saveTry(t, s, tested, claimDeliveries(t, s, tested, now)[0].Delivery, 200, now)
		test, _, err := s.ClaimTest(t.Context(), owner, tested.ID, testLease, now)
		must(t, "test", err)
		saveTry(t, s, tested, test.Delivery, 500, now) // a failed test does not make a webhook failing
		for _, failingOrWorking := range []webhook.Webhook{failing, working} {
			d := claimDeliveries(t, s, failingOrWorking, now)[0].Delivery
			final := webhook.Response{StatusCode: map[string]int{failing.ID: 500, working.ID: 200}[failingOrWorking.ID], Final: true} // so no delivery stays pending
			_, err := s.SaveDeliveries(t.Context(), []ports.TriedDelivery{{Delivery: d.AfterTry(final, now, 0), Account: owner}}, now)
			must(t, "save", err)
		}
		for _, tc := range []struct {
			failingSince time.Time // at the latest
			want         int
		}{{now.Add(-time.Second), 0}, {now, 1}, {now, 0}} {
			if n, err := s.DisableFailing(t.Context(), tc.failingSince, 10); n != tc.want || err != nil {
				t.Fatalf("%d webhooks were disabled, want %d (%v)", n, tc.want, err)
			}
		}
		page, err := s.LoggedEvents(t.Context(), owner, ports.LogQuery{After: ports.FromOldest, Limit: 10})
		must(t, "read the log", err)
		if len(page.Events) != 2 || page.Events[1].Type != event.WebhookDisabled || page.Events[1].Subject.ID != failing.ID {
			t.Errorf("the logged events are %+v, want the event of the domain and the event of the disabled webhook", page.Events)
		}
	})
}
