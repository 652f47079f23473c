// SPDX-License-Identifier: Apache-2.0

package main

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/tenantry/tenantry/plugins/sdk"
)

// providerAnswering returns a provider whose server answers every request with begin, then as many
// copies of part as times says, and then end.
func providerAnswering(t *testing.T, begin, part string, times int, end string) sdk.DNSProvider {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, begin)
		for range times {
			if _, err := io.WriteString(w, part); err != nil {
				return
			}
		}
		_, _ = io.WriteString(w, end)
	}))
	t.Cleanup(server.Close)
	provider, err := newTestState().provider(sdk.Connection{
		Settings: map[string]string{"api_url": server.URL, "allow_private": "true"},
		Secrets:  map[string]sdk.Secret{"api_key": sdk.NewSecret("k")},
	})
	if err != nil {
		t.Fatal(err)
	}
	return provider
}

// TestCheckCountsThousandsOfZones checks that Check accepts a server with thousands of zones. Check
// must fail if the list of zones is larger than maxZoneList, or if the answer is not a list.
func TestCheckCountsThousandsOfZones(t *testing.T) {
	const begin = `[{"id":"z.test.","name":"z.test."}`
	entry := `,{"id":"a.test.","name":"a.test.","url":"` + strings.Repeat("x", 1000) + `"}`
	if zones, err := providerAnswering(t, begin, entry, 4999, "]").Check(t.Context()); zones != 5000 || err != nil {
		t.Errorf("Check counts %d zones, %v, want 5000", zones, err)
	}
	if _, err := providerAnswering(t, begin, entry, 40_000, "]").Check(t.Context()); sdk.OutcomeOf(err) != sdk.OutcomeOf(sdk.AnswerTooLarge()) {
		t.Errorf("Check of a list over maxZoneList: %v, want too large", err)
	}
	for _, nonsense := range []string{"", "{}", "<html>", `["a"]`, begin} {
		if _, err := providerAnswering(t, nonsense, "", 0, "").Check(t.Context()); sdk.OutcomeOf(err).Kind != sdk.Broken {
			t.Errorf("Check of the answer %q: %v, want broken", nonsense, err)
		}
	}
}

// TestZoneAboveTheSizeLimitIsRefused checks that Records reads a large zone, and refuses a zone
// that is larger than maxZone.
func TestZoneAboveTheSizeLimitIsRefused(t *testing.T) {
	zone := sdk.Zone{ID: "a.test.", Name: "a.test"}
	const begin = `{"id":"a.test.","name":"a.test.","rrsets":[{"name":"a.test.","type":"TXT","ttl":60,"records":[{"content":"\"x\""}]}`
	entry := `,{"name":"b.a.test.","type":"TXT","ttl":60,"records":[{"content":"\"` + strings.Repeat("x", 200) + `\""}]}`
	if sets, err := providerAnswering(t, begin, entry, 20_000, "]}").Records(t.Context(), zone); len(sets) != 20_001 || err != nil {
		t.Errorf("Records returns %d sets, %v, want 20001", len(sets), err)
	}
	_, err := providerAnswering(t, begin, entry, 60_000, "]}").Records(t.Context(), zone)
	if sdk.OutcomeOf(err) != sdk.OutcomeOf(sdk.AnswerTooLarge()) || !strings.Contains(err.Error(), "too large") {
		t.Errorf("Records of a zone over maxZone: %v, want too large", err)
	}
}
