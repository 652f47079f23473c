// SPDX-License-Identifier: Apache-2.0

package integrations_test

import (
	"context"
	"fmt"
	"runtime"
	"strconv"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/tenantry/tenantry/adapters/fake"
	"github.com/tenantry/tenantry/app/integrations"
	"github.com/tenantry/tenantry/core/access"
	"github.com/tenantry/tenantry/core/fault"
	"github.com/tenantry/tenantry/core/integration"
	"github.com/tenantry/tenantry/core/mailbox"
	"github.com/tenantry/tenantry/core/outcome"
	"github.com/tenantry/tenantry/ports"
)

func TestRefreshMakesStatesTrue(t *testing.T) {
	w := newWorld(t)
	id, second := w.integrate(t, "instantly"), w.integrate(t, "plusvibe")
	named := map[string]mailbox.Mailbox{}
	for _, name := range []string{"closed", "vanished", "revoked", "steady", "elsewhere", "never", "found", "paused"} {
		named[name] = w.mailbox(t, w.acc, theTenant, name)
	}
	for _, name := range []string{"vanished", "revoked", "steady", "paused"} {
		w.connect(t, id, named[name])
	}
	w.connect(t, second, named["elsewhere"])
	b := w.begin(t, id, named["closed"])
	w.instantly.Complete(b.AuthURL.Reveal(), named["closed"].Address, "Closed")
	w.instantly.Drop(named["vanished"].Address)
	w.instantly.Put(
		integration.Account{Address: named["revoked"].Address, State: integration.AccountFailed, HasError: true, Reason: "connection_error"},
		integration.Account{Address: "ELSEWHERE@example.test", State: integration.AccountConnected},
		integration.Account{Address: "Found@Example.test", State: integration.AccountConnected},
		integration.Account{ID: w.connection(t, id, named["paused"]).AccountID, Address: named["paused"].Address, State: integration.AccountConnected, Paused: true},
		integration.Account{Address: "stranger@other.test", State: integration.AccountConnected})
	w.instantly.PageSize = 2
	r := w.refresh(t, id)
	want := integrations.Refreshed{IntegrationID: id, Provider: "instantly", Status: integrations.RefreshCompleted,
		Tally: integration.Tally{Checked: 10, Connected: 4, NewlyConnected: 2, Unchanged: 6}}
	if diff := cmp.Diff(want, r); diff != "" {
		t.Error(diff)
	}
	for name, status := range map[string]integration.ConnectionStatus{
		"closed": integration.ConnectionConnected, "vanished": integration.ConnectionDisconnected, "revoked": integration.ConnectionFailed,
		"steady": integration.ConnectionConnected, "elsewhere": "", "never": "", "found": integration.ConnectionConnected, "paused": integration.ConnectionConnected,
	} {
		w.is(t, id, named[name], status)
	}
	if c := w.connection(t, id, named["revoked"]); !c.HasError || c.Reason != "connection_error" {
		t.Errorf("%+v", c)
	}
	w.is(t, second, named["elsewhere"], integration.ConnectionConnected)
	if diff := cmp.Diff(map[integration.Drift]int{integration.DriftGone: 1, integration.DriftGrantLost: 1, integration.DriftAppeared: 1}, counted(w.drifts)); diff != "" {
		t.Error(diff)
	}
	if i := w.integration(t, id); i.RefreshedAt != w.clock || i.HasError {
		t.Errorf("%+v", i)
	}
	w.status(t, b, integration.SessionConnected)
	if again := w.refresh(t, id); again.Unchanged != 10 || again.NewlyConnected != 0 || again.Connected != 4 {
		t.Errorf("again: %+v", again)
	}
}

func counted(drifts []integration.Drift) map[integration.Drift]int {
	n := map[integration.Drift]int{}
	for _, d := range drifts {
		n[d]++
	}
	return n
}

