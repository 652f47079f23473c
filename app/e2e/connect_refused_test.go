// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"net/http"
	"net/url"
	"strings"
	"testing"
)

// TestConnectRefused: each way in which a walk goes wrong has its status, says
// so on a page, and attaches nothing.
func TestConnectRefused(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name   string
		walk   func(v *visitor, h holding, link string) page
		status int
	}{
		{"declined at the consent", func(v *visitor, h holding, link string) page {
			return v.open(v.consents(link, h.admin, "deny"))
		}, http.StatusForbidden},
		{"declined at the sign-in", func(v *visitor, h holding, link string) page {
			callback := v.open(v.consents(link, h.admin, "accept"))
			state := query(v.t, callback.location, "state")
			return v.open(h.ready.APIURL + "/connect/microsoft365/signin?error=access_denied&state=" + url.QueryEscape(state))
		}, http.StatusForbidden},
		{"a guest", func(v *visitor, h holding, link string) page {
			callback := v.open(v.consents(link, h.admin, "accept"))
			return v.open(v.signsIn(callback.location, strings.Replace(h.admin, "admin@", "guest@", 1)).location)
		}, http.StatusForbidden},
		{"an ordinary member", func(v *visitor, h holding, link string) page {
			callback := v.open(v.consents(link, h.admin, "accept"))
			return v.open(v.signsIn(callback.location, strings.Replace(h.admin, "admin@", "user@", 1)).location)
		}, http.StatusForbidden},
		{"a forged state", func(v *visitor, h holding, link string) page {
			return v.open(altered(v.t, v.consents(link, h.admin, "accept"), "state", "forged"))
		}, http.StatusBadRequest},
		{"no state", func(v *visitor, h holding, _ string) page {
			return v.open(h.ready.APIURL + "/connect/microsoft365/callback?admin_consent=True&tenant=" + h.guid)
		}, http.StatusBadRequest},
		{"two states", func(v *visitor, h holding, link string) page {
			return v.open(v.consents(link, h.admin, "accept") + "&state=x")
		}, http.StatusBadRequest},
		{"a reused state", func(v *visitor, h holding, link string) page {
			callback := v.consents(link, h.admin, "accept")
			v.open(callback)
			return v.open(callback)
		}, http.StatusBadRequest},
		{"no tenant", func(v *visitor, h holding, link string) page {
			return v.open(altered(v.t, v.consents(link, h.admin, "accept"), "tenant", "x"))
		}, http.StatusBadRequest},
		{"a reused sign-in", func(v *visitor, h holding, link string) page {
			callback := v.open(v.consents(link, h.admin, "accept"))
			answer := v.signsIn(callback.location, h.admin).location
			v.open(answer)
			return v.open(answer)
		}, http.StatusBadRequest},
		{"a forged code", func(v *visitor, h holding, link string) page {
			callback := v.open(v.consents(link, h.admin, "accept"))
			return v.open(altered(v.t, v.signsIn(callback.location, h.admin).location, "code", "forged"))
		}, http.StatusBadRequest},
		{"a bad CSRF token", func(v *visitor, h holding, _ string) page {
			return v.submit(v.offered(h), url.Values{"decision": {"connect"}, "csrf": {"forged"}})
		}, http.StatusBadRequest},
		{"no CSRF token", func(v *visitor, h holding, _ string) page {
			return v.submit(v.offered(h), url.Values{"decision": {"connect"}, "csrf": nil})
		}, http.StatusBadRequest},
		{"no decision", func(v *visitor, h holding, _ string) page { return v.submit(v.offered(h), nil) }, http.StatusBadRequest},
		{"cancelled", func(v *visitor, h holding, _ string) page {
			return v.submit(v.offered(h), url.Values{"decision": {"cancel"}})
		}, http.StatusOK},
		{"connected after it was cancelled", func(v *visitor, h holding, _ string) page {
			offer := v.offered(h)
			v.submit(offer, url.Values{"decision": {"cancel"}})
			return v.submit(offer, url.Values{"decision": {"connect"}})
		}, http.StatusBadRequest},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			c := common(t).newCaller(nil)
			h := c.newTenant(nil)
			p := tt.walk(newVisitor(t), h, c.get("/v1/tenants/connect-url").text("connect_url"))
			if p.status != tt.status || p.heading == "" {
				t.Errorf("%d, want %d: %s", p.status, tt.status, p.text)
			}
			guarded(t, p)
			c.listsTenants()
		})
	}
}

// TestForgedTenant is the confused deputy: the tenant of another customer,
// who consented, named in the callback of one's own link.
func TestForgedTenant(t *testing.T) {
	t.Parallel()
	victim := common(t).newCaller(nil).connected(nil)
	c := common(t).newCaller(nil)
	own := c.newTenant(nil)
	forged := func(v *visitor) string {
		link := c.get("/v1/tenants/connect-url").text("connect_url")
		callback := v.open(altered(t, v.consents(link, own.admin, "accept"), "tenant", victim.guid))
		if callback.status != http.StatusSeeOther || !strings.Contains(callback.location, victim.guid) {
			t.Fatalf("not sent to the victim's sign-in: %d %s", callback.status, callback.location)
		}
		return callback.location
	}
	t.Run("its people do not know us", func(t *testing.T) {
		v := newVisitor(t)
		if p := v.signsIn(forged(v), own.admin); p.location != "" {
			t.Errorf("the platform sends on to %s", p.location)
		}
	})
	t.Run("signed in at one's own tenant instead", func(t *testing.T) {
		v := newVisitor(t)
		answer := v.signsIn(strings.ReplaceAll(forged(v), victim.guid, own.guid), own.admin).location
		if p := v.open(answer); p.status != http.StatusBadRequest {
			t.Errorf("%d %s", p.status, p.text)
		}
	})
	t.Run("an ordinary member of the victim helps", func(t *testing.T) {
		v := newVisitor(t)
		answer := v.signsIn(forged(v), strings.Replace(victim.admin, "admin@", "user@", 1)).location
		if p := v.open(answer); p.status != http.StatusForbidden {
			t.Errorf("%d %s", p.status, p.text)
		}
	})
	c.listsTenants()
	victim.listsTenants(victim.guid)
}

