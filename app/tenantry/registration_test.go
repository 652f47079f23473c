// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// manifest is an application registration as Microsoft Graph takes it.
type manifest struct {
	DisplayName      string `json:"displayName"`
	SignInAudience   string `json:"signInAudience"`
	IsFallbackPublic bool   `json:"isFallbackPublicClient"`
	Web              struct {
		RedirectURIs  []string `json:"redirectUris"`
		ImplicitGrant struct {
			AccessToken bool `json:"enableAccessTokenIssuance"`
			IDToken     bool `json:"enableIdTokenIssuance"`
		} `json:"implicitGrantSettings"`
	} `json:"web"`
	Required []struct {
		Resource string `json:"resourceAppId"`
		Access   []struct {
			ID   string `json:"id"`
			Type string `json:"type"`
		} `json:"resourceAccess"`
	} `json:"requiredResourceAccess"`
}

const registrationPage = "../../deploy/microsoft365/"

func readManifest(t *testing.T, name string) (m manifest) {
	t.Helper()
	raw, err := os.ReadFile(registrationPage + name)
	if err != nil {
		t.Fatal(err)
	}
	strict := json.NewDecoder(bytes.NewReader(raw))
	strict.DisallowUnknownFields()
	if err := strict.Decode(&m); err != nil {
		t.Fatal(err)
	}
	if m.SignInAudience != "AzureADMultipleOrgs" || m.IsFallbackPublic || m.Web.ImplicitGrant.AccessToken || m.Web.ImplicitGrant.IDToken {
		t.Errorf("%s: audience %s, flows %+v", name, m.SignInAudience, m.Web.ImplicitGrant)
	}
	return m
}

// permission is a row of the page: what without fails first is a step of the
// main job.
type permission struct{ resource, name, id, kind, without string }

var permissionRow = regexp.MustCompile("(?m)^\\| (\\S+) \\| `([^`]+)` \\| `([0-9a-f-]{36})` \\| (Role|Scope) \\| [^|]+ \\| ([^|]+) \\|$")

func permissionRows(t *testing.T) map[string]permission {
	t.Helper()
	raw, err := os.ReadFile(registrationPage + "README.md")
	if err != nil {
		t.Fatal(err)
	}
	rows := map[string]permission{}
	for _, m := range permissionRow.FindAllStringSubmatch(string(raw), -1) {
		rows[m[3]] = permission{m[1], m[2], m[3], m[4], strings.TrimSpace(m[5])}
	}
	return rows
}

// explained are the permissions of a manifest, as the page names them.
func (m manifest) explained(t *testing.T) (roles, scopes []permission) {
	t.Helper()
	rows, resources := permissionRows(t), map[string]string{
		"Graph": "00000003-0000-0000-c000-000000000000", "Exchange": "00000002-0000-0ff1-ce00-000000000000",
	}
	for _, of := range m.Required {
		for _, access := range of.Access {
			row, ok := rows[access.ID]
			switch {
			case !ok || row.kind != access.Type || resources[row.resource] != of.Resource:
				t.Fatalf("the page does not say why %s %s is needed", access.Type, access.ID)
			case row.kind == "Role":
				roles = append(roles, row)
			default:
				scopes = append(scopes, row)
			}
		}
	}
	return roles, scopes
}

// TestRegistrationIsExact: with the manifest's permissions the main job goes
// to its end; without any one of them it stops where the page says.
func TestRegistrationIsExact(t *testing.T) {
	t.Parallel()
	m := readManifest(t, "manifest.json")
	roles, _ := m.explained(t)
	s := newRegistered(t, m)
	if at := s.consented(roles).walk(); at != "" {
		t.Fatalf("with all permissions it stops at %q", at)
	}
	// Some walks wait for a grant to spread, so all wait together.
	var walks sync.WaitGroup
	for i, role := range roles {
		h := s.consented(slices.Delete(slices.Clone(roles), i, i+1))
		walks.Go(func() {
			if at := h.walk(); at != role.without {
				t.Errorf("without %s it stops at %q, the page says %q", role.name, at, role.without)
			}
		})
	}
	walks.Wait()
}

// TestRegistrationWithoutTheHeavyPermission: the bootstrap waits until an
// administrator has assigned the role by hand. From then on all works.
func TestRegistrationWithoutTheHeavyPermission(t *testing.T) {
	t.Parallel()
	light, _ := readManifest(t, "manifest-without-role-assignment.json").explained(t)
	m := readManifest(t, "manifest.json")
	heavy, _ := m.explained(t)
	for _, p := range light {
		if p.name == "RoleManagement.ReadWrite.Directory" {
			t.Error("the heavy permission is in the light manifest")
		}
	}
	s := newRegistered(t, m)
	h := s.consented(light)
	h.proves()
	sees(t, h.post(h.path("/sync"), nil).object, object{"status": "partial"})
	if step := h.nextStep(); step != "grant_role" {
		t.Errorf("next step %v", step)
	}
	// Consents with and without the heavy permission leave the role behind,
	// as an administrator's own assignment does.
	for _, roles := range [][]permission{heavy, light} {
		s.register(roles)
		h.consents()
		h.proves()
		h.synced()
	}
	if at := h.works(); at != "" {
		t.Errorf("with the role assigned it stops at %q", at)
	}
}

// TestRegistrationNamesWhatIsCalled: redirect URIs are the service's routes,
// scopes those of the sign-in.
func TestRegistrationNamesWhatIsCalled(t *testing.T) {
	t.Parallel()
	c := common(t).newCaller(nil)
	link := c.get("/v1/tenants/connect-url").text("connect_url")
	h, v := c.newTenant(nil), newVisitor(t)
	callback := v.open(v.consents(link, h.admin, "accept"))
	at := func(address string) string {
		u, err := url.Parse(address)
		if err != nil {
			t.Fatal(err)
		}
		u, err = url.Parse(u.Query().Get("redirect_uri"))
		if err != nil {
			t.Fatal(err)
		}
		return "https://tenantry.example" + u.Path
	}
	called := []string{at(link), at(callback.location)}
	signIn, _ := url.Parse(callback.location)
	for _, name := range []string{"manifest.json", "manifest-without-role-assignment.json"} {
		m := readManifest(t, name)
		if !slices.Equal(m.Web.RedirectURIs, called) {
			t.Errorf("%s registers %v, the service calls %v", name, m.Web.RedirectURIs, called)
		}
		_, scopes := m.explained(t)
		var names []string
		for _, p := range scopes {
			names = append(names, p.name)
		}
		if strings.Join(names, " ") != signIn.Query().Get("scope") {
			t.Errorf("%s registers the scopes %v, the sign-in asks for %q", name, names, signIn.Query().Get("scope"))
		}
	}
	for _, address := range called {
		path := strings.TrimPrefix(address, "https://tenantry.example")
		if got := c.do("GET", c.ready.APIURL+path, "", nil); got.status == http.StatusNotFound {
			t.Errorf("%s is no page of the service", path)
		}
	}
}

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
	g.visitor.client.Transport = impatient{&http.Transport{ResponseHeaderTimeout: 10 * time.Second}}
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
