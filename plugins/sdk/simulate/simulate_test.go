// SPDX-License-Identifier: Apache-2.0

package simulate_test

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tenantry/tenantry/plugins/sdk/simulate"
)

// shop is a provider that counts what it was asked to do.
type shop struct {
	mu   sync.Mutex
	done []string
}

func (s *shop) Call(r *http.Request, body []byte) simulate.Call {
	return simulate.Call{Operation: string(body), Write: r.Method != http.MethodGet, Host: "/shop", WorkAt: []int{504}}
}

func (s *shop) Fail(w http.ResponseWriter, _ *http.Request, status, retryAfter int) {
	if retryAfter > 0 {
		w.Header().Set("Retry-After", "planned")
	}
	http.Error(w, "planned", status)
}

func (s *shop) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	s.mu.Lock()
	s.done = append(s.done, string(body))
	s.mu.Unlock()
	w.Header().Set("X-Shop", "open")
	w.WriteHeader(http.StatusCreated)
	_, _ = w.Write(body)
}

func (s *shop) works() int { s.mu.Lock(); defer s.mu.Unlock(); return len(s.done) }

type running struct {
	t       *testing.T
	shop    *shop
	kit     *simulate.Kit
	handler http.Handler
	url     string // "" without a server
}

// openDirect opens a simulator that is called without a network, so that it works
// under a fake clock.
func openDirect(t *testing.T, dir string) *running {
	t.Helper()
	kit, err := simulate.Open("shop", simulate.Options{DataDir: dir, Log: io.Discard})
	if err != nil {
		t.Fatal(err)
	}
	r := &running{t: t, shop: &shop{}, kit: kit}
	r.handler = kit.Handler(r.shop, http.NotFoundHandler())
	return r
}

// open opens a simulator with a server.
func open(t *testing.T, dir string) *running {
	t.Helper()
	r := openDirect(t, dir)
	server := httptest.NewServer(r.handler)
	t.Cleanup(server.Close)
	r.url = server.URL
	return r
}

// ask makes one call; the status is 0 when no answer came.
func (r *running) ask(method, path, body string) (int, string) {
	r.t.Helper()
	if r.url == "" {
		answer := httptest.NewRecorder()
		r.handler.ServeHTTP(answer, httptest.NewRequest(method, path, strings.NewReader(body)))
		return answer.Code, answer.Body.String()
	}
	req, err := http.NewRequestWithContext(r.t.Context(), method, r.url+path, strings.NewReader(body))
	if err != nil {
		r.t.Fatal(err)
	}
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	resp, err := client.Do(req)
	if err != nil {
		return 0, ""
	}
	defer func() { _ = resp.Body.Close() }()
	raw, err := io.ReadAll(resp.Body)
	if err != nil {
		r.t.Fatal(err)
	}
	return resp.StatusCode, string(raw)
}

func (r *running) plan(fault string) {
	r.t.Helper()
	if status, body := r.ask("POST", "/_control/faults", fault); status != http.StatusOK || strings.TrimSpace(body) != "{}" {
		r.t.Fatalf("plan %s: %d %s", fault, status, body)
	}
}

func (r *running) calls() []simulate.Entry {
	r.t.Helper()
	_, body := r.ask("GET", "/_control/calls", "")
	var entries []simulate.Entry
	if err := json.Unmarshal([]byte(body), &entries); err != nil || entries == nil {
		r.t.Fatalf("calls: %v: %s", err, body)
	}
	return entries
}

