// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
)

// TestRegistrationHasExactlyTheNeededPermissions checks that the onboarding succeeds with the
// application permissions of the manifest. If one of them is missing, the onboarding stops at the
// step that deploy/microsoft365/README.md names for this permission. On a slow machine a step can
// run out of time, so an unexpected end counts only if a second onboarding ends in the same way.
func TestRegistrationHasExactlyTheNeededPermissions(t *testing.T) {
	t.Parallel()
	m := readManifest(t, "manifest.json")
	roles, _ := m.permissions(t)
	fixture := newRegistrationFixture(t, m)
	failedStep := fixture.newConsentedTenant(roles).onboard()
	if failedStep != "" {
		failedStep = fixture.newConsentedTenant(roles).onboard()
	}
	if failedStep != "" {
		t.Fatalf("with all permissions the onboarding stops at %q, want it completed", failedStep)
	}
	newTenantWithout := func(i int) *consentedTenant {
		return fixture.newConsentedTenant(slices.Delete(slices.Clone(roles), i, i+1))
	}
	// Some tenants wait until a permission has taken effect, so all run concurrently.
	var onboardings sync.WaitGroup
	failedSteps := make([]string, len(roles))
	for i := range roles {
		tenant := newTenantWithout(i)
		onboardings.Go(func() { failedSteps[i] = tenant.onboard() })
	}
	onboardings.Wait()
	for i, role := range roles {
		if failedSteps[i] != role.failingStep {
			failedSteps[i] = newTenantWithout(i).onboard()
		}
		if failedSteps[i] != role.failingStep {
			t.Errorf("without %s the onboarding stops at %q, the page says %q", role.name, failedSteps[i], role.failingStep)
		}
	}
}

// TestBootstrapWaitsForAnAssignedRole checks that a sync is partial while the service lacks its
// role and the permission to assign it. Once the role is assigned, all steps succeed without this
// permission.
func TestBootstrapWaitsForAnAssignedRole(t *testing.T) {
	t.Parallel()
	withoutAssignment, _ := readManifest(t, "manifest-without-role-assignment.json").permissions(t)
	m := readManifest(t, "manifest.json")
	withAssignment, _ := m.permissions(t)
	for _, p := range withoutAssignment {
		if p.name == "RoleManagement.ReadWrite.Directory" {
			t.Error("the manifest without role assignment has the permission to assign roles")
		}
	}
	fixture := newRegistrationFixture(t, m)
	tenant := fixture.newConsentedTenant(withoutAssignment)
	tenant.mustConfirmConnect()
	tenant.eventually("the next step is grant_role", func() bool { // a sync can run out of time before it reads the role
		checkValues(t, tenant.post(tenant.path("/sync"), nil).object, object{"status": "partial"})
		return tenant.nextStep() == "grant_role"
	})
	// The service assigns the role after the first consent, which includes the permission to assign
	// roles. The second consent has no such permission, and the role stays assigned.
	for _, roles := range [][]permission{withAssignment, withoutAssignment} {
		fixture.setPermissions(roles)
		tenant.giveConsent()
		tenant.mustConfirmConnect()
		tenant.mustSync()
	}
	failedStep := tenant.runOnboarding()
	if failedStep != "" { // a step can run out of time
		failedStep = tenant.runOnboarding()
	}
	if failedStep != "" {
		t.Errorf("with the role assigned the onboarding stops at %q, want it completed", failedStep)
	}
}

