// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tenantry/tenantry/core/fault"
	"github.com/tenantry/tenantry/core/outcome"
	"github.com/tenantry/tenantry/core/secret"
	"github.com/tenantry/tenantry/plugins/sdk"
	"github.com/tenantry/tenantry/plugins/sdk/simulate"
	"github.com/tenantry/tenantry/plugins/sending-instantly/simulator"
	"github.com/tenantry/tenantry/ports/contract"
)

func TestCheckTellsTheWorkspace(t *testing.T) {
	w := newWorld(t)
	reach, err := w.platform().Check(t.Context())
	if err != nil || len(reach.Workspaces) != 1 || reach.Workspaces[0].Name != "Example Outreach" || reach.Roaming {
		t.Fatalf("%+v, %v", reach, err)
	}
	whole := reach.Workspaces[0].ID
	// A key that cannot read its workspace: any account tells its id.
	w.control(http.MethodPut, "/keys/narrow", m{"workspace": whole, "scopes": []string{"accounts:all"}})
	if reach, err = w.with("narrow").Check(t.Context()); err != nil || len(reach.Workspaces) != 1 || reach.Workspaces[0].ID != "" {
		t.Fatalf("without accounts: %+v, %v", reach, err)
	}
	w.put("ann@one.test", m{})
	if reach, err = w.with("narrow").Check(t.Context()); err != nil || reach.Workspaces[0].ID != whole {
		t.Fatalf("with one: %+v, %v", reach, err)
	}
}

// A workspace that was asked for and cannot be seen is not taken on trust.
func TestCheckTrustsNoWorkspaceUnseen(t *testing.T) {
	w := newWorld(t)
	w.control(http.MethodPut, "/keys/narrow", m{"scopes": []string{"accounts:read"}})
	w.settings = map[string]string{"workspace_id": "asked-for"}
	if _, err := w.with("narrow").Check(t.Context()); !errors.Is(err, fault.InvalidRequest) {
		t.Errorf("%v", err)
	}
}

// Who may not, and who has not paid.
func TestRefusals(t *testing.T) {
	w := newWorld(t)
	w.control(http.MethodPut, "/keys/reader", m{"scopes": []string{"accounts:read"}})
	w.control(http.MethodPut, "/keys/other", m{"scopes": []string{"campaigns:all"}})
	w.control(http.MethodPut, "/keys/revoked", m{"revoked": true})
	w.control(http.MethodPut, "/workspaces/unpaid", m{"inactive": true})
	w.control(http.MethodPut, "/keys/unpaid", m{"workspace": "unpaid"})
	check := func(p sdk.SendingPlatform) error { _, err := p.Check(t.Context()); return err }
	for _, tt := range []struct {
		name, key, cause string
		call             func(sdk.SendingPlatform) error
	}{
		{"unknown", "guessed", "instantly 401", check},
		{"revoked", "revoked", "instantly 401", check},
		{"no scope at all", "other", "instantly 403", check},
		{"no plan", "unpaid", "plan_inactive", check},
		{"may not start", "reader", "instantly 403", func(p sdk.SendingPlatform) error { _, err := p.StartSignIn(t.Context(), "a@b.test"); return err }},
		{"may not delete", "reader", "instantly 403", func(p sdk.SendingPlatform) error { return p.Remove(t.Context(), "a@b.test") }},
	} {
		t.Run(tt.name, func(t *testing.T) {
			err := tt.call(w.with(tt.key))
			var o *outcome.Error
			if !errors.As(err, &o) || o.Kind != outcome.Refused || !errors.Is(err, fault.AccessDenied) || o.Cause != tt.cause {
				t.Errorf("%v", err)
			}
		})
	}
}

