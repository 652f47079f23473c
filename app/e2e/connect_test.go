// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"net/http"
	"net/url"
	"strings"
	"testing"
)

// TestConnectByHand walks the pages as an administrator does, looks at what
// they say and at the heads that protect them.
func TestConnectByHand(t *testing.T) {
	t.Parallel()
	c := common(t).newCaller(nil)
	h, v := c.newTenant(object{"name": "By Hand Ltd"}), newVisitor(t)
	link := c.get("/v1/tenants/connect-url").text("connect_url")
	callback := v.open(v.consents(link, h.admin, "accept"))
	if callback.status != http.StatusSeeOther {
		t.Fatalf("the callback answers %d: %s", callback.status, callback.text)
	}
	guarded(t, callback)
	bound(t, callback)
	if to, err := url.Parse(callback.location); err != nil || to.Query().Get("code_challenge_method") != "S256" ||
		to.Query().Get("nonce") == "" || !strings.Contains(to.Path, h.guid) {
		t.Errorf("signs in at %s", callback.location)
	}
	offer := v.open(v.signsIn(callback.location, h.admin).location)
	guarded(t, offer)
	for _, words := range []string{"By Hand Ltd", h.guid, ".onmicrosoft.com", c.email, h.admin, "Connect", "Cancel"} {
		if !strings.Contains(offer.text, words) {
			t.Errorf("the page does not say %q: %s", words, offer.text)
		}
	}
	c.listsTenants() // not before somebody has confirmed it
	done := v.submit(offer, url.Values{"decision": {"connect"}})
	guarded(t, done)
	if done.status != http.StatusOK || !strings.Contains(done.heading, "connected") {
		t.Errorf("%d %s", done.status, done.text)
	}
	c.listsTenants(h.guid)
	if again := v.submit(offer, url.Values{"decision": {"connect"}}); again.status != http.StatusBadRequest {
		t.Errorf("a second confirmation answers %d", again.status)
	}
	h.synced()
}

// guarded checks the heads that every page of the flow carries.
func guarded(t *testing.T, p page) {
	t.Helper()
	for name, want := range map[string]string{
		"Content-Security-Policy": "frame-ancestors 'none'", "Referrer-Policy": "no-referrer", "Cache-Control": "no-store",
		"X-Content-Type-Options": "nosniff", "X-Frame-Options": "DENY",
	} {
		if got := p.header.Get(name); !strings.Contains(got, want) {
			t.Errorf("%s has %s: %q", p.url.Path, name, got)
		}
	}
	policy := p.header.Get("Content-Security-Policy")
	if !strings.HasPrefix(policy, "default-src 'none'") || strings.Contains(policy, "unsafe") || p.header.Get("X-Request-ID") == "" {
		t.Errorf("%s: policy %q, request id %q", p.url.Path, policy, p.header.Get("X-Request-ID"))
	}
}

// bound checks the cookie that ties the flow to this browser.
func bound(t *testing.T, p page) {
	t.Helper()
	cookies := (&http.Response{Header: p.header}).Cookies()
	if len(cookies) != 1 {
		t.Fatalf("%d cookies", len(cookies))
	}
	k := cookies[0]
	// On loopback there is no TLS, which both Secure and __Host- need.
	if k.Name != "tenantry-connect" || !k.HttpOnly || k.Secure || k.SameSite != http.SameSiteLaxMode || k.Path != "/" || k.Domain != "" ||
		k.MaxAge < 1 || k.MaxAge > 900 || len(k.Value) < 40 {
		t.Errorf("cookie %v", k)
	}
}

// TestReconnect: a consent given again by the holder renews it, and takes no
// slot.
func TestReconnect(t *testing.T) {
	t.Parallel()
	c := common(t).newCaller(object{"tenant_slots": 2})
	h := c.connected(nil)
	zone, before := h.verified(), h.get(h.path(""))
	h.post(h.path("/mailboxes"), boxes(zone, "ada"))
	other := c.newTenant(nil)
	domain, box := h.get(h.path("/domains")).objects("domains")[0], h.get(h.path("/mailboxes")).objects("mailboxes")[0]

	// The last slot goes away between the link and the confirmation.
	v := newVisitor(t)
	offer := v.offered(h)
	other.connect()
	if done := v.submit(offer, url.Values{"decision": {"connect"}}); done.status != http.StatusOK {
		t.Errorf("%d %s", done.status, done.text)
	}
	after := h.get(h.path(""))
	sees(t, after.object, object{"id": before.at("id"), "connected_by": h.admin, "domain_count": 1, "mailbox_count": 1, "exchange_bootstrap_status": "ready"})
	if after.text("consented_at") <= before.text("consented_at") {
		t.Errorf("consented_at %v, before %v", after.at("consented_at"), before.at("consented_at"))
	}
	sees(t, h.get(h.path("/domains")).objects("domains")[0], object{"id": domain["id"], "domain_name": zone})
	sees(t, h.get(h.path("/mailboxes")).objects("mailboxes")[0], object{"id": box["id"]})
	if list := c.get("/v1/tenants"); list.at("count") != 2.0 {
		t.Errorf("holds %s", list.raw)
	}
}

func TestHeldElsewhere(t *testing.T) {
	t.Parallel()
	c := common(t)
	holder, late := c.newCaller(nil), c.newCaller(nil)
	h := holder.newTenant(nil).connect()
	v := newVisitor(t)
	offer := v.offered(holding{late, h.guid, h.admin})
	done := v.submit(offer, url.Values{"decision": {"connect"}})
	guarded(t, done)
	if done.status != http.StatusConflict || strings.Contains(done.text, holder.email) || strings.Contains(done.text, holder.id) {
		t.Errorf("%d %s", done.status, done.text)
	}
	late.listsTenants()
	holder.listsTenants(h.guid)
	h.expect("DELETE", h.path(""), nil, 200, "")
	holding{late, h.guid, h.admin}.connect() // free again
}

// TestCeilingReachedMeanwhile: the last slot was taken while the page waited.
func TestCeilingReachedMeanwhile(t *testing.T) {
	t.Parallel()
	c := common(t).newCaller(object{"tenant_slots": 1})
	h, other, v := c.newTenant(nil), c.newTenant(nil), newVisitor(t)
	offer := v.offered(h)
	other.connect()
	done := v.submit(offer, url.Values{"decision": {"connect"}})
	guarded(t, done)
	if done.status != http.StatusPaymentRequired {
		t.Errorf("%d %s", done.status, done.text)
	}
	c.listsTenants(other.guid)
}

func TestPlanLapsedMeanwhile(t *testing.T) {
	t.Parallel()
	c := common(t).newCaller(nil)
	h, v := c.newTenant(nil), newVisitor(t)
	offer := v.offered(h)
	c.plan(object{"plan": "complete", "active": false})
	if done := v.submit(offer, url.Values{"decision": {"connect"}}); done.status != http.StatusPaymentRequired {
		t.Errorf("%d %s", done.status, done.text)
	}
	c.plan(object{"plan": "complete", "active": true})
	c.listsTenants()
}