func TestFaultsActOnTheCallsTheyAreMeantFor(t *testing.T) {
	const status = `{"kind":"status","status":503,"times":1`
	for _, tt := range []struct {
		name   string
		faults []string
		calls  [][2]string // method and path; the body is "buy"
		want   []int       // status of each call, 0 for none
		works  int
	}{
		{"no fault", nil, [][2]string{{"GET", "/shop/a"}}, []int{201}, 1},
		{"status answers without the work", []string{status + `}`},
			[][2]string{{"GET", "/shop/a"}, {"GET", "/shop/a"}}, []int{503, 201}, 1},
		{"a status that comes after the work", []string{`{"kind":"status","status":504,"times":1}`},
			[][2]string{{"POST", "/shop/a"}}, []int{504}, 1},
		{"times", []string{`{"kind":"status","status":429,"times":2}`},
			[][2]string{{"GET", "/a"}, {"GET", "/a"}, {"GET", "/a"}}, []int{429, 429, 201}, 1},
		{"skip lets calls pass", []string{status + `,"skip":2}`},
			[][2]string{{"GET", "/a"}, {"GET", "/a"}, {"GET", "/a"}, {"GET", "/a"}}, []int{201, 201, 503, 201}, 3},
		{"match by method and path", []string{status + `,"match":"POST /shop/b"}`},
			[][2]string{{"GET", "/shop/b"}, {"POST", "/shop/a"}, {"POST", "/shop/b/c"}}, []int{201, 201, 503}, 2},
		{"match without the host's prefix", []string{status + `,"match":"POST /b"}`},
			[][2]string{{"POST", "/shop/b"}}, []int{503}, 0},
		{"operation, whatever its case", []string{status + `,"operation":"BUY"}`},
			[][2]string{{"POST", "/shop/b"}}, []int{503}, 0},
		{"another operation", []string{status + `,"operation":"sell"}`},
			[][2]string{{"POST", "/shop/b"}}, []int{201}, 1},
		{"writes only", []string{status + `,"writes_only":true}`},
			[][2]string{{"GET", "/a"}, {"POST", "/a"}}, []int{201, 503}, 1},
		{"drop_before does not do the work", []string{`{"kind":"drop_before","times":1}`},
			[][2]string{{"POST", "/a"}, {"POST", "/a"}}, []int{0, 201}, 1},
		{"drop_after does the work", []string{`{"kind":"drop_after","times":1}`},
			[][2]string{{"POST", "/a"}, {"POST", "/a"}}, []int{0, 201}, 2},
		{"each fault counts for itself", []string{status + `}`, `{"kind":"status","status":429,"times":1,"skip":1}`},
			[][2]string{{"GET", "/a"}, {"GET", "/a"}, {"GET", "/a"}}, []int{503, 429, 201}, 1},
		{"of two that are due the older acts first", []string{status + `}`, `{"kind":"status","status":429,"times":1}`},
			[][2]string{{"GET", "/a"}, {"GET", "/a"}, {"GET", "/a"}}, []int{503, 429, 201}, 1},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := open(t, t.TempDir())
			for _, f := range tt.faults {
				r.plan(f)
			}
			for i, c := range tt.calls {
				if got, _ := r.ask(c[0], c[1], "buy"); got != tt.want[i] {
					t.Errorf("call %d %v: %d, want %d", i, c, got, tt.want[i])
				}
			}
			if r.shop.works() != tt.works {
				t.Errorf("the work was done %d times, want %d", r.shop.works(), tt.works)
			}
		})
	}
}

// TestDelays checks when the work is done and when the answer comes. The journal
// shows the call at once, and its status when the work is done.
func TestDelays(t *testing.T) {
	const wait = 80 * time.Millisecond
	for kind, worked := range map[string]int{"delay": 0, "delay_after": http.StatusCreated} {
		t.Run(kind, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := openDirect(t, t.TempDir())
				r.plan(`{"kind":"` + kind + `","delay_ms":80,"times":1}`)
				began, answered := time.Now(), make(chan int)
				go func() {
					status, _ := r.ask("POST", "/a", "x")
					answered <- status
				}()
				synctest.Wait()
				if calls := r.calls(); len(calls) != 1 || calls[0].Status != worked {
					t.Errorf("during the delay the journal is %+v, want one call with status %d", calls, worked)
				}
				if status := <-answered; status != http.StatusCreated || time.Since(began) != wait {
					t.Errorf("the answer is %d after %s, want 201 after %s", status, time.Since(began), wait)
				}
			})
		})
	}
}

