// SPDX-License-Identifier: Apache-2.0

package httpapi_test

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tenantry/tenantry/adapters/bunstore"
	"github.com/tenantry/tenantry/core/access"
	"github.com/tenantry/tenantry/core/page"
	"github.com/tenantry/tenantry/core/tenant"
	"github.com/tenantry/tenantry/ports"
)

func eventTypes(r reply) (types []string) {
	for _, e := range r.body["events"].([]any) {
		types = append(types, e.(map[string]any)["type"].(string))
	}
	return types
}

// attachTenantWithoutPlatform attaches a further tenant to an account. The fake platform does not
// know the tenant.
func (env *testEnv) attachTenantWithoutPlatform(t *testing.T, owner testAccount, id tenant.GUID) {
	t.Helper()
	_, err := env.store.Attach(t.Context(), owner.account.ID, tenant.Tenant{GUID: id, Name: "Other", ConsentedAt: time.Now()})
	must(t, err)
}

func TestEventsAreLimitedToTheAccount(t *testing.T) {
	env := newTestEnv(t)
	addOwnedObjects(env, t) // the test reads the events of these objects
	client := serve(t, env.handler(t))
	for _, owner := range []testAccount{env.accountA, env.accountB} {
		got := client.expect(call{method: "GET", path: "/v1/events?limit=100", key: owner.key}, http.StatusOK, "")
		types := eventTypes(got)
		for _, want := range []string{"tenant.connected", "key.created", "domain.added", "mailbox.created", "integration.connected"} {
			if !slices.Contains(types, want) {
				t.Errorf("the log has the events %q, want also %s", types, want)
			}
		}
		for _, e := range got.body["events"].([]any) {
			if id := e.(map[string]any)["tenant_id"]; id != nil && id != string(owner.tenant) {
				t.Errorf("the account gets an event of the tenant %s, want only events of its tenant %s", id, owner.tenant)
			}
		}
	}
}

func TestEventsArePagedInOneOrder(t *testing.T) {
	env := newTestEnv(t)
	addOwnedObjects(env, t)
	client := serve(t, env.handler(t))
	get := func(query string) reply {
		t.Helper()
		return client.expect(call{method: "GET", path: "/v1/events?" + query, key: env.accountA.key}, http.StatusOK, "")
	}
	allEvents := get("limit=100")
	if allEvents.body["has_more"] != false {
		t.Fatal("the log has more than 100 events")
	}
	var paged []string
	query := "limit=3"
	for {
		got := get(query)
		paged = append(paged, eventTypes(got)...)
		query = "limit=3&after=" + got.body["next_cursor"].(string)
		if got.body["has_more"] == false {
			break
		}
	}
	if types := eventTypes(allEvents); !slices.Equal(paged, types) {
		t.Errorf("the pages of three list %q, want %q", paged, types)
	}
	for filter, want := range map[string][]string{
		"types=tenant.connected":                                          {"tenant.connected"},
		"types=tenant.connected,webhook.disabled,tenant.connected":        {"tenant.connected"},
		"types=key.created&tenant_id=" + string(env.accountA.tenant):      nil,
		"types=key.created&tenant_id=nonsense":                            nil,
		"tenant_id=" + string(env.accountB.tenant):                        nil,
		"types=tenant.connected&tenant_id=" + string(env.accountA.tenant): {"tenant.connected"},
		"after=now": nil,
	} {
		got := get(filter)
		if !slices.Equal(eventTypes(got), want) {
			t.Errorf("the query %s: got %q, want %q", filter, eventTypes(got), want)
		}
	}
}

// cursorAfterEnd is a cursor of the event list. Its position is after the last event of each log in
// these tests.
var cursorAfterEnd = page.Cursor("999999").Encode("events")

