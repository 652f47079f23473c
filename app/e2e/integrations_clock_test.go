// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"testing"
)

// TestSessionsEnd: a link that nobody used expires, one that somebody used just
// in time does not, whether anybody asks or not, and the way is free again.
func TestSessionsEnd(t *testing.T) {
	t.Parallel()
	c := startSending(t)
	var unused, used, forgotten []session
	for _, name := range sendingNames {
		i := c.connectable("ada", "max", "lise").integrates(name)
		if i.can["microsoft_oauth"] != true {
			continue
		}
		unused, used, forgotten = append(unused, i.begins(0)), append(used, i.begins(1)), append(forgotten, i.begins(2))
		i.expect("GET", i.mailbox(0, "/oauth/microsoft/status?session_id="+used[len(used)-1].id), nil, 404, "oauth_session_not_found")
	}
	if len(unused) < 3 {
		t.Fatalf("%d platforms with OAuth", len(unused))
	}
	for _, s := range used {
		s.signsIn(s.address(1), "accept") // and nobody asks how it went
	}
	unused[0].signsIn("stranger@elsewhere.test", "deny")
	c.control("POST", "/clock", object{"advance": "12m"})
	for n, s := range unused {
		want := "expired"
		if n == 0 {
			want = "failed" // its platform tells that it was declined
		}
		s.becomes(want)
		s.becomes(want)
		s.stands(0, "failed")
		used[n].becomes("connected")
		used[n].stands(1, "connected")
		f := forgotten[n]
		f.eventually("the sweep ends the session", func() bool {
			return f.get(f.path("")).at("mailbox_connections.pending") == 0.0
		})
		f.stands(2, "failed")
		sees(t, f.get(f.statusPath()).object, object{"status": "expired"})
	}
	for _, s := range forgotten {
		s.signs(2)
	}
}

// TestRefreshesHappen: what changes at a platform is found without anybody who
// asks, and counted. Refreshes that are due begin with the service.
func TestRefreshesHappen(t *testing.T) {
	t.Parallel()
	m := newMortal(t, binary(t, release), nil)
	i := ownerAt(t, m.ready).connectable("ada", "max").integrates("instantly")
	i.signs(0)
	i.signs(1)
	i.byHand("DELETE", 0, nil)
	i.byHand("PUT", 1, object{"status": -1, "autofix_failed": true})
	m.killed()
	i.client = m.client
	i.eventually("a refresh by itself", func() bool {
		return i.get(i.path("")).at("mailbox_connections.connected") == 0.0
	})
	i.stands(0, "disconnected")
	sees(t, i.stands(1, "failed"), object{"has_error": true})
	sees(t, i.get(i.path("")).object, object{"mailbox_connections.has_errors": true, "has_error": false})
	drifts := scrape(i.do("GET", i.ready.AdminURL+"/metrics", "", nil).raw)["tenantry_sending_drift_total"]
	if len(drifts["kind"]) != 2 {
		t.Errorf("drifts %v", drifts)
	}
}