// The table of section 1.4 of Instantly's statuses.
func TestStates(t *testing.T) {
	w := newWorld(t)
	for _, tt := range []struct {
		name string
		at   m
		want sdk.Account
	}{
		{"active", m{"status": 1}, sdk.Account{State: sdk.AccountConnected}},
		{"paused", m{"status": 2}, sdk.Account{State: sdk.AccountConnected, Paused: true}},
		{"maintenance", m{"status": 3}, sdk.Account{State: sdk.AccountConnected}},
		{"being set up", m{"status": 1, "setup_pending": true}, sdk.Account{State: sdk.AccountPending}},
		{"lost", m{"status": -1, "setup_pending": false, "autofix_failed": true}, sdk.Account{State: sdk.AccountFailed, HasError: true, Reason: "connection_error"}},
		{"lost, reconnecting", m{"status": -1, "reconnecting": true}, sdk.Account{State: sdk.AccountOther, HasError: true, Reason: "reconnecting"}},
		{"soft bounces", m{"status": -2}, sdk.Account{State: sdk.AccountConnected, HasError: true, Reason: "soft_bounce_error"}},
		{"cannot send", m{"status": -3}, sdk.Account{State: sdk.AccountConnected, HasError: true, Reason: "sending_error"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			w.put("ann.lee@one.test", tt.at)
			got, err := w.platform().Account(t.Context(), "ann.lee@one.test")
			tt.want.ID, tt.want.Address, tt.want.Name, tt.want.Stamp = "ann.lee@one.test", "ann.lee@one.test", "Ann Lee", got.Stamp
			if err != nil || got != tt.want || got.Stamp == "" {
				t.Errorf("got %+v, %v", got, err)
			}
		})
	}
	strange := 17.0
	if got := (accountDoc{Email: "a@b.test", Status: &strange}).account(); got.State != sdk.AccountOther {
		t.Errorf("an unknown status: %+v", got)
	}
	if got := (accountDoc{Email: "a@b.test"}).account(); got.State != sdk.AccountOther {
		t.Errorf("no status: %+v", got)
	}
}

// The cursor holds an ampersand, and comes with the last page too.
func TestPaging(t *testing.T) {
	for _, quiet := range []bool{false, true} {
		t.Run(fmt.Sprint("no cursor at the end: ", quiet), func(t *testing.T) {
			w := newWorld(t)
			w.control(http.MethodPost, "/behaviour", m{"no_cursor": quiet})
			var many []m
			for i := range 250 {
				many = append(many, m{"email": fmt.Sprintf("box+%03d@one.test", i)})
			}
			w.control(http.MethodPost, "/accounts", many)
			seen, pages := map[string]bool{}, 0
			for cursor := ""; pages == 0 || cursor != ""; pages++ {
				page, err := w.platform().Accounts(t.Context(), cursor)
				if err != nil {
					t.Fatal(err)
				}
				for _, a := range page.Accounts {
					seen[a.Address] = true
				}
				cursor = page.Next
			}
			if len(seen) != 250 || pages > 4 {
				t.Errorf("%d accounts on %d pages", len(seen), pages)
			}
		})
	}
}

// Addresses are escaped in paths and compared without their case.
func TestAddresses(t *testing.T) {
	w := newWorld(t)
	for _, address := range []string{"a/b@one.test", "per%cent@one.test", "plus+tag@one.test", "who?@one.test", "Mixed.Case@one.test"} {
		w.put(address, m{})
		for _, asked := range []string{address, strings.ToLower(address), strings.ToUpper(address)} {
			if got, err := w.platform().Account(t.Context(), asked); err != nil || got.Address != address {
				t.Errorf("%s: got %+v, %v", asked, got, err)
			}
		}
		if err := w.platform().Remove(t.Context(), address); err != nil {
			t.Error(err)
		}
		if got, err := w.platform().Account(t.Context(), address); err != nil || got.There() {
			t.Errorf("%s is still there: %+v, %v", address, got, err)
		}
		if err := w.platform().Remove(t.Context(), address); err != nil {
			t.Errorf("gone already: %v", err)
		}
	}
	for _, odd := range []string{"", "..", "."} {
		if got, err := w.platform().Account(t.Context(), odd); err != nil || got.There() {
			t.Errorf("%q: %+v, %v", odd, got, err)
		}
		if err := w.platform().Remove(t.Context(), odd); err != nil {
			t.Errorf("%q: %v", odd, err)
		}
	}
	// Part of an address is another one's.
	w.put("joann@one.test", m{})
	if got, err := w.platform().Account(t.Context(), "ann@one.test"); err != nil || got.There() {
		t.Errorf("found %+v, %v", got, err)
	}
}