// A listing that breaks off disturbs nobody.
func TestIncompleteListingChangesNothing(t *testing.T) {
	for name, tt := range map[string]struct {
		fault  fake.Fault
		loop   bool
		want   fault.Code // when there is no answer at all
		marked bool
	}{
		"the first page":               {fault: fake.Fault{Method: "Accounts", Kind: outcome.Broken}, want: fault.ProviderError, marked: true},
		"the first page, throttled":    {fault: fake.Fault{Method: "Accounts", Kind: outcome.Throttled}, want: fault.ProviderUnavailable},
		"the credential":               {fault: fake.Fault{Method: "Accounts", Kind: outcome.Refused, Code: fault.AccessDenied}, want: fault.CredentialRejected, marked: true},
		"the second page":              {fault: fake.Fault{Method: "Accounts", Kind: outcome.Unknown, Skip: 1}, marked: true},
		"the second page, down":        {fault: fake.Fault{Method: "Accounts", Kind: outcome.Down, Skip: 1}, marked: true},
		"a circle":                     {loop: true, marked: true},
		"the credential on the way":    {fault: fake.Fault{Method: "Accounts", Kind: outcome.Refused, Code: fault.AccessDenied, Skip: 1}, want: fault.CredentialRejected, marked: true},
		"an answer that came too late": {fault: fake.Fault{Method: "Accounts", Kind: outcome.Unknown, AfterEffect: true, Skip: 1}, marked: true},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			id := w.integrate(t, "instantly")
			w.connect(t, id, w.anna)
			w.connect(t, id, w.ben)
			w.mailbox(t, w.acc, theTenant, "never")
			w.instantly.PageSize = 1
			w.instantly.Drop(w.ben.Address)
			w.instantly.Put(integration.Account{Address: "x@other.test", State: integration.AccountConnected},
				integration.Account{Address: "y@other.test", State: integration.AccountConnected})
			if tt.loop {
				w.platforms.Hold("instantly", "key", "ws-1", looping{w.instantly})
			} else {
				w.instantly.Fail(tt.fault)
			}
			r, err := w.Refresh(t.Context(), w.acc.ID, id)
			if tt.want.Name != "" {
				refused(t, err, tt.want)
			} else {
				must(t, err)
				want := integration.Tally{Checked: 3, Connected: 2, Unchanged: 1, ErrorCount: 2}
				if r.Tally != want || r.Status != integrations.RefreshPartial {
					t.Errorf("%+v", r)
				}
			}
			if n := w.instantly.Calls("Accounts"); n > 5 || n > 1 && tt.fault.Skip == 0 && !tt.loop {
				t.Errorf("%d pages were asked for", n)
			}
			w.is(t, id, w.anna, integration.ConnectionConnected)
			w.is(t, id, w.ben, integration.ConnectionConnected)
			i := w.integration(t, id)
			if i.HasError != tt.marked || !i.RefreshedAt.IsZero() || (i.Status == integration.Failed) != (tt.want == fault.CredentialRejected) {
				t.Errorf("the integration is %+v", i)
			}
		})
	}
}

// A refresh that its caller gave up, or that a stop of the service ended, says
// nothing of the integration.
func TestRefreshThatIsGivenUp(t *testing.T) {
	w := newWorld(t)
	id := w.integrate(t, "instantly")
	w.connect(t, id, w.anna)
	gate := w.instantly.Hold("Accounts")
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() {
		_, err := w.Refresh(ctx, w.acc.ID, id)
		ended <- err
	}()
	<-gate.Arrived()
	cancel()
	refused(t, <-ended, fault.ProviderTimeout)
	if i := w.integration(t, id); i.HasError {
		t.Errorf("%+v", i)
	}
	w.is(t, id, w.anna, integration.ConnectionConnected)
}