func TestQueriesOfEventsAreChecked(t *testing.T) {
	env := newTestEnv(t)
	client := serve(t, env.handler(t))
	for _, query := range []string{
		"types=", "types=nonsense", "types=tenant.connected,", "types=tenant.connected&types=key.created", "limit=0", "limit=101", "limit=x",
		"wait_seconds=31", "wait_seconds=-1", "wait_seconds=1.5", "after=", "after=nonsense", "after=NOW", "after=" + page.Cursor("1").Encode("keys"), "tenant_id=",
		"after=" + cursorAfterEnd,
	} {
		got := client.expect(call{method: "GET", path: "/v1/events?" + query, key: env.accountA.key}, http.StatusBadRequest, "invalid_request")
		parameter, _, _ := strings.Cut(query, "=")
		if !slices.Equal(got.locations(), []string{"query." + parameter}) {
			t.Errorf("the answer to %s names the locations %q, want only the parameter: %s", query, got.locations(), got.raw)
		}
	}
}

func TestCursorOfDroppedEventsExpires(t *testing.T) {
	env := newTestEnv(t)
	client := serve(t, env.handler(t))
	cursor := client.expect(call{method: "GET", path: "/v1/events?limit=1", key: env.accountA.key}, http.StatusOK, "").body["next_cursor"].(string)
	// The store drops the events of whole UTC days, so a time on a later day drops all events.
	if _, err := env.store.DropEvents(t.Context(), time.Now().Add(48*time.Hour)); err != nil {
		t.Fatal(err)
	}
	client.expect(call{method: "GET", path: "/v1/events?after=" + cursor, key: env.accountA.key}, http.StatusGone, "cursor_expired")
	got := client.expect(call{method: "GET", path: "/v1/events", key: env.accountA.key}, http.StatusOK, "")
	if len(eventTypes(got)) != 0 {
		t.Errorf("the events %q are left, want none", eventTypes(got))
	}
}

// TestWaitingRequestIsAnsweredByEvent checks that an event answers the requests that wait for its
// type. Events of a different type do not end a wait. A waiting request uses no slot for requests
// in progress, so more requests can wait than slots exist.
func TestWaitingRequestIsAnsweredByEvent(t *testing.T) {
	env := newTestEnv(t)
	env.options.Guard.Limits.MaxInFlight = 4
	client := serve(t, env.handler(t))
	const waitingRequests = 5
	answers := make(chan reply, waitingRequests)
	ctx, stop := context.WithTimeout(t.Context(), testTimeout)
	defer stop()
	var wg sync.WaitGroup
	for range waitingRequests {
		wg.Go(func() {
			for {
				began := time.Now()
				got := client.doWhenNotBusy(call{method: "GET", path: "/v1/events?after=now&wait_seconds=30&types=tenant.connected", key: env.accountA.key})
				timedOut := got.status == http.StatusOK && len(eventTypes(got)) == 0 && time.Since(began) >= 30*time.Second
				if !timedOut || ctx.Err() != nil { // a wait can time out before the test stores an event
					answers <- got
					return
				}
			}
		})
	}
	// Other requests are answered while these requests wait. The events of the keys that this loop
	// adds do not end the waits, because their type is different.
	for i := range 20 {
		env.addKey(t, env.accountA.account.ID)
		if got := client.doWhenNotBusy(call{method: "GET", path: fmt.Sprintf("/v1/events?limit=%d", i+1), key: env.accountA.key}); got.status != http.StatusOK {
			t.Fatalf("a request got %d while others wait, want 200", got.status)
		}
	}
	// A request that begins to wait after an event was stored does not get that event. Therefore
	// the test stores events until all requests are answered.
	for i := 0; len(answers) < waitingRequests && ctx.Err() == nil; i++ {
		id := tenant.GUID(fmt.Sprintf("aaaaaaaa-0000-4000-8000-%012d", 100+i%20))
		env.attachTenantWithoutPlatform(t, env.accountA, id)
		must(t, env.store.DeleteTenant(t.Context(), env.accountA.account.ID, id, nil))
	}
	wg.Wait()
	close(answers)
	for got := range answers {
		if got.status != http.StatusOK || len(eventTypes(got)) == 0 || eventTypes(got)[0] != "tenant.connected" {
			t.Errorf("a waiting request got %d %s, want the event tenant.connected", got.status, got.raw)
		}
	}
}

