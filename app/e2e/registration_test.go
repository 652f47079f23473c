// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
)

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
