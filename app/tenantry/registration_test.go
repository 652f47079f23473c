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
	"testing"
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
	if at := s.walk(roles); at != "" {
		t.Fatalf("with all permissions it stops at %q", at)
	}
	for i, role := range roles {
		if at := s.walk(slices.Delete(slices.Clone(roles), i, i+1)); at != role.without {
			t.Errorf("without %s it stops at %q, the page says %q", role.name, at, role.without)
		}
	}
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
	s.register(light)
	h := s.connected()
	sees(t, h.post(h.path("/sync"), nil).object, object{"status": "partial"})
	if step := h.nextStep(); step != "grant_role" {
		t.Errorf("next step %v", step)
	}
	// Consents with and without the heavy permission leave the role behind,
	// as an administrator's own assignment does.
	s.register(heavy)
	h.walkIn()
	h.synced()
	s.register(light)
	h.walkIn()
	if at := s.finish(h); at != "" {
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
	rig    *rig
	serial int
}

func newRegistered(t *testing.T, m manifest) *registered {
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
	return &registered{caller{server, id, "ann@example.com", key}, r, 0}
}

func (s *registered) register(roles []permission) {
	s.t.Helper()
	names := []string{}
	for _, role := range roles {
		names = append(names, role.name)
	}
	s.control("POST", "/app", object{"permissions": names})
}

func (s *registered) connected() holding {
	s.t.Helper()
	guid, admin := s.rig.tenant(s.client)
	h := holding{s.caller, guid, admin}
	h.walkIn()
	return h
}

// walkIn has the administrator connect the tenant in a browser, and reports
// whether it was.
func (h holding) walkIn() bool {
	h.t.Helper()
	v := newVisitor(h.t)
	callback := v.open(v.consents(h.get("/v1/tenants/connect-url").text("connect_url"), h.admin, "accept"))
	offer := v.open(v.signsIn(callback.location, h.admin).location)
	return offer.action != "" && v.submit(offer, url.Values{"decision": {"connect"}}).status == http.StatusOK
}

// walk does the main job on a new tenant with these permissions, and returns
// the step that failed, "" for none.
func (s *registered) walk(roles []permission) string {
	s.t.Helper()
	s.register(roles)
	guid, admin := s.rig.tenant(s.client)
	h := holding{s.caller, guid, admin}
	if !h.walkIn() {
		return "connect"
	}
	return s.finish(h)
}

func (s *registered) finish(h holding) string {
	s.t.Helper()
	s.serial++
	zone := fmt.Sprintf("registered-%d.test", s.serial)
	if err := s.rig.zones.Add(zone, "manual"); err != nil {
		s.t.Fatal(err)
	}
	for _, step := range []struct {
		name, path string
		body       any
		good       func(reply) bool
	}{
		{"sync", h.path("/sync"), nil, func(r reply) bool { return r.text("status") == "completed" }},
		{"add domain", h.path("/domains"), object{"domain": zone}, nil},
		{"verify", h.domain(zone, "/verify"), nil, nil},
		{"enable DKIM", h.domain(zone, "/enable-dkim"), nil, nil},
		{"provision", h.path("/mailboxes"), boxes(zone, "ada"), func(r reply) bool { return r.text("created_count") == "1" }},
	} {
		if step.name == "verify" || step.name == "enable DKIM" {
			h.publish(zone)
		}
		if got := h.call("POST", step.path, step.body); got.status != http.StatusOK || step.good != nil && !step.good(got) {
			return step.name
		}
	}
	return ""
}