// observedLog is a store that closes the channel firstRead after the first read of a log.
type observedLog struct {
	*bunstore.Store
	once      sync.Once
	firstRead chan struct{}
}

func (l *observedLog) LoggedEvents(ctx context.Context, owner access.AccountID, q ports.LogQuery) (ports.LogPage, error) {
	logPage, err := l.Store.LoggedEvents(ctx, owner, q)
	l.once.Do(func() { close(l.firstRead) })
	return logPage, err
}

// TestWaitingRequestEndsWithItsKey revokes the key of a request that waits for events, or suspends
// the account. The next event is logged later, so the request must not get it.
func TestWaitingRequestEndsWithItsKey(t *testing.T) {
	for name, tc := range map[string]struct {
		endAccess  func(t *testing.T, env *testEnv, client *apiClient, keyID string)
		wantStatus int
		wantCode   string
		wantHeader string // the WWW-Authenticate of the answer
	}{
		"the key is revoked": {func(_ *testing.T, env *testEnv, client *apiClient, keyID string) {
			client.expect(call{method: "DELETE", path: "/v1/keys/" + keyID, key: env.accountA.key}, http.StatusOK, "")
		}, http.StatusUnauthorized, "invalid_api_key", "Bearer"},
		"the account is suspended": {func(t *testing.T, env *testEnv, _ *apiClient, _ string) {
			env.deactivate(t, env.accountA)
		}, http.StatusPaymentRequired, "no_api_plan", ""},
	} {
		t.Run(name, func(t *testing.T) {
			env := newTestEnv(t)
			observed := &observedLog{Store: env.store, firstRead: make(chan struct{})}
			env.options.Events.Events = observed
			client := serve(t, env.handler(t))
			created := client.expect(call{method: "POST", path: "/v1/keys", body: `{"name":"reader","scopes":["events:read"]}`, key: env.accountA.key}, http.StatusOK, "")
			answered := make(chan reply, 1)
			go func() {
				answered <- client.do(call{method: "GET", path: "/v1/events?after=now&wait_seconds=30&types=key.created", key: memberText(created, "api_key")})
			}()
			receive(t, observed.firstRead, "the request did not read the log")
			tc.endAccess(t, env, client, memberText(created, "id"))
			env.addKey(t, env.accountA.account.ID)
			got := receive(t, answered, "the request was not answered")
			if got.status != tc.wantStatus || got.code() != tc.wantCode || got.header.Get("WWW-Authenticate") != tc.wantHeader {
				t.Errorf("got %d %v %s, want %d %s with WWW-Authenticate %q", got.status, got.header, got.raw, tc.wantStatus, tc.wantCode, tc.wantHeader)
			}
			if tc.wantStatus == http.StatusUnauthorized {
				requireEntries(t, client, env, "create-key key "+memberText(created, "id")+": 200", "revoke-key key "+memberText(created, "id")+": 200", "list-events nothing: 401 invalid_api_key")
			}
		})
	}
}

