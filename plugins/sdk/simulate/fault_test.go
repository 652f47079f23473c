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

// fakeProvider is a Provider that answers 201 with the body of the request. It records the body of
// each request that it executes.
type fakeProvider struct {
	mu             sync.Mutex
	executedBodies []string
}

func (p *fakeProvider) Call(r *http.Request, body []byte) simulate.Call {
	return simulate.Call{Operation: string(body), Write: r.Method != http.MethodGet, Host: "/shop", WorkAt: []int{504}}
}

func (p *fakeProvider) Fail(w http.ResponseWriter, _ *http.Request, status, retryAfter int) {
	if retryAfter > 0 {
		w.Header().Set("Retry-After", "planned")
	}
	http.Error(w, "planned", status)
}

func (p *fakeProvider) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	p.mu.Lock()
	p.executedBodies = append(p.executedBodies, string(body))
	p.mu.Unlock()
	w.Header().Set("X-Shop", "open")
	w.WriteHeader(http.StatusCreated)
	_, _ = w.Write(body)
}

func (p *fakeProvider) executed() int { p.mu.Lock(); defer p.mu.Unlock(); return len(p.executedBodies) }

// testSimulator is a simulator of fakeProvider.
type testSimulator struct {
	t        *testing.T
	provider *fakeProvider
	kit      *simulate.Kit
	handler  http.Handler
	url      string // "" without a server
}

// newSimulator returns a simulator that is called without a network, so that a test can use a fake
// clock.
func newSimulator(t *testing.T, dir string) *testSimulator {
	t.Helper()
	kit, err := simulate.Open("shop", simulate.Options{DataDir: dir, Log: io.Discard})
	if err != nil {
		t.Fatal(err)
	}
	s := &testSimulator{t: t, provider: &fakeProvider{}, kit: kit}
	s.handler = kit.Handler(s.provider, http.NotFoundHandler())
	return s
}

// startSimulator returns a simulator with an HTTP server.
func startSimulator(t *testing.T, dir string) *testSimulator {
	t.Helper()
	s := newSimulator(t, dir)
	server := httptest.NewServer(s.handler)
	t.Cleanup(server.Close)
	s.url = server.URL
	return s
}

// call makes one call and returns status and body. The status is 0 if no answer was received.
func (s *testSimulator) call(method, path, body string) (int, string) {
	s.t.Helper()
	if s.url == "" {
		answer := httptest.NewRecorder()
		s.handler.ServeHTTP(answer, httptest.NewRequest(method, path, strings.NewReader(body)))
		return answer.Code, answer.Body.String()
	}
	req, err := http.NewRequestWithContext(s.t.Context(), method, s.url+path, strings.NewReader(body))
	if err != nil {
		s.t.Fatal(err)
	}
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	resp, err := client.Do(req)
	if err != nil {
		return 0, ""
	}
	defer func() { _ = resp.Body.Close() }()
	raw, err := io.ReadAll(resp.Body)
	if err != nil {
		s.t.Fatal(err)
	}
	return resp.StatusCode, string(raw)
}

func (s *testSimulator) planFault(fault string) {
	s.t.Helper()
	if status, body := s.call("POST", "/_control/faults", fault); status != http.StatusOK || strings.TrimSpace(body) != "{}" {
		s.t.Fatalf("planning the fault %s: %d %s, want 200 {}", fault, status, body)
	}
}

func (s *testSimulator) journal() []simulate.Entry {
	s.t.Helper()
	_, body := s.call("GET", "/_control/calls", "")
	var entries []simulate.Entry
	if err := json.Unmarshal([]byte(body), &entries); err != nil || entries == nil {
		s.t.Fatalf("the journal is not a list of calls: %v: %s", err, body)
	}
	return entries
}