func TestRetryAfterReachesTheProvider(t *testing.T) {
	r := open(t, t.TempDir())
	r.plan(`{"kind":"status","status":429,"retry_after":7,"times":1}`)
	req, _ := http.NewRequestWithContext(t.Context(), http.MethodGet, r.url+"/a", nil)
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	_ = resp.Body.Close()
	if resp.Header.Get("Retry-After") != "planned" {
		t.Error("the provider was not told of retry_after")
	}
}

func TestForgottenFaults(t *testing.T) {
	r := open(t, t.TempDir())
	r.plan(`{"kind":"status","status":500,"times":9}`)
	r.ask("DELETE", "/_control/faults", "")
	if got, body := r.ask("PUT", "/a", "x"); got != http.StatusCreated || body != "x" {
		t.Errorf("%d %s", got, body)
	}
}

func TestControlRefusesWhatItDoesNotUnderstand(t *testing.T) {
	for _, tt := range []struct{ name, path, body string }{
		{"no JSON", "faults", `{`},
		{"two values", "faults", `{"kind":"drop_after","times":1}{}`},
		{"unknown member", "faults", `{"kind":"drop_after","times":1,"often":2}`},
		{"unknown kind", "faults", `{"kind":"explode","times":1}`},
		{"no kind", "faults", `{"times":1}`},
		{"no times", "faults", `{"kind":"drop_after"}`},
		{"no status", "faults", `{"kind":"status","times":1}`},
		{"status of another kind", "faults", `{"kind":"drop_after","status":500,"times":1}`},
		{"no delay", "faults", `{"kind":"delay","times":1}`},
		{"delay of another kind", "faults", `{"kind":"drop_after","delay_ms":5,"times":1}`},
		{"negative skip", "faults", `{"kind":"drop_after","times":1,"skip":-1}`},
		{"match without a path", "faults", `{"kind":"drop_after","times":1,"match":"POST"}`},
		{"another provider", "faults", `{"kind":"drop_after","times":1,"provider":"bakery"}`},
		{"empty clock", "clock", `{}`},
		{"both clocks", "clock", `{"now":"2030-01-01T00:00:00Z","advance":"1h"}`},
		{"no duration", "clock", `{"advance":"tomorrow"}`},
		{"no time", "clock", `{"now":"soon"}`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := open(t, t.TempDir())
			status, body := r.ask("POST", "/_control/"+tt.path, tt.body)
			if status != http.StatusBadRequest || !strings.HasPrefix(body, `{"error":"`) {
				t.Errorf("%d %s", status, body)
			}
		})
	}
}

func TestClock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := t.TempDir()
		r := openDirect(t, dir)
		if !r.kit.Now().Equal(time.Now()) {
			t.Fatalf("a new clock says %v", r.kit.Now())
		}
		r.ask("POST", "/_control/clock", `{"now":"2031-05-01T12:00:00Z"}`)
		set := time.Date(2031, 5, 1, 12, 0, 0, 0, time.UTC)
		if !r.kit.Now().Equal(set) {
			t.Fatalf("a set clock says %v, want %v", r.kit.Now(), set)
		}
		r.ask("POST", "/_control/clock", `{"advance":"24h"}`)
		time.Sleep(time.Second)
		want := set.Add(24*time.Hour + time.Second)
		if !r.kit.Now().Equal(want) {
			t.Fatalf("an advanced clock says %v a second later, want %v", r.kit.Now(), want)
		}
		if again := openDirect(t, dir); !again.kit.Now().Equal(want) {
			t.Fatalf("after a restart the clock says %v, want %v", again.kit.Now(), want)
		}
		r.ask("GET", "/a", "")
		if at := r.calls()[0].At; !at.Equal(want) {
			t.Fatalf("the journal says %v, want %v", at, want)
		}
	})
}

func TestPlannedFaultsSurviveARestart(t *testing.T) {
	dir := t.TempDir()
	r := open(t, dir)
	r.plan(`{"kind":"status","status":503,"times":1,"skip":1}`)
	r.ask("GET", "/a", "")
	if status, _ := open(t, dir).ask("GET", "/a", ""); status != http.StatusServiceUnavailable {
		t.Errorf("%d", status)
	}
}
