// SPDX-License-Identifier: Apache-2.0

package main

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/tenantry/tenantry/plugins/sdk/simulate"
)

// holds checks, without the plugin, that the zone has the records of a domain, once.
func (r *rough) holds(t *testing.T, zone string) {
	t.Helper()
	want := map[string]bool{}
	for _, s := range freshDomain(zone) {
		for _, value := range s.Values {
			want[s.Name+" "+string(s.Type)+" "+value] = true
		}
	}
	for _, s := range r.Held(t, zone) {
		for _, value := range s.Values {
			record := s.Name + " " + string(s.Type) + " " + value
			if !want[record] {
				t.Errorf("%s is there twice, or ought not to be there", record)
			}
			delete(want, record)
		}
	}
	for record := range want {
		t.Errorf("%s is missing", record)
	}
}

// checkLimits checks that the calls of the journal came near the limit and never
// exceeded it, and that only the planned answers of 429 were given.
func (r *rough) checkLimits(t *testing.T, calls []simulate.Entry, throttled int) {
	t.Helper()
	refused, failed := 0, 0
	for i, c := range calls {
		if i >= r.limit && c.At.Sub(calls[i-r.limit].At) < window {
			t.Fatalf("call %d exceeds the limit of %d in five minutes", i, r.limit)
		}
		switch c.Status {
		case http.StatusTooManyRequests:
			refused++
		case http.StatusInternalServerError:
			failed++
		}
	}
	if refused != throttled || failed < r.limit/20 {
		t.Errorf("%d answers of 429, not the %d that were planned; %d of 500", refused, throttled, failed)
	}
	if len(calls) < r.limit {
		t.Errorf("%d calls never came near the limit", len(calls))
	}
}

// checkPauses: after each answer of 429 no call comes until the pause is over.
func checkPauses(t *testing.T, calls []simulate.Entry, pause time.Duration, want int) {
	t.Helper()
	asked := 0
	for i, c := range calls {
		if c.Status != http.StatusTooManyRequests {
			continue
		}
		asked++
		if i+1 < len(calls) && calls[i+1].At.Before(c.At.Add(pause)) {
			t.Errorf("the next call came after %s", calls[i+1].At.Sub(c.At))
		}
	}
	if asked != want {
		t.Errorf("Cloudflare asked for %d pauses, not %d", asked, want)
	}
}

// ids are the zones' ids, by which the journal knows them.
func (r *rough) ids(t *testing.T, zones []string) map[string]string {
	t.Helper()
	ids := map[string]string{}
	for _, name := range zones {
		_, err := r.settled(func() error {
			zone, err := r.Provider().Zone(t.Context(), name)
			ids[name] = zone.ID
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	return ids
}

// checkEach counts the calls of each domain. The one that finds the zone is not
// among those that name it.
func checkEach(t *testing.T, calls []simulate.Entry, ids map[string]string, smooth map[string]bool) {
	t.Helper()
	n := map[string]int{}
	for _, c := range calls {
		if rest, ok := strings.CutPrefix(c.Path, "/client/v4/zones/"); ok {
			id, _, _ := strings.Cut(rest, "/")
			n[id]++
		}
	}
	undisturbed := 0
	for name, ok := range smooth {
		if ok {
			undisturbed++
			if got := 1 + n[ids[name]]; got > 5 {
				t.Errorf("%s, a fresh domain, cost %d calls", name, got)
			}
		}
	}
	if undisturbed < len(smooth)/6 {
		t.Errorf("only %d domains met no fault", undisturbed)
	}
}
