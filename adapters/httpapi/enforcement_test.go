// SPDX-License-Identifier: Apache-2.0

package httpapi_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/tenantry/tenantry/core/ident"
	"github.com/tenantry/tenantry/core/sendlimit"
)

const enforced = "/v1/enforcement/events"

// happened records n events of the owner's tenant, a minute apart, and returns
// their ids, newest first.
func (w *world) happened(t *testing.T, o owner, n int) (ids []string) {
	t.Helper()
	var events []sendlimit.Event
	for i := range n {
		at := time.Date(2026, 3, 1, 12, i, 0, 0, time.UTC)
		e := sendlimit.Event{ID: ident.New(at, [ident.Entropy]byte{9: byte(i)}), Tenant: o.tenant, Address: fmt.Sprintf("box%d@a.example", i),
			Action: sendlimit.Blocked, Sent: 26, Limit: 25, At: at}
		if i%3 == 2 {
			e.Action, e.Sent = sendlimit.Unblocked, 0
		}
		events = append(events, e)
		ids = append([]string{e.ID}, ids...)
	}
	if err := w.store.RecordEvents(t.Context(), o.account.ID, events); err != nil {
		t.Fatal(err)
	}
	return ids
}

func idsOf(r reply) (ids []string) {
	for _, e := range r.body["events"].([]any) {
		ids = append(ids, e.(map[string]any)["id"].(string))
	}
	return ids
}

// TestEnforcementEvents: pages and filters of an account's own events.
func TestEnforcementEvents(t *testing.T) {
	w := newWorld(t)
	a := serve(t, w.handler(t))
	ids := w.happened(t, w.a, 7)
	w.happened(t, w.b, 3)
	for _, tt := range []struct {
		query string
		total int
		want  []string
	}{
		{"", 7, ids},
		{"?limit=2", 7, ids[:2]},
		{"?limit=3&offset=5", 7, ids[5:]},
		{"?offset=7", 7, nil},
		{"?offset=9007199254740991", 7, nil},
		{"?action=unblocked", 2, []string{ids[1], ids[4]}},
		{"?tenant_id=" + strings.ToUpper(string(w.a.tenant)) + "&action=blocked&limit=1&offset=1", 5, []string{ids[2]}},
	} {
		got := a.expect(call{method: "GET", path: enforced + tt.query, key: w.a.key}, 200, "")
		if fmt.Sprint(idsOf(got)) != fmt.Sprint(tt.want) || got.body["total"] != float64(tt.total) || got.body["count"] != float64(len(tt.want)) {
			t.Errorf("%q: %s", tt.query, got.raw)
		}
		if got.header.Get("X-RateLimit-Bucket") != "read" {
			t.Error(got.header)
		}
	}
	all := a.expect(call{method: "GET", path: enforced, key: w.a.key}, 200, "")
	newest := all.body["events"].([]any)[0].(map[string]any)
	for name, want := range map[string]any{"tenant_id": string(w.a.tenant), "mailbox_address": "box6@a.example", "action_taken": "blocked",
		"sent_count": 26.0, "limit_value": 25.0, "message": "Mailbox blocked: sent 26, limit 25", "created_at": "2026-03-01T12:06:00Z"} {
		if newest[name] != want {
			t.Errorf("%s is %v, want %v", name, newest[name], want)
		}
	}
	for name, want := range map[string]any{"limit": 50.0, "offset": 0.0, "filters.tenant_id": nil, "filters.action": nil} {
		if got := deep(all.body, name); got != want {
			t.Errorf("%s is %v, want %v", name, got, want)
		}
	}
	filtered := a.expect(call{method: "GET", path: enforced + "?action=blocked&tenant_id=" + string(w.a.tenant), key: w.a.key}, 200, "")
	if deep(filtered.body, "filters.action") != "blocked" || deep(filtered.body, "filters.tenant_id") != string(w.a.tenant) {
		t.Error(filtered.raw)
	}
}

func TestEnforcementEventsThatMakeNoSense(t *testing.T) {
	w := newWorld(t)
	a := serve(t, w.handler(t))
	for _, query := range []string{"limit=0", "limit=201", "limit=5.0", "limit=+5", "limit=x", "offset=-1", "offset=1e3", "offset=9007199254740992",
		"offset=99999999999999999999", "action=Blocked", "action=paused", "limit=1&limit=2"} {
		got := a.expect(call{method: "GET", path: enforced + "?" + query, key: w.a.key}, 400, "invalid_request")
		if strings.HasPrefix(query, "offset") && !strings.Contains(got.raw, "no integer from 0 to 9007199254740991") {
			t.Errorf("%s: it says %s", query, got.raw)
		}
	}
	var answers []string
	for _, id := range []string{string(w.b.tenant), nobodysID, "x", "0"} {
		got := a.expect(call{method: "GET", path: enforced + "?tenant_id=" + id, key: w.a.key}, 404, "tenant_not_found")
		answers = append(answers, without(got))
	}
	for _, one := range answers {
		if one != answers[0] {
			t.Errorf("told apart:\n%s\n%s", one, answers[0])
		}
	}
}