func TestFaultsAffectMatchingCalls(t *testing.T) {
	const status = `{"kind":"status","status":503,"times":1`
	for _, tc := range []struct {
		name     string
		faults   []string
		calls    [][2]string // method and path, with the body "buy"
		want     []int       // status of each call, 0 for none
		executed int
	}{
		{"no fault", nil, [][2]string{{"GET", "/shop/a"}}, []int{201}, 1},
		{"status does not execute the request", []string{status + `}`},
			[][2]string{{"GET", "/shop/a"}, {"GET", "/shop/a"}}, []int{503, 201}, 1},
		{"a status in WorkAt executes the request", []string{`{"kind":"status","status":504,"times":1}`},
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
		{"a different operation", []string{status + `,"operation":"sell"}`},
			[][2]string{{"POST", "/shop/b"}}, []int{201}, 1},
		{"writes only", []string{status + `,"writes_only":true}`},
			[][2]string{{"GET", "/a"}, {"POST", "/a"}}, []int{201, 503}, 1},
		{"drop_before does not execute the request", []string{`{"kind":"drop_before","times":1}`},
			[][2]string{{"POST", "/a"}, {"POST", "/a"}}, []int{0, 201}, 1},
		{"drop_after executes the request", []string{`{"kind":"drop_after","times":1}`},
			[][2]string{{"POST", "/a"}, {"POST", "/a"}}, []int{0, 201}, 2},
		{"each fault counts its own calls", []string{status + `}`, `{"kind":"status","status":429,"times":1,"skip":1}`},
			[][2]string{{"GET", "/a"}, {"GET", "/a"}, {"GET", "/a"}}, []int{503, 429, 201}, 1},
		{"the older of two due faults comes first", []string{status + `}`, `{"kind":"status","status":429,"times":1}`},
			[][2]string{{"GET", "/a"}, {"GET", "/a"}, {"GET", "/a"}}, []int{503, 429, 201}, 1},
	} {
		t.Run(tc.name, func(t *testing.T) {
			s := startSimulator(t, t.TempDir())
			for _, fault := range tc.faults {
				s.planFault(fault)
			}
			for i, call := range tc.calls {
				if got, _ := s.call(call[0], call[1], "buy"); got != tc.want[i] {
					t.Errorf("call %d %v: %d, want %d", i, call, got, tc.want[i])
				}
			}
			if s.provider.executed() != tc.executed {
				t.Errorf("%d requests were executed, want %d", s.provider.executed(), tc.executed)
			}
		})
	}
}

// TestFaultsDelayBeforeOrAfterExecution checks when a request is executed and when it is answered.
// The call must be in the journal at once. The journal must have the status of the call as soon as
// the request has been executed, even before the answer is sent.
func TestFaultsDelayBeforeOrAfterExecution(t *testing.T) {
	const delay = 80 * time.Millisecond
	for kind, statusDuringDelay := range map[string]int{"delay": 0, "delay_after": http.StatusCreated} {
		t.Run(kind, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newSimulator(t, t.TempDir())
				s.planFault(`{"kind":"` + kind + `","delay_ms":80,"times":1}`)
				began, answered := time.Now(), make(chan int)
				go func() {
					status, _ := s.call("POST", "/a", "x")
					answered <- status
				}()
				synctest.Wait()
				if calls := s.journal(); len(calls) != 1 || calls[0].Status != statusDuringDelay {
					t.Errorf("during the delay the journal is %+v, want one call with status %d", calls, statusDuringDelay)
				}
				if status := <-answered; status != http.StatusCreated || time.Since(began) != delay {
					t.Errorf("the answer is %d after %s, want 201 after %s", status, time.Since(began), delay)
				}
			})
		})
	}
}

func TestRetryAfterReachesTheProvider(t *testing.T) {
	s := startSimulator(t, t.TempDir())
	s.planFault(`{"kind":"status","status":429,"retry_after":7,"times":1}`)
	req, _ := http.NewRequestWithContext(t.Context(), http.MethodGet, s.url+"/a", nil)
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	_ = resp.Body.Close()
	if resp.Header.Get("Retry-After") != "planned" {
		t.Errorf("Retry-After is %q, want the one that the provider sets for a fault with retry_after", resp.Header.Get("Retry-After"))
	}
}

func TestFaultsCanBeDeleted(t *testing.T) {
	s := startSimulator(t, t.TempDir())
	s.planFault(`{"kind":"status","status":500,"times":9}`)
	s.call("DELETE", "/_control/faults", "")
	if got, body := s.call("PUT", "/a", "x"); got != http.StatusCreated || body != "x" {
		t.Errorf("after the deletion: %d %s, want 201 x", got, body)
	}
}

