// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"bytes"
	"net/http"
	"testing"
)

// TestReplaysOverADay: the same bytes at once, after a restart, and after 23
// hours by the clock; at 25 hours the operation runs anew. A deletion is
// answered as the first time.
func TestReplaysOverADay(t *testing.T) {
	t.Parallel()
	m := newMortal(t, binary(t, release), nil)
	tenant := m.ready.Tenants[0].TenantID
	m.control("POST", "/tenants/"+tenant+"/behaviour", quick())
	m.control("POST", "/tenants/"+tenant+"/consent", object{"api_key": m.ready.APIKey})
	add := request{method: "POST", path: "/v1/tenants/" + tenant + "/domains", body: object{"domain": m.ready.Zones[0]}, once: "add"}
	remove := request{method: "DELETE", path: "/v1/tenants/" + tenant, once: "remove"}
	send := func(r request) reply {
		t.Helper()
		got, err := m.send(r)
		if err != nil {
			t.Fatal(err)
		}
		return got
	}
	added := send(add)
	m.expect("added", added.status, http.StatusOK)
	removed := send(remove)
	m.expect("removed", removed.status, http.StatusOK)
	again := func(when string) {
		t.Helper()
		for r, first := range map[*request]reply{&add: added, &remove: removed} {
			got := send(*r)
			if got.status != first.status || !bytes.Equal(got.raw, first.raw) || got.header.Get("Idempotency-Replayed") != "true" {
				t.Errorf("%s: %s is answered %d %s, not %s", when, r.once, got.status, got.raw, first.raw)
			}
		}
	}
	again("at once")
	m.killed()
	again("after SIGKILL")
	m.control("POST", "/clock", object{"advance": "23h"})
	again("after 23 hours")
	m.control("POST", "/clock", object{"advance": "2h"})
	for _, r := range []request{add, remove} {
		got := send(r)
		m.expect(r.once+" after 25 hours", []any{got.status, got.code()}, []any{404, "tenant_not_found"})
	}
}