// TestStoppingServiceAnswersWaitingRequests checks that a request is answered before its wait of 30
// seconds is over. On a slow machine an answer can take longer, so the test sends up to five
// requests after the service has stopped.
func TestStoppingServiceAnswersWaitingRequests(t *testing.T) {
	env := newTestEnv(t)
	observed := &observedLog{Store: env.store, firstRead: make(chan struct{})}
	env.options.Events.Events = observed
	client := serve(t, env.handler(t))
	waitingCall := call{method: "GET", path: "/v1/events?after=now&wait_seconds=30", key: env.accountA.key}
	answered := make(chan reply, 1)
	began := time.Now()
	go func() { answered <- client.do(waitingCall) }()
	receive(t, observed.firstRead, "the request did not read the log")
	env.options.Events.Stop()
	got := receive(t, answered, "the request was not answered")
	for i := 0; time.Since(began) >= 30*time.Second; i++ {
		if i == 5 {
			t.Fatal("each of six requests was answered after 30 seconds or more, want an answer without a wait")
		}
		began = time.Now()
		client.do(waitingCall)
	}
	if got.status != http.StatusOK || len(eventTypes(got)) != 0 || got.body["next_cursor"] == nil {
		t.Errorf("got %d %s, want 200 with a cursor and no events", got.status, got.raw)
	}
}

// TestWaitingRequestsOfAnAccountAreLimited checks that five requests of an account can wait. A
// sixth request of the account is refused, but a request of a different account is not.
func TestWaitingRequestsOfAnAccountAreLimited(t *testing.T) {
	env := newTestEnv(t)
	env.options.Guard.Limits.Off = false
	client := serve(t, env.handler(t))
	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	const waitPath = "/v1/events?after=now&wait_seconds="
	for range 5 {
		wg.Go(func() {
			for ctx.Err() == nil { // a request is refused while waitBriefly is one of five waiting requests
				request := call{method: "GET", path: waitPath + "30", key: env.accountA.key}.request(t, client.server.URL).WithContext(ctx)
				if response, err := noRedirects.Do(request); err == nil {
					_ = response.Body.Close()
				}
			}
		})
	}
	waitBriefly := func() reply {
		return client.do(call{method: "GET", path: waitPath + "1", key: env.accountA.key})
	}
	got := waitBriefly()
	for deadline := time.Now().Add(testTimeout); got.status == http.StatusOK && time.Now().Before(deadline); {
		got = waitBriefly() // until five requests wait and the next request is refused
	}
	if got.status != http.StatusTooManyRequests || got.code() != "rate_limit_exceeded" || got.header.Get("X-RateLimit-Bucket") != "event_waiters" ||
		got.header.Get("X-RateLimit-Limit") != "5" || got.header.Get("Retry-After") == "" {
		t.Errorf("the sixth request got %d %v %s, want 429 of event_waiters with the limit 5", got.status, got.header, got.raw)
	}
	client.expect(call{method: "GET", path: waitPath + "1", key: env.accountB.key}, http.StatusOK, "")
	client.expect(call{method: "GET", path: "/v1/events?wait_seconds=0", key: env.accountA.key}, http.StatusOK, "")
	cancel()
	wg.Wait()
}

// TestWaitingRequestIsRecognizedInALongQuery checks that a waiting request counts as a waiting
// request, even if net/url cannot parse its query, which has too many parameters or a wrong escape.
func TestWaitingRequestIsRecognizedInALongQuery(t *testing.T) {
	env := newTestEnv(t)
	env.options.Guard.Limits.Off = false
	counters := newCounters(t)
	env.options.Guard.Limits.Counters = counters
	client := serve(t, env.handler(t))
	for range 5 {
		leave, entered := counters.Enter(t.Context(), "waiters:"+string(env.accountA.account.ID), 5)
		if !entered {
			t.Fatal("no slot for waiting requests is free, want five free slots")
		}
		defer leave()
	}
	for _, padding := range []string{"", strings.Repeat("&", 10_000), "&x=%zz"} {
		got := client.do(call{method: "GET", path: "/v1/events?after=now&wait_seconds=1" + padding, key: env.accountA.key})
		if got.status != http.StatusTooManyRequests || got.header.Get("X-RateLimit-Bucket") != "event_waiters" {
			t.Errorf("a query with %.10q (%d bytes) got %d %s, want 429 of event_waiters", padding, len(padding), got.status, got.raw)
		}
	}
}
