// SPDX-License-Identifier: Apache-2.0

package main

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tenantry/tenantry/plugins/conformance"
	"github.com/tenantry/tenantry/plugins/sdk/simulate"
	"github.com/tenantry/tenantry/plugins/sending-salesblink/simulator"
)

// TestRateLimitsOfAKey checks the limits of 30 reads and 15 writes per minute. The answer to a call
// over the limit has no Retry-After.
func TestRateLimitsOfAKey(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		handler, ready, err := simulator.New(simulate.Options{URL: "http://127.0.0.1:1", DataDir: t.TempDir(), Log: io.Discard})
		if err != nil {
			t.Fatal(err)
		}
		send := func(call, key, body string) *httptest.ResponseRecorder {
			method, path, _ := strings.Cut(call, " ")
			req := httptest.NewRequest(method, path, strings.NewReader(body))
			req.Header.Set("Authorization", key)
			answer := httptest.NewRecorder()
			handler.ServeHTTP(answer, req)
			return answer
		}
		send("PUT "+ready.URL+"/_control/keys/key-other", "", `{"workspaces": [{"id": "w", "name": "W"}], "role": "owner"}`)
		for call, limit := range map[string]int{"GET /senders": 30, "POST /oauth/outlook": 15} {
			call = strings.Replace(call, "/", ready.Settings["base_url"]+"/", 1)
			for i := range limit + 1 {
				answer := send(call, simulator.Key, "")
				if isThrottled := answer.Code == http.StatusTooManyRequests; isThrottled != (i == limit) || answer.Header().Get("Retry-After") != "" {
					t.Fatalf("%s, call %d: %d, want 429 only after %d calls, and no Retry-After", call, i+1, answer.Code, limit)
				}
			}
			if answer := send(call, "key-other", ""); answer.Code != http.StatusOK {
				t.Errorf("%s with a different key: %d, want 200", call, answer.Code)
			}
		}
		time.Sleep(time.Minute)
		if answer := send("GET "+ready.Settings["base_url"]+"/senders", simulator.Key, ""); answer.Code != http.StatusOK {
			t.Errorf("a minute later: %d, want 200", answer.Code)
		}
	})
}

func TestSimulatorAcceptsOnlyKeysWithoutBearer(t *testing.T) {
	env := newTestEnv(t)
	for key, want := range map[string]int{simulator.Key: 200, "Bearer " + simulator.Key: 401, "": 401, "key-guessed": 401} {
		req, err := http.NewRequest(http.MethodGet, env.Ready.Settings["base_url"]+"/workspaces", nil)
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Authorization", key)
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		if _ = resp.Body.Close(); resp.StatusCode != want {
			t.Errorf("the key %q: %d, want %d", key, resp.StatusCode, want)
		}
	}
}

func TestSimulatorServesLinksAndKeepsItsState(t *testing.T) {
	conformance.SendingSimulator(t, simulator.New, plugin(), `{"skip": "both"}`)
}

func TestTestsInTheReadmeExist(t *testing.T) { conformance.ReadmeNamesTests(t, 10) }

func TestRetryAfterHoldsBackTheKey(t *testing.T) {
	conformance.RetryAfter(t, simulator.New, plugin())
}