// TestRegistrationMatchesURLsAndScopes checks that the redirect URIs of the manifests are routes of
// the service, and that the manifests have the scopes that the sign-in requests.
func TestRegistrationMatchesURLsAndScopes(t *testing.T) {
	t.Parallel()
	c := sharedSandbox(t).newAccount(nil)
	link := c.get("/v1/tenants/connect-url").text("connect_url")
	tenant, b := c.newTenant(nil), newBrowser(t)
	callback := b.open(b.answerConsent(link, tenant.admin, "accept"))
	redirectURI := func(address string) string {
		u, err := url.Parse(address)
		must(t, err)
		u, err = url.Parse(u.Query().Get("redirect_uri"))
		must(t, err)
		return "https://tenantry.example" + u.Path
	}
	redirectURIs := []string{redirectURI(link), redirectURI(callback.location)}
	signIn, _ := url.Parse(callback.location)
	for _, name := range []string{"manifest.json", "manifest-without-role-assignment.json"} {
		m := readManifest(t, name)
		if !slices.Equal(m.Web.RedirectURIs, redirectURIs) {
			t.Errorf("%s registers %v, the service calls %v", name, m.Web.RedirectURIs, redirectURIs)
		}
		_, scopes := m.permissions(t)
		var names []string
		for _, p := range scopes {
			names = append(names, p.name)
		}
		if strings.Join(names, " ") != signIn.Query().Get("scope") {
			t.Errorf("%s registers the scopes %v, the sign-in asks for %q", name, names, signIn.Query().Get("scope"))
		}
	}
	for _, address := range redirectURIs {
		path := strings.TrimPrefix(address, "https://tenantry.example")
		if got := c.do("GET", c.ready.APIURL+path, "", nil); got.status == http.StatusNotFound {
			t.Errorf("%s is not a page of the service", path)
		}
	}
}

// registrationFixture is a server whose simulated application registration follows a manifest.
type registrationFixture struct {
	caller
	service *serviceFixture
}

// newRegistrationFixture starts a server and registers the redirect URIs of the manifest.
func newRegistrationFixture(t *testing.T, m manifest) registrationFixture {
	t.Helper()
	fixture := newServiceFixture(t, requirePrograms(t, releaseBuild))
	env := fixture.env(t.TempDir(), "")
	id, key := fixture.newAccount(env, "ann@example.com", "complete", 50)
	_, server := fixture.serve(env)
	var redirects []string
	for _, uri := range m.Web.RedirectURIs {
		redirects = append(redirects, strings.Replace(uri, "https://tenantry.example", "http://127.0.0.1", 1))
	}
	server.control("POST", "/app", object{"redirect_uris": redirects})
	return registrationFixture{caller{server, id, "ann@example.com", key}, fixture}
}

// setPermissions sets the permissions that consents grant from now on.
func (f registrationFixture) setPermissions(roles []permission) {
	f.t.Helper()
	names := []string{}
	for _, role := range roles {
		names = append(names, role.name)
	}
	f.control("POST", "/app", object{"permissions": names})
}

// newConsentedTenant returns a new tenant whose administrator consented to these permissions and
// has not confirmed the connection.
func (f registrationFixture) newConsentedTenant(roles []permission) *consentedTenant {
	f.t.Helper()
	f.setPermissions(roles)
	guid, admin := f.service.newTenant(f.client)
	consented := &consentedTenant{accountTenant: accountTenant{f.caller, guid, admin}, service: f.service}
	consented.giveConsent()
	return consented
}

type consentedTenant struct {
	accountTenant
	service     *serviceFixture
	browser     *browser // the administrator's
	callbackURL string   // the address to which the consent page redirected the browser
}

func (consented *consentedTenant) giveConsent() {
	consented.t.Helper()
	consented.browser = newBrowser(consented.t)
	consented.browser.client.Transport = timeoutTransport{&http.Transport{ResponseHeaderTimeout: waitTimeout}}
	consented.callbackURL = consented.browser.answerConsent(consented.get("/v1/tenants/connect-url").text("connect_url"), consented.admin, "accept")
}

// timeoutTransport returns a response with status 504 instead of an error, for example if the
// server does not respond in time. The page that waits until a consent has taken effect can take
// almost a minute.
type timeoutTransport struct{ *http.Transport }

func (transport timeoutTransport) RoundTrip(r *http.Request) (*http.Response, error) {
	answer, err := transport.Transport.RoundTrip(r)
	if err != nil {
		answer = &http.Response{StatusCode: http.StatusGatewayTimeout, Body: http.NoBody, Request: r}
	}
	return answer, nil
}

// confirmConnect signs the administrator in and confirms. It reports whether the tenant was
// connected.
func (consented *consentedTenant) confirmConnect() bool {
	consented.t.Helper()
	signIn := consented.browser.open(consented.callbackURL).location
	confirmation := consented.browser.open(consented.browser.signIn(signIn, consented.admin).location)
	return confirmation.action != "" && consented.browser.submit(confirmation, url.Values{"decision": {"connect"}}).status == http.StatusOK
}

