// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"maps"
	"strconv"
	"testing"
)

// trouble plans a fault until the test ends; more is merged into it.
func (c caller) trouble(kind string, more object) {
	c.t.Helper()
	fault := object{"provider": "microsoft365", "kind": kind, "times": 1}
	maps.Copy(fault, more)
	c.control("POST", "/faults", fault)
	c.t.Cleanup(func() { c.control("DELETE", "/faults", nil) })
}

// TestProviderTrouble: how the platform fails decides what the caller is told,
// and afterwards the same request works. Each case has a tenant of its own, as
// a circuit opens for one tenant at a time.
func TestProviderTrouble(t *testing.T) {
	t.Parallel()
	c := alone(t)
	const everything = 1000
	for _, tt := range []struct {
		name, kind string
		more       object
		status     int
		code       string
	}{
		{"throttled", "status", object{"status": 429, "retry_after": 7, "times": everything}, 503, "provider_unavailable"},
		{"down", "status", object{"status": 503, "times": everything}, 503, "provider_unavailable"},
		{"a fault of its own", "status", object{"status": 500, "times": everything}, 502, "provider_error"},
		{"a bad gateway", "status", object{"status": 502, "times": everything}, 502, "provider_error"},
		{"cut off before the work", "drop_before", object{"times": everything}, 503, "provider_unavailable"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			h := c.with(t).newTenant(nil).connect()
			tt.more["match"] = "GET /graph/v1.0/domains"
			h.trouble(tt.kind, tt.more)
			zone := h.newZone()
			got := h.expect("POST", h.path("/domains"), object{"domain": zone}, tt.status, tt.code)
			if wait, err := strconv.Atoi(got.header.Get("Retry-After")); (tt.status == 503) != (err == nil && wait >= 1) {
				t.Errorf("Retry-After: %q", got.header.Get("Retry-After"))
			}
			if tt.name == "throttled" && got.header.Get("Retry-After") != "7" {
				t.Errorf("Retry-After: %q, not the platform's 7", got.header.Get("Retry-After"))
			}
			h.control("DELETE", "/faults", nil)
			h.eventually("the domain is added", func() bool {
				return h.call("POST", h.path("/domains"), object{"domain": zone}).status == 200
			})
			if there := h.control("GET", "/tenants/"+h.guid, nil).objects("domains"); len(there) != 1 {
				t.Errorf("the platform holds %v", there)
			}
		})
	}
}

// TestLostAnswers: a write whose answer is lost is looked for, so the caller
// gets a success, and nothing exists twice.
func TestLostAnswers(t *testing.T) {
	t.Parallel()
	c := alone(t)
	h := c.connected(nil)
	zone := h.newZone()
	for _, kind := range []string{"drop_after", "drop_before"} {
		t.Run(kind, func(t *testing.T) {
			h := h.with(t)
			h.trouble(kind, object{"match": "POST /graph/v1.0/domains", "writes_only": true})
			name := h.newZone()
			h.eventually("the domain is added", func() bool {
				got := h.call("POST", h.path("/domains"), object{"domain": name})
				if got.status != 200 && got.code() != "provider_timeout" {
					t.Errorf("%d %s", got.status, got.raw)
				}
				return got.status == 200
			})
		})
	}
	h.post(h.path("/domains"), object{"domain": zone})
	h.publish(zone)
	h.post(h.domain(zone, "/verify"), nil)
	t.Run("New-Mailbox", func(t *testing.T) {
		h := h.with(t)
		h.trouble("drop_after", object{"operation": "New-Mailbox"})
		made := reply{}
		h.eventually("the mailbox is made", func() bool {
			made = h.call("POST", h.path("/mailboxes"), boxes(zone, "ada"))
			return made.status == 200
		})
		sees(t, made.object, object{"created_count": 1, "exists_count": 0})
		h.holdsAtPlatform(zone, "ada")
	})
	if there := h.control("GET", "/tenants/"+h.guid, nil).objects("domains"); len(there) != 3 {
		t.Errorf("the platform holds %v", there)
	}
}

// TestSlowPlatform checks that a request is answered 504 while the mail platform
// still delays its answer, which takes longer than the test may.
func TestSlowPlatform(t *testing.T) {
	t.Parallel()
	h := alone(t).newTenant(nil).connect()
	h.trouble("delay", object{"match": "GET /graph/v1.0/domains", "delay_ms": 2 * hang.Milliseconds(), "times": 3})
	zone := h.newZone()
	h.expect("POST", h.path("/domains"), object{"domain": zone}, 504, "provider_timeout")
}

// TestSyncInTrouble: a part of the platform that is away makes a sync partial;
// the whole of it makes the sync fail as any other operation.
func TestSyncInTrouble(t *testing.T) {
	t.Parallel()
	c := alone(t)
	t.Run("the mail server", func(t *testing.T) {
		h := c.with(t).connected(nil)
		h.trouble("status", object{"match": "POST /exchange", "status": 503, "times": 1000})
		got := h.post(h.path("/sync"), nil)
		sees(t, got.object, object{"status": "partial", "result.status": "completed"})
		if got.text("result.mailbox_error") == "" {
			t.Errorf("no mailbox_error: %s", got.raw)
		}
	})
	t.Run("all of it", func(t *testing.T) {
		h := c.with(t).connected(nil)
		h.trouble("status", object{"status": 503, "times": 1000})
		h.expect("POST", h.path("/sync"), nil, 503, "provider_unavailable")
		h.control("DELETE", "/faults", nil)
		h.eventually("the platform is back", func() bool { return h.call("POST", h.path("/sync"), nil).text("status") == "completed" })
	})
}

// TestPluginKilled: the process comes back and the next calls work.
func TestPluginKilled(t *testing.T) {
	t.Parallel()
	h := alone(t).connected(nil)
	h.control("POST", "/plugins/microsoft365/kill", nil)
	h.eventually("a sync works again", func() bool {
		got := h.call("POST", h.path("/sync"), nil)
		if got.status != 200 && got.status != 503 && got.status != 504 {
			t.Errorf("%d %s", got.status, got.raw)
		}
		return got.status == 200
	})
}