func TestControlRefusesInvalidCalls(t *testing.T) {
	for _, tc := range []struct{ name, path, body string }{
		{"no JSON", "faults", `{`},
		{"two values", "faults", `{"kind":"drop_after","times":1}{}`},
		{"unknown member", "faults", `{"kind":"drop_after","times":1,"often":2}`},
		{"unknown kind", "faults", `{"kind":"explode","times":1}`},
		{"no kind", "faults", `{"times":1}`},
		{"no times", "faults", `{"kind":"drop_after"}`},
		{"no status", "faults", `{"kind":"status","times":1}`},
		{"status with a kind that has none", "faults", `{"kind":"drop_after","status":500,"times":1}`},
		{"no delay", "faults", `{"kind":"delay","times":1}`},
		{"delay with a kind that has none", "faults", `{"kind":"drop_after","delay_ms":5,"times":1}`},
		{"negative skip", "faults", `{"kind":"drop_after","times":1,"skip":-1}`},
		{"match without a path", "faults", `{"kind":"drop_after","times":1,"match":"POST"}`},
		{"a different provider", "faults", `{"kind":"drop_after","times":1,"provider":"bakery"}`},
		{"empty clock", "clock", `{}`},
		{"both clocks", "clock", `{"now":"2030-01-01T00:00:00Z","advance":"1h"}`},
		{"no duration", "clock", `{"advance":"tomorrow"}`},
		{"no time", "clock", `{"now":"soon"}`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			s := startSimulator(t, t.TempDir())
			status, body := s.call("POST", "/_control/"+tc.path, tc.body)
			if status != http.StatusBadRequest || !strings.HasPrefix(body, `{"error":"`) {
				t.Errorf("the answer is %d %s, want 400 with an error", status, body)
			}
		})
	}
}

func TestClockCanBeSetAndAdvanced(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := t.TempDir()
		simulator := newSimulator(t, dir)
		if !simulator.kit.Now().Equal(time.Now()) {
			t.Fatalf("a new clock shows %v, want %v", simulator.kit.Now(), time.Now())
		}
		simulator.call("POST", "/_control/clock", `{"now":"2031-05-01T12:00:00Z"}`)
		set := time.Date(2031, 5, 1, 12, 0, 0, 0, time.UTC)
		if !simulator.kit.Now().Equal(set) {
			t.Fatalf("the clock shows %v after it was set, want %v", simulator.kit.Now(), set)
		}
		simulator.call("POST", "/_control/clock", `{"advance":"24h"}`)
		time.Sleep(time.Second)
		want := set.Add(24*time.Hour + time.Second)
		if !simulator.kit.Now().Equal(want) {
			t.Fatalf("the clock shows %v one second after the advance, want %v", simulator.kit.Now(), want)
		}
		if restarted := newSimulator(t, dir); !restarted.kit.Now().Equal(want) {
			t.Fatalf("after a restart the clock shows %v, want %v", restarted.kit.Now(), want)
		}
		simulator.call("GET", "/a", "")
		if at := simulator.journal()[0].At; !at.Equal(want) {
			t.Fatalf("the journal has the time %v, want %v", at, want)
		}
	})
}

func TestPlannedFaultsSurviveARestart(t *testing.T) {
	dir := t.TempDir()
	s := startSimulator(t, dir)
	s.planFault(`{"kind":"status","status":503,"times":1,"skip":1}`)
	s.call("GET", "/a", "")
	if status, _ := startSimulator(t, dir).call("GET", "/a", ""); status != http.StatusServiceUnavailable {
		t.Errorf("after a restart, the second call answers %d, want the planned 503", status)
	}
}

func TestFaultsCanReplaceTheAnswer(t *testing.T) {
	for name, tc := range map[string]struct {
		fault, body      string
		status, executed int
	}{
		"a proxy's page":            {`{"kind":"html","times":1}`, "<html><body><h1>Attention required</h1></body></html>\n", http.StatusOK, 0},
		"a proxy's page with a 403": {`{"kind":"html","status":403,"times":1}`, "<html><body><h1>Attention required</h1></body></html>\n", http.StatusForbidden, 0},
		"JSON of another shape":     {`{"kind":"misshape","times":1}`, `{"unexpected":[]}` + "\n", http.StatusOK, 0},
		"half of the answer":        {`{"kind":"truncate","times":1}`, "bre", http.StatusCreated, 1},
	} {
		t.Run(name, func(t *testing.T) {
			s := startSimulator(t, t.TempDir())
			s.planFault(tc.fault)
			if status, body := s.call("POST", "/bread", "breads"); status != tc.status || body != tc.body || s.provider.executed() != tc.executed {
				t.Errorf("%d %q after %d executions, want %d %q after %d", status, body, s.provider.executed(), tc.status, tc.body, tc.executed)
			}
			if status, _ := s.call("POST", "/bread", "breads"); status != http.StatusCreated {
				t.Errorf("the next call answers %d, want 201", status)
			}
		})
	}
	s := startSimulator(t, t.TempDir())
	for _, invalid := range []string{`{"kind":"html","status":700,"times":1}`, `{"kind":"misshape","status":500,"times":1}`, `{"kind":"html","retry_after":5,"times":1}`} {
		if status, _ := s.call("POST", "/_control/faults", invalid); status != http.StatusBadRequest {
			t.Errorf("planning %s: %d, want 400", invalid, status)
		}
	}
}
