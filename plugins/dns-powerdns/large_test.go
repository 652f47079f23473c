// SPDX-License-Identifier: Apache-2.0

package main

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/tenantry/tenantry/core/dns"
	"github.com/tenantry/tenantry/core/outcome"
	"github.com/tenantry/tenantry/core/secret"
	"github.com/tenantry/tenantry/plugins/sdk"
)

// saying is a server that begins, repeats a part and ends, whatever is asked.
func saying(t *testing.T, begin, part string, times int, end string) sdk.DNSProvider {
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
	p, err := newHouse().provider(sdk.Connection{
		Settings: map[string]string{"api_url": server.URL, "allow_private": "true"},
		Secrets:  map[string]secret.Text{"api_key": secret.New("k")},
	})
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// A server of thousands of zones can be connected, and one of endless ones
// fills no memory.
func TestManyZones(t *testing.T) {
	const first = `[{"id":"z.test.","name":"z.test."}`
	more := `,{"id":"a.test.","name":"a.test.","url":"` + strings.Repeat("x", 1000) + `"}`
	if n, err := saying(t, first, more, 4999, "]").Check(t.Context()); n != 5000 || err != nil {
		t.Errorf("%d zones, %v", n, err)
	}
	if _, err := saying(t, first, more, 40_000, "]").Check(t.Context()); !outcome.TooLarge(err) {
		t.Errorf("without an end: %v", err)
	}
	for _, nonsense := range []string{"", "{}", "<html>", `["a"]`, first} {
		if _, err := saying(t, nonsense, "", 0, "").Check(t.Context()); outcome.Of(err) != outcome.Broken {
			t.Errorf("%s: %v", nonsense, err)
		}
	}
}

func TestLargeZones(t *testing.T) {
	zone := dns.Zone{ID: "a.test.", Name: "a.test"}
	const first = `{"id":"a.test.","name":"a.test.","rrsets":[{"name":"a.test.","type":"TXT","ttl":60,"records":[{"content":"\"x\""}]}`
	more := `,{"name":"b.a.test.","type":"TXT","ttl":60,"records":[{"content":"\"` + strings.Repeat("x", 200) + `\""}]}`
	if sets, err := saying(t, first, more, 20_000, "]}").Records(t.Context(), zone); len(sets) != 20_001 || err != nil {
		t.Errorf("%d sets, %v", len(sets), err)
	}
	_, err := saying(t, first, more, 60_000, "]}").Records(t.Context(), zone)
	if !outcome.TooLarge(err) || !strings.Contains(err.Error(), "too large") {
		t.Errorf("a zone without an end: %v", err)
	}
}