// mustConfirmConnect confirms until the tenant is connected. On a slow machine the sign-in can run
// out of time.
func (consented *consentedTenant) mustConfirmConnect() {
	consented.t.Helper()
	consented.eventually("the tenant is connected", func() bool {
		if consented.confirmConnect() {
			return true
		}
		consented.giveConsent()
		return false
	})
}

// onboard connects the tenant and runs the onboarding. It returns the step that failed, or "".
func (consented *consentedTenant) onboard() string {
	consented.t.Helper()
	if !consented.confirmConnect() {
		return "connect"
	}
	return consented.runOnboarding()
}

// runOnboarding runs the onboarding of a connected tenant. It returns the step that failed, or "".
func (consented *consentedTenant) runOnboarding() string {
	consented.t.Helper()
	zone := fmt.Sprintf("registered-%d.test", uniqueNumber.Add(1))
	if err := consented.service.zones.Add(zone, "manual"); err != nil {
		consented.t.Error(err)
	}
	for _, step := range []struct {
		name, path string
		body       any
		isDone     func(reply) bool
	}{
		{"sync", consented.path("/sync"), nil, func(r reply) bool { return r.text("status") == "completed" }},
		{"add domain", consented.path("/domains"), object{"domain": zone}, nil},
		{"verify", consented.domainPath(zone, "/verify"), nil, nil},
		{"enable DKIM", consented.domainPath(zone, "/enable-dkim"), nil, nil},
		{"provision", consented.path("/mailboxes"), mailboxesBody(zone, "ada"), func(r reply) bool { return r.text("created_count") == "1" }},
	} {
		if step.name == "verify" || step.name == "enable DKIM" {
			consented.publishRecords(zone)
		}
		if got := consented.call("POST", step.path, step.body); got.status != http.StatusOK || step.isDone != nil && !step.isDone(got) {
			return step.name
		}
	}
	return ""
}

// manifest is an application registration in the format of Microsoft Graph.
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

const registrationFolder = "../../deploy/microsoft365/"

// readManifest reads a manifest of deploy/microsoft365 and checks its audience and flows.
func readManifest(t *testing.T, name string) (m manifest) {
	t.Helper()
	strict := json.NewDecoder(strings.NewReader(fileText(t, registrationFolder+name)))
	strict.DisallowUnknownFields()
	must(t, strict.Decode(&m))
	if m.SignInAudience != "AzureADMultipleOrgs" || m.IsFallbackPublic || m.Web.ImplicitGrant.AccessToken || m.Web.ImplicitGrant.IDToken {
		t.Errorf("%s has the audience %s and the flows %+v, want several organizations and no implicit flow", name, m.SignInAudience, m.Web.ImplicitGrant)
	}
	return m
}

// permission is a row of the table in deploy/microsoft365/README.md. failingStep is the first step
// of the onboarding that fails without the permission.
type permission struct{ resource, name, id, kind, failingStep string }

var permissionRow = regexp.MustCompile("(?m)^\\| (\\S+) \\| `([^`]+)` \\| `([0-9a-f-]{36})` \\| (Role|Scope) \\| [^|]+ \\| ([^|]+) \\|$")

// permissionRows returns the rows of the table, keyed by the id of the permission.
func permissionRows(t *testing.T) map[string]permission {
	t.Helper()
	rows := map[string]permission{}
	for _, columns := range permissionRow.FindAllStringSubmatch(fileText(t, registrationFolder+"README.md"), -1) {
		rows[columns[3]] = permission{columns[1], columns[2], columns[3], columns[4], strings.TrimSpace(columns[5])}
	}
	return rows
}

// permissions returns the permissions of a manifest, each with its row of the README.
func (m manifest) permissions(t *testing.T) (roles, scopes []permission) {
	t.Helper()
	rows, resources := permissionRows(t), map[string]string{
		"Graph": "00000003-0000-0000-c000-000000000000", "Exchange": "00000002-0000-0ff1-ce00-000000000000",
	}
	for _, required := range m.Required {
		for _, access := range required.Access {
			row, ok := rows[access.ID]
			switch {
			case !ok || row.kind != access.Type || resources[row.resource] != required.Resource:
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