func (w *world) start(address string) sdk.SignInSession {
	w.t.Helper()
	s, err := w.platform().StartSignIn(w.t.Context(), address)
	if err != nil {
		w.t.Fatal(err)
	}
	return s
}

func (w *world) progress(s sdk.SignInSession) sdk.Progress {
	w.t.Helper()
	now, err := w.platform().SignIn(w.t.Context(), s.ID)
	if err != nil {
		w.t.Fatal(err)
	}
	return now
}

func TestASession(t *testing.T) {
	w := newWorld(t)
	began := time.Now()
	s := w.start("ann.lee@one.test")
	if lasts := s.ExpiresAt.Sub(began); lasts < 10*time.Minute-time.Second || lasts > 10*time.Minute+time.Since(began) {
		t.Errorf("the session lasts %s, want 10 minutes", lasts)
	}
	if now := w.progress(s); now != (sdk.Progress{State: sdk.SignInPending}) {
		t.Errorf("at first %+v", now)
	}
	if page := w.page(s.URL); !strings.Contains(page, `name="username" type="text" value="ann.lee@one.test"`) {
		t.Errorf("the page asks for another: %s", page)
	}
	if status := w.decide(s.URL, "ann.lee@one.test", "accept"); status != http.StatusOK {
		t.Fatalf("the page says %d", status)
	}
	if now := w.progress(s); now != (sdk.Progress{State: sdk.SignInSucceeded, Address: "ann.lee@one.test", Name: "Ann Lee"}) {
		t.Errorf("then %+v", now)
	}
	first, err := w.platform().Account(t.Context(), "ann.lee@one.test")
	if err != nil || first.State != sdk.AccountConnected {
		t.Fatalf("%+v, %v", first, err)
	}
	if status := w.decide(s.URL, "bob@one.test", "accept"); status != http.StatusGone {
		t.Errorf("a used link answers %d", status)
	}
	// Signed in anew, the same account has another stamp.
	w.control(http.MethodPost, "/clock", m{"advance": "1s"})
	w.decide(w.start("ann.lee@one.test").URL, "ann.lee@one.test", "accept")
	if again, err := w.platform().Account(t.Context(), "ann.lee@one.test"); err != nil || again.Stamp == first.Stamp {
		t.Errorf("%+v, %v", again, err)
	}
}

// Whoever signs in is attached, also another than was asked for.
func TestTheWrongPersonSignsIn(t *testing.T) {
	w := newWorld(t)
	s := w.start("ann@one.test")
	w.decide(s.URL, "bob@one.test", "accept")
	if now := w.progress(s); now.State != sdk.SignInSucceeded || now.Address != "bob@one.test" {
		t.Errorf("%+v", now)
	}
	if got, err := w.platform().Account(t.Context(), "bob@one.test"); err != nil || !got.There() {
		t.Errorf("%+v, %v", got, err)
	}
}