// Of two accounts with one address the one that works counts, in any order.
func TestTwoAccountsOfOneMailbox(t *testing.T) {
	w := newWorld(t)
	id := w.integrate(t, "instantly")
	works := integration.Account{ID: "1", Address: w.anna.Address, State: integration.AccountConnected}
	broken := integration.Account{ID: "2", Address: w.anna.Address, State: integration.AccountFailed}
	for _, all := range [][]integration.Account{{works, broken}, {broken, works}} {
		w.platforms.Hold("instantly", "key", "ws-1", listed{w.instantly, all})
		w.refresh(t, id)
		if c := w.is(t, id, w.anna, integration.ConnectionConnected); c.AccountID != "1" {
			t.Errorf("%+v", c)
		}
	}
}

// listed is a platform whose list is one page.
type listed struct {
	ports.SendingPlatform

	all []integration.Account
}

func (l listed) Accounts(context.Context, string) (integration.Page, error) {
	return integration.Page{Accounts: l.all}, nil
}

// looping is a platform whose cursors run in a circle.
type looping struct{ ports.SendingPlatform }

func (l looping) Accounts(ctx context.Context, cursor string) (integration.Page, error) {
	page, err := l.SendingPlatform.Accounts(ctx, cursor)
	if n, _ := strconv.Atoi(cursor); n > 0 {
		page = integration.Page{Next: strconv.Itoa(n%3 + 1)}
	}
	return page, err
}

func TestRefreshNeedsTheCapability(t *testing.T) {
	w := newWorld(t)
	p := w.platform("blind", func([]string) integration.Capabilities { return integration.Capabilities{} })
	id := w.integrate(t, "blind")
	_, err := w.Refresh(t.Context(), w.acc.ID, id)
	refused(t, err, fault.CapabilityMissing)
	_, err = w.Refresh(t.Context(), w.bob.ID, id)
	refused(t, err, fault.IntegrationNotFound)
	if n := p.Calls("Accounts"); n != 0 {
		t.Error("the platform was asked")
	}
}

// A platform that wants a pause in the middle of a listing gets it.
func TestListingWaitsInTheMiddle(t *testing.T) {
	w := newWorld(t)
	id := w.integrate(t, "instantly")
	w.connect(t, id, w.anna)
	w.connect(t, id, w.ben)
	w.instantly.PageSize = 1
	w.platforms.Hold("instantly", "key", "ws-1", &hurried{SendingPlatform: w.instantly})
	if r := w.refresh(t, id); r.Status != integrations.RefreshCompleted || r.Connected != 2 {
		t.Errorf("%+v", r)
	}
	w.Limit = 5 * time.Second // no time to wait
	w.platforms.Hold("instantly", "key", "ws-1", &hurried{SendingPlatform: w.instantly})
	if r := w.refresh(t, id); r.Status != integrations.RefreshPartial {
		t.Errorf("%+v", r)
	}
}

// hurried throttles its second page once.
type hurried struct {
	ports.SendingPlatform

	calls int
}

func (h *hurried) Accounts(ctx context.Context, cursor string) (integration.Page, error) {
	if h.calls++; h.calls == 2 {
		return integration.Page{}, &outcome.Error{Kind: outcome.Throttled, RetryAfter: time.Millisecond}
	}
	return h.SendingPlatform.Accounts(ctx, cursor)
}