// TestForeignState: a link belongs to the account that asked for it, and to
// the installation that made it.
func TestForeignState(t *testing.T) {
	t.Parallel()
	here, elsewhere := common(t).newCaller(nil), alone(t)
	h := here.newTenant(nil)
	v := newVisitor(t)
	mine := v.consents(here.get("/v1/tenants/connect-url").text("connect_url"), h.admin, "accept")
	theirs := query(t, elsewhere.get("/v1/tenants/connect-url").text("connect_url"), "state")
	if p := v.open(altered(t, mine, "state", theirs)); p.status != http.StatusBadRequest {
		t.Errorf("%d %s", p.status, p.text)
	}

	// With another account's state one connects for that account, and the
	// page says so.
	other := common(t).newCaller(nil)
	state := query(t, other.get("/v1/tenants/connect-url").text("connect_url"), "state")
	callback := v.open(altered(t, mine, "state", state))
	offer := v.open(v.signsIn(callback.location, h.admin).location)
	if !strings.Contains(offer.text, other.email) || strings.Contains(offer.text, here.email) {
		t.Errorf("the page says %s", offer.text)
	}
	here.listsTenants()
	other.listsTenants()
}

// TestOtherBrowser: who sees the addresses of somebody's walk gets nowhere,
// and does not end it.
func TestOtherBrowser(t *testing.T) {
	t.Parallel()
	c := common(t).newCaller(nil)
	h, v, other := c.newTenant(nil), newVisitor(t), newVisitor(t)
	callback := v.open(v.consents(c.get("/v1/tenants/connect-url").text("connect_url"), h.admin, "accept"))
	answer := v.signsIn(callback.location, h.admin).location
	if p := other.open(answer); p.status != http.StatusBadRequest {
		t.Errorf("the sign-in in another browser: %d %s", p.status, p.text)
	}
	offer := v.open(answer)
	if p := other.submit(offer, url.Values{"decision": {"connect"}}); p.status != http.StatusBadRequest {
		t.Errorf("the confirmation in another browser: %d %s", p.status, p.text)
	}
	c.listsTenants()
	if p := v.submit(offer, url.Values{"decision": {"connect"}}); p.status != http.StatusOK {
		t.Errorf("the right browser: %d %s", p.status, p.text)
	}
	c.listsTenants(h.guid)
}

// TestExpiredState: after 15 minutes each step of the walk is over.
func TestExpiredState(t *testing.T) {
	t.Parallel()
	c := alone(t)
	for _, step := range []string{"callback", "signin", "confirm"} {
		t.Run(step, func(t *testing.T) {
			c := c.with(t)
			h, v := c.newTenant(nil), newVisitor(t)
			later := func() { c.control("POST", "/clock", object{"advance": "15m1s"}) }
			callback := v.consents(c.get("/v1/tenants/connect-url").text("connect_url"), h.admin, "accept")
			var p page
			switch step {
			case "callback":
				later()
				p = v.open(callback)
			case "signin":
				signIn := v.open(callback).location
				later()
				p = v.open(v.signsIn(signIn, h.admin).location)
			case "confirm":
				offer := v.open(v.signsIn(v.open(callback).location, h.admin).location)
				later()
				p = v.submit(offer, url.Values{"decision": {"connect"}})
			}
			if p.status != http.StatusBadRequest {
				t.Errorf("%d %s", p.status, p.text)
			}
			c.listsTenants()
		})
	}
}

// TestConnectMethods: the pages are reached as they are meant to be.
func TestConnectMethods(t *testing.T) {
	t.Parallel()
	c := common(t)
	for path, allow := range map[string]string{"callback": "GET", "signin": "GET", "confirm": "POST"} {
		method := map[string]string{"GET": "POST", "POST": "GET"}[allow]
		r, err := http.NewRequestWithContext(t.Context(), method, c.ready.APIURL+"/connect/microsoft365/"+path, http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		if p := newVisitor(t).send(r); p.status != http.StatusMethodNotAllowed || p.header.Get("Allow") != allow {
			t.Errorf("%s %s: %d, Allow %q", method, path, p.status, p.header.Get("Allow"))
		}
	}
	p := newVisitor(t).open(c.ready.APIURL + "/connect/microsoft365/nothing")
	guarded(t, p)
	if p.status != http.StatusNotFound {
		t.Errorf("%d", p.status)
	}
}

func query(t *testing.T, address, name string) string {
	t.Helper()
	u, err := url.Parse(address)
	if err != nil || u.Query().Get(name) == "" {
		t.Fatalf("%q has no %s: %v", address, name, err)
	}
	return u.Query().Get(name)
}