func TestSessionsThatCameToNothing(t *testing.T) {
	w := newWorld(t)
	denied, late, forgotten := w.start("a@one.test"), w.start("b@one.test"), w.start("c@one.test")
	w.decide(denied.URL, "a@one.test", "deny")
	if now := w.progress(denied); now != (sdk.Progress{State: sdk.SignInFailed, Reason: "access_denied"}) {
		t.Errorf("denied: %+v", now)
	}
	w.control(http.MethodPost, "/sessions/"+forgotten.ID+"/forget", m{})
	if now := w.progress(forgotten); now.State != sdk.SignInExpired {
		t.Errorf("forgotten: %+v", now)
	}
	w.control(http.MethodPost, "/clock", m{"advance": "10m"})
	if now := w.progress(late); now.State != sdk.SignInExpired {
		t.Errorf("late: %+v", now)
	}
	if status := w.decide(late.URL, "b@one.test", "accept"); status != http.StatusGone {
		t.Errorf("a late page answers %d", status)
	}
	if now, err := w.platform().SignIn(t.Context(), ".."); err != nil || now.State != sdk.SignInExpired {
		t.Errorf("an id that is a path: %+v, %v", now, err)
	}
	// A session belongs to its workspace.
	w.control(http.MethodPut, "/keys/other", m{"workspace": "another"})
	if now, err := w.with("other").SignIn(t.Context(), denied.ID); err != nil || now.State != sdk.SignInExpired {
		t.Errorf("another workspace's: %+v, %v", now, err)
	}
}

// An account that was attached a moment ago may not be listed yet.
func TestLag(t *testing.T) {
	w := newWorld(t)
	w.control(http.MethodPost, "/behaviour", m{"list_lag_ms": 5000})
	w.decide(w.start("ann@one.test").URL, "ann@one.test", "accept")
	if got, err := w.platform().Account(t.Context(), "ann@one.test"); err != nil || got.There() {
		t.Errorf("at once: %+v, %v", got, err)
	}
	w.control(http.MethodPost, "/clock", m{"advance": "5s"})
	if got, err := w.platform().Account(t.Context(), "ann@one.test"); err != nil || !got.There() {
		t.Errorf("later: %+v, %v", got, err)
	}
}

// direct is a transport that calls a handler without a network, so that a call
// takes no time of a fake clock.
type direct struct{ handler http.Handler }

func (d direct) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.Body == nil {
		r.Body = http.NoBody
	}
	answer := httptest.NewRecorder()
	d.handler.ServeHTTP(answer, r)
	return answer.Result(), nil
}

// TestTooManyStarts checks the limits of sign-ins in a minute: 75 of a workspace
// and 150 of an address. A refused call counts for the address.
func TestTooManyStarts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		handler, ready, err := simulator.New(simulate.Options{URL: "http://127.0.0.1:1", DataDir: t.TempDir(), Log: io.Discard})
		if err != nil {
			t.Fatal(err)
		}
		client := &http.Client{Transport: direct{handler}}
		with := func(key string) sdk.SendingPlatform {
			p, err := (&house{client, time.Now}).platform(sdk.Connection{Settings: ready.Settings, Secrets: map[string]secret.Text{"api_key": secret.New(key)}})
			if err != nil {
				t.Fatal(err)
			}
			return p
		}
		for range 75 {
			if _, err := with(simulator.Key).StartSignIn(t.Context(), "a@one.test"); err != nil {
				t.Fatal(err)
			}
		}
		var o *outcome.Error
		if _, err := with(simulator.Key).StartSignIn(t.Context(), "a@one.test"); !errors.As(err, &o) || o.Kind != outcome.Throttled || o.RetryAfter != time.Minute {
			t.Errorf("start 76 of a workspace: %v, want throttled for a minute", err)
		}
		other := strings.NewReader(`{"workspace": "019ffad2-5cac-7fb9-a336-000000000002"}`)
		handler.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest(http.MethodPut, ready.URL+"/_control/keys/other", other))
		for i := range 75 {
			_, err := with("other").StartSignIn(t.Context(), "a@one.test")
			if throttled := outcome.Of(err) == outcome.Throttled; throttled != (i >= 74) {
				t.Fatalf("start %d of the address: %v", 76+i+1, err)
			}
		}
	})
}

func TestLinksElsewhereAreRefused(t *testing.T) {
	w := newWorld(t)
	w.settings = map[string]string{"auth_hosts": "login.microsoftonline.com"}
	if s, err := w.platform().StartSignIn(t.Context(), "a@one.test"); err == nil || outcome.Of(err) != outcome.Broken {
		t.Errorf("%+v, %v", s, err)
	}
	w.settings = nil
	w.control(http.MethodPost, "/behaviour", m{"auth_host": "login.microsoftonline.com.evil.test"})
	if s, err := w.platform().StartSignIn(t.Context(), "a@one.test"); err == nil || outcome.Of(err) != outcome.Broken {
		t.Errorf("%+v, %v", s, err)
	}
}