// What happens by itself notices what nobody asked about.
func TestScheduledRefresh(t *testing.T) {
	w := newWorld(t)
	id, second := w.integrate(t, "instantly"), w.integrate(t, "plusvibe")
	theirs := w.integrateFor(t, w.bob, "instantly")
	w.connect(t, id, w.anna)
	w.instantly.Drop(w.anna.Address)
	w.wait(6 * time.Hour)
	for _, p := range w.Periodic(time.Minute, 6*time.Hour) {
		must(t, p.Do(t.Context()))
	}
	woken := w.wakeups.take()
	owners := map[string]access.AccountID{}
	for n, wakeup := range woken {
		owners[wakeup.ID] = wakeup.Account
		if late := wakeup.At.Sub(w.clock); late < 0 || late >= 5*time.Minute || n > 0 && !wakeup.At.After(woken[n-1].At) {
			t.Errorf("number %d begins after %s", n, late)
		}
	}
	if diff := cmp.Diff(map[string]access.AccountID{id: w.acc.ID, second: w.acc.ID, theirs: w.bob.ID}, owners); diff != "" {
		t.Fatal(diff)
	}
	lift := w.plusvibe.Fail(fake.Fault{Kind: outcome.Refused, Code: fault.AccessDenied})
	for _, wakeup := range woken {
		must(t, w.Handlers()[wakeup.Kind](t.Context(), wakeup))
	}
	w.is(t, id, w.anna, integration.ConnectionDisconnected)
	if i := w.integration(t, second); !i.HasError || i.Status != integration.Failed {
		t.Errorf("%+v", i)
	}
	if diff := cmp.Diff(map[integration.Drift]int{integration.DriftGone: 1, integration.DriftRefused: 1}, counted(w.drifts)); diff != "" {
		t.Error(diff)
	}
	lift()
	w.wait(time.Hour)
	w.sweep(t, refreshes)
	if n := w.plusvibe.Calls("Accounts"); n != 1 {
		t.Errorf("refreshed %d times in an hour", n)
	}
	w.wait(6 * time.Hour)
	w.sweep(t, refreshes)
	if i := w.integration(t, second); i.HasError || i.Status != integration.Connected {
		t.Errorf("%+v", i)
	}
}

// vast is a platform with many accounts, of which pages are made when they are
// asked for.
type vast struct {
	ports.SendingPlatform

	calls int
	last  func()
}

const vastAccounts = 4000

func (v *vast) Accounts(_ context.Context, cursor string) (integration.Page, error) {
	v.calls++
	from, _ := strconv.Atoi(cursor)
	var page integration.Page
	for n := from; n < from+100; n++ {
		page.Accounts = append(page.Accounts, integration.Account{
			ID: strconv.Itoa(n), Address: fmt.Sprintf("Mailbox-%d@Example.test", n), State: integration.AccountConnected})
	}
	if from+100 < vastAccounts {
		page.Next = strconv.Itoa(from + 100)
	} else {
		v.last()
	}
	return page, nil
}

// vastStore has 3,600 eligible mailboxes.
type vastStore struct {
	ports.Connections

	all    []integration.Eligible
	stored int
}

func (s *vastStore) Eligible(context.Context, access.AccountID, string) ([]integration.Eligible, error) {
	return s.all, nil
}

func (s *vastStore) SaveRefresh(_ context.Context, _ access.AccountID, _ integration.Integration, _ time.Time, all []integration.Connection) (int, error) {
	s.stored += len(all)
	return len(all), nil
}

// A refresh of 3,600 mailboxes is 40 pages, and takes room for its mailboxes
// alone.
func TestRefreshOfManyIsFlat(t *testing.T) {
	w := newWorld(t)
	id := w.integrate(t, "instantly")
	store := &vastStore{}
	for n := range 3600 {
		store.all = append(store.all, integration.Eligible{Mailbox: mailbox.Mailbox{ID: strconv.Itoa(n), Address: fmt.Sprintf("mailbox-%d@example.test", n)}})
	}
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	at := &vast{last: func() {
		runtime.GC()
		runtime.ReadMemStats(&after)
	}}
	w.platforms.Hold("instantly", "key", "ws-1", at)
	r, err := w.service(w.store, store, w.platforms).Refresh(t.Context(), w.acc.ID, id)
	must(t, err)
	if r.Checked != 3600 || r.NewlyConnected != 3600 || store.stored != 3600 || at.calls != 40 {
		t.Errorf("%+v with %d calls, stored %d", r, at.calls, store.stored)
	}
	if grown := int64(after.HeapAlloc) - int64(before.HeapAlloc); grown > 4<<20 {
		t.Errorf("the join takes %d KiB", grown>>10)
	}
}
