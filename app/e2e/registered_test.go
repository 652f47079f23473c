// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"
)

// registered is a server whose simulated registration follows a manifest.
type registered struct {
	caller
	rig *rig
}

func newRegistered(t *testing.T, m manifest) registered {
	t.Helper()
	r := newRig(t, binary(t, release))
	env := r.env(t.TempDir(), "")
	id, key := r.account(env, "ann@example.com", "complete", 50)
	_, server := r.serve(env)
	var redirects []string
	for _, uri := range m.Web.RedirectURIs {
		redirects = append(redirects, strings.Replace(uri, "https://tenantry.example", "http://127.0.0.1", 1))
	}
	server.control("POST", "/app", object{"redirect_uris": redirects})
	return registered{caller{server, id, "ann@example.com", key}, r}
}

func (s registered) register(roles []permission) {
	s.t.Helper()
	names := []string{}
	for _, role := range roles {
		names = append(names, role.name)
	}
	s.control("POST", "/app", object{"permissions": names})
}

// consented is a new tenant whose administrator has approved these
// permissions, and gone no further.
func (s registered) consented(roles []permission) *granted {
	s.t.Helper()
	s.register(roles)
	guid, admin := s.rig.tenant(s.client)
	g := &granted{holding: holding{s.caller, guid, admin}, rig: s.rig}
	g.consents()
	return g
}

// granted is a tenant on its way through the main job.
type granted struct {
	holding
	rig      *rig
	visitor  *visitor
	callback string
}

func (g *granted) consents() {
	g.t.Helper()
	g.visitor = newVisitor(g.t)
	g.visitor.client.Transport = impatient{&http.Transport{ResponseHeaderTimeout: hang}}
	g.callback = g.visitor.consents(g.get("/v1/tenants/connect-url").text("connect_url"), g.admin, "accept")
}

// impatient is a browser whose user gives up: the page that waits for a
// consent to spread does so for most of a minute.
type impatient struct{ *http.Transport }

func (i impatient) RoundTrip(r *http.Request) (*http.Response, error) {
	answer, err := i.Transport.RoundTrip(r)
	if err != nil {
		answer = &http.Response{StatusCode: http.StatusGatewayTimeout, Body: http.NoBody, Request: r}
	}
	return answer, nil
}

// proves has the administrator sign in and confirm, and reports whether the
// tenant was connected.
func (g *granted) proves() bool {
	g.t.Helper()
	signIn := g.visitor.open(g.callback).location
	offer := g.visitor.open(g.visitor.signsIn(signIn, g.admin).location)
	return offer.action != "" && g.visitor.submit(offer, url.Values{"decision": {"connect"}}).status == http.StatusOK
}

// walk does the main job, and returns the step that failed, "" for none.
func (g *granted) walk() string {
	g.t.Helper()
	if !g.proves() {
		return "connect"
	}
	return g.works()
}

func (g *granted) works() string {
	g.t.Helper()
	zone := fmt.Sprintf("registered-%d.test", serial.Add(1))
	if err := g.rig.zones.Add(zone, "manual"); err != nil {
		g.t.Error(err)
	}
	for _, step := range []struct {
		name, path string
		body       any
		good       func(reply) bool
	}{
		{"sync", g.path("/sync"), nil, func(r reply) bool { return r.text("status") == "completed" }},
		{"add domain", g.path("/domains"), object{"domain": zone}, nil},
		{"verify", g.domain(zone, "/verify"), nil, nil},
		{"enable DKIM", g.domain(zone, "/enable-dkim"), nil, nil},
		{"provision", g.path("/mailboxes"), boxes(zone, "ada"), func(r reply) bool { return r.text("created_count") == "1" }},
	} {
		if step.name == "verify" || step.name == "enable DKIM" {
			g.publish(zone)
		}
		if got := g.call("POST", step.path, step.body); got.status != http.StatusOK || step.good != nil && !step.good(got) {
			return step.name
		}
	}
	return ""
}
