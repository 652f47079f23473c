// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"slices"
	"strconv"
	"testing"
)

// TestEventsAreKeptAsLongAsIsSaid: whole days are dropped, and totals and pages
// stay right; 0 days are for ever.
func TestEventsAreKeptAsLongAsIsSaid(t *testing.T) {
	t.Parallel()
	m := &mortal{client: client{t: t}, binary: binary(t, release), data: t.TempDir(), flags: []string{"--no-seed"}, given: []string{"TENANTRY_KEEP_EVENTS_DAYS=0"}}
	m.start()
	m.control("POST", "/clock", object{"now": "2031-03-10T08:00:00Z"})
	l := ownerAt(t, m.ready).limited(1, "ada")
	for _, day := range []string{"10", "12", "14"} {
		l.at("2031-03-" + day + "T10:00:00Z")
		l.run() // which lets go who was blocked before
		if day != "14" {
			l.sends(0, 2)
			l.run()
		}
	}
	const blocked, unblocked = "Mailbox blocked: sent 2, limit 1", "Mailbox unblocked: sent 0, limit 1"
	keeps := func(days, now string, want ...string) {
		t.Helper()
		l.at(now)
		m.given = []string{"TENANTRY_KEEP_EVENTS_DAYS=" + days}
		m.killed()
		l.client = m.client
		list := l.get("/v1/enforcement/events")
		m.eventually("events are forgotten", func() bool {
			list = l.get("/v1/enforcement/events")
			return list.at("total") == float64(len(want))
		})
		var got []string
		for offset := range want {
			page := l.get("/v1/enforcement/events?limit=1&offset=" + strconv.Itoa(offset)).object
			sees(t, page, object{"total": len(want), "count": 1, "offset": offset, "limit": 1})
			got = append(got, page.objects("events")[0].text("message"))
		}
		if !slices.Equal(got, want) {
			t.Errorf("kept for %s days at %s: %q, want %q", days, now, got, want)
		}
		sees(t, l.get("/v1/enforcement/events?action=blocked").object, object{"total": len(want) / 2})
	}
	keeps("0", "2041-03-15T12:00:00Z", unblocked, blocked, unblocked, blocked)
	keeps("3", "2031-03-13T23:58:00Z", unblocked, blocked, unblocked, blocked)
	keeps("3", "2031-03-14T00:00:00Z", unblocked, blocked, unblocked)
	keeps("1", "2031-03-14T12:00:00Z", unblocked)
}