// A listing that never ends would make a part pass for all.
func TestAListingInACircle(t *testing.T) {
	w := newWorld(t)
	var many []m
	for i := range 120 {
		many = append(many, m{"email": fmt.Sprintf("box%03d@one.test", i)})
	}
	w.control(http.MethodPost, "/accounts", many)
	w.control(http.MethodPost, "/behaviour", m{"repeat_page": true})
	first, err := w.platform().Accounts(t.Context(), "")
	if err != nil || first.Next == "" {
		t.Fatalf("%d accounts, %v", len(first.Accounts), err)
	}
	if _, err := w.platform().Accounts(t.Context(), first.Next); outcome.Of(err) != outcome.Broken {
		t.Errorf("%v", err)
	}
}

// A 503 of a start is Microsoft's; it passes soon.
func TestMicrosoftThrottlesInstantly(t *testing.T) {
	w := newWorld(t)
	w.Fail(t, contract.IsDown)
	var o *outcome.Error
	if _, err := w.platform().StartSignIn(t.Context(), "a@one.test"); !errors.As(err, &o) || o.Kind != outcome.Down || o.RetryAfter != upstreamPause {
		t.Errorf("%v", err)
	}
}

// Pages of proxies say nothing of keys and accounts, whatever their status.
func TestPagesOfProxies(t *testing.T) {
	for _, status := range []int{http.StatusUnauthorized, http.StatusForbidden, http.StatusPaymentRequired, http.StatusNotFound, http.StatusFound} {
		w := newWorld(t)
		w.unchecked = true
		w.control(http.MethodPost, "/faults", m{"kind": "html", "status": status, "times": 3})
		p := w.platform()
		_, err := p.Check(t.Context())
		_, lost := p.Account(t.Context(), "a@one.test")
		for what, err := range map[string]error{"check": err, "account": lost, "remove": p.Remove(t.Context(), "a@one.test")} {
			if outcome.Of(err) != outcome.Broken {
				t.Errorf("%s with %d: %v", what, status, err)
			}
		}
	}
}

func TestTheHint(t *testing.T) {
	for given, want := range map[string]string{
		"https://login.test/a?state=x%20y":        "https://login.test/a?state=x%20y&login_hint=a%2Bb%40one.test",
		"https://login.test/a":                    "https://login.test/a?login_hint=a%2Bb%40one.test",
		"https://login.test/a?login_hint=theirs":  "https://login.test/a?login_hint=theirs",
		"https://login.test/a?state=1&scope=a+b/": "https://login.test/a?state=1&scope=a+b/&login_hint=a%2Bb%40one.test",
	} {
		if got := hinted(given, "a+b@one.test"); got != want {
			t.Errorf("%s became %s", given, got)
		}
		if _, err := url.Parse(want); err != nil {
			t.Error(err)
		}
	}
}

func TestSettings(t *testing.T) {
	for name, change := range map[string]func(*sdk.Connection){
		"no key":               func(c *sdk.Connection) { delete(c.Secrets, "api_key") },
		"a key of two words":   func(c *sdk.Connection) { c.Secrets["api_key"] = secret.New("a b") },
		"a key with a newline": func(c *sdk.Connection) { c.Secrets["api_key"] = secret.New("a\nb") },
		"no URL":               func(c *sdk.Connection) { c.Settings["base_url"] = "instantly" },
		"another scheme":       func(c *sdk.Connection) { c.Settings["base_url"] = "file:///etc" },
	} {
		c := sdk.Connection{Settings: map[string]string{}, Secrets: map[string]sdk.Secret{"api_key": secret.New("k")}}
		change(&c)
		if _, err := newHouse().platform(c); !errors.Is(err, fault.InvalidRequest) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
