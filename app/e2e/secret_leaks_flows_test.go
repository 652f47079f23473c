// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"bytes"
	"crypto/rand"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"strings"
)

// newSecret returns a new random secret with a prefix and registers it under a name.
func (s *leakSearch) newSecret(name, prefix string) string {
	s.secrets[name] = prefix + rand.Text()
	return s.secrets[name]
}

// expectStatus sends a request, checks the status, and keeps the response for the search.
func (s *leakSearch) expectStatus(status int, method, path, key string, body any) reply {
	s.client.t.Helper()
	got := s.do(method, s.ready.APIURL+path, key, body)
	if got.status != status {
		s.client.t.Errorf("%s %s is answered %d, want %d: %s", method, path, got.status, status, got.raw)
	}
	s.keep("the answer to "+method+" "+path, append([]byte(fmt.Sprint(got.header)), got.raw...))
	return got
}

// sendUnknownSecrets sends requests with unknown secrets, and with secrets in places that are not
// for secrets.
func (s *leakSearch) sendUnknownSecrets() {
	s.client.t.Helper()
	randomBytes := make([]byte, 24)
	_, _ = rand.Read(randomBytes)
	s.secrets["unknown key"] = "tny_live_" + hex.EncodeToString(randomBytes)
	s.expectStatus(401, "GET", "/v1/tenants", s.secrets["unknown key"], nil)
	s.expectStatus(401, "GET", "/v1/tenants", s.newSecret("malformed key", "tny_live_"), nil)
	s.expectStatus(404, "GET", "/v1/"+s.newSecret("secret in a path", "p"), s.ready.APIKey, nil)
	s.expectStatus(200, "GET", "/v1/tenants?token="+s.newSecret("secret in a query", "q"), s.ready.APIKey, nil)
	s.expectStatus(400, "GET", "/connect/microsoft365/callback?state="+s.newSecret("forged state", "s")+"&tenant=x&admin_consent=True", "", nil)
	s.expectStatus(400, "GET", "/connect/microsoft365/signin?state=x&code="+s.newSecret("forged code", "c"), "", nil)
	s.expectStatus(403, "POST", "/api-key/rotate?user_email="+s.newSecret("unknown address", "e")+"@example.com", s.ready.APIKey, nil)
}

// runConnectFlows runs four connect flows: one is declined, one fails, one is completed, and one
// uses the code of the completed flow.
func (s *leakSearch) runConnectFlows() {
	s.client.t.Helper()
	guid, name := s.serviceFixture.newTenant(s.client)
	s.tenant = guid
	declining := newAdministrator(s.client.t, name)
	declining.open(s.do("GET", s.ready.APIURL+"/v1/tenants/connect-url", s.ready.APIKey, nil).text("connect_url"))
	declining.submit("deny", "")
	s.addBrowserSecrets(declining, "declining ")

	failing := newAdministrator(s.client.t, name)
	failing.open(s.do("GET", s.ready.APIURL+"/v1/tenants/connect-url", s.ready.APIKey, nil).text("connect_url"))
	failing.submit("accept", "")
	s.keepStoredData("while a sign-in waits")
	s.control("POST", "/faults", object{"operation": "token", "kind": "status", "status": 500, "times": 3})
	failing.submit("", "")
	s.control("DELETE", "/faults", nil)
	s.addBrowserSecrets(failing, "failing ")

	connecting := newAdministrator(s.client.t, name)
	connecting.openConfirmation(s.client, s.ready.APIKey)
	s.addBrowserSecrets(connecting, "")
	s.keep("the confirmation page", []byte(connecting.page))
	reusing := newAdministrator(s.client.t, name)
	reusing.open(s.ready.APIURL + "/connect/microsoft365/signin?code=" + s.secrets["code"] + "&state=" + url.QueryEscape(connecting.parameter("state")))
	s.keep("the page of a code used twice", []byte(reusing.page))
	s.keepStoredData("before the confirmation")
	connecting.submit("connect", "")
	if connecting.status != http.StatusOK {
		s.client.t.Fatalf("the confirmation is answered %d %s, want 200", connecting.status, connecting.page)
	}
	s.keep("the last page", []byte(connecting.page))
}

// addBrowserSecrets registers the cookies that a browser received, the codes and states in the
// addresses that it visited, and the secrets of the plugin's requests.
func (s *leakSearch) addBrowserSecrets(a *administrator, namePrefix string) {
	s.client.t.Helper()
	for i, cookie := range a.cookies {
		s.secrets[fmt.Sprint(namePrefix, "cookie ", i)] = cookie
	}
	for _, visited := range a.visited {
		u, err := url.Parse(visited)
		if err != nil {
			continue
		}
		for _, name := range []string{"code", "state"} {
			if value := u.Query().Get(name); len(value) > 20 { // an output could contain a short value by chance
				s.secrets[namePrefix+name] = value
			}
		}
	}
	s.addTokenSecrets()
}

// addTokenSecrets registers the codes, assertions, client secrets and tokens that plugin and
// platform exchanged.
func (s *leakSearch) addTokenSecrets() {
	for i, call := range s.recordedRequests() {
		if !strings.HasSuffix(call.path, "/token") {
			continue
		}
		form, _ := url.ParseQuery(string(call.body))
		for _, name := range []string{"code", "code_verifier", "client_assertion", "client_secret"} {
			if form.Get(name) != "" {
				s.secrets[fmt.Sprint(name, " ", i)] = form.Get(name)
			}
		}
		var tokens map[string]any
		_ = json.Unmarshal(call.answer, &tokens)
		for _, name := range []string{"access_token", "id_token", "refresh_token"} {
			if text, ok := tokens[name].(string); ok {
				s.secrets[fmt.Sprint(name, " ", i)] = text
			}
		}
	}
}

// runOperations calls operations with passwords and keys. Some of the calls fail.
func (s *leakSearch) runOperations() {
	s.client.t.Helper()
	key, path := s.ready.APIKey, "/v1/tenants/"+s.tenant
	s.control("POST", "/faults", object{"operation": "token", "kind": "status", "status": 401, "times": 1})
	s.do("POST", s.ready.APIURL+path+"/sync", key, nil)
	s.control("DELETE", "/faults", nil)
	s.eventually("a sync is complete", func() bool { return s.expectStatus(200, "POST", path+"/sync", key, nil).text("status") == "completed" })
	must(s.client.t, s.zones.Add(s.zone, "manual"))
	tenant := accountTenant{caller: caller{s.client, "", "", key}, guid: s.tenant}
	tenant.post(tenant.path("/domains"), object{"domain": s.zone})
	s.expectStatus(400, "POST", path+"/domains/"+s.zone+"/verify", key, nil)
	tenant.publishRecords(s.zone)
	s.expectStatus(200, "POST", path+"/domains/"+s.zone+"/verify", key, nil)
	s.readDNSPlans(path+"/domains", key)
	s.sendTwice(path+"/mailboxes", key)
	s.sendPasswords(path+"/mailboxes", key)
	s.runIntegrations(path+"/mailboxes", key)
	s.runWebhooks(key)
	s.runKeys(key)
	rotated := s.do("POST", s.ready.APIURL+"/api-key/rotate?user_email=owner@example.com", key, nil)
	s.secrets["rotated key"] = rotated.text("api_key")
	s.expectStatus(401, "GET", "/v1/tenants", key, nil)
	s.expectStatus(200, "GET", "/v1/tenants", rotated.text("api_key"), nil)
	s.control("POST", "/app", object{"expire_secret": true})
	s.addTokenSecrets()
}

// runWebhooks creates a webhook, rotates its secret, and sends two test messages that both secrets
// sign. The endpoint refuses the second message. Only the responses to the creation and to the
// rotation may contain a secret.
func (s *leakSearch) runWebhooks(key string) {
	s.client.t.Helper()
	addSecret := func(name, text string) {
		s.client.t.Helper()
		encoded, prefixed := strings.CutPrefix(text, "whsec_")
		raw, err := base64.StdEncoding.DecodeString(encoded)
		if !prefixed || err != nil || len(raw) != 32 {
			s.client.t.Fatalf("%s has %d characters, want whsec_ and 32 bytes in base64: %v", name, len(text), err)
		}
		s.secrets[name], s.secrets[name+" decoded"] = text, string(raw)
	}
	c := caller{s.client, "", "", key}
	receiver := newWebhookReceiver(s.client.t)
	webhookPath, secret := c.addWebhook(receiver.url, "*")
	addSecret("webhook secret", secret)
	addSecret("rotated webhook secret", c.post(webhookPath+"/rotate-secret", object{"overlap_hours": 24}).text("secret"))
	for _, status := range []int{http.StatusOK, http.StatusTeapot} {
		receiver.answerStatus(status)
		s.expectStatus(200, "POST", webhookPath+"/test", key, nil)
	}
	if messages := receiver.received(); len(messages) == 0 {
		s.client.t.Error("the endpoint got no signed message")
	}
	s.expectStatus(200, "PATCH", webhookPath, key, object{"description": "leak search"})
	for _, path := range []string{webhookPath, "/v1/webhooks", webhookPath + "/deliveries"} {
		s.expectStatus(200, "GET", path, key, nil)
	}
	receiver.answerStatus(http.StatusOK)
}

// runKeys creates a key, rotates it, and uses the old and the new key. Only the responses to the
// creation and to the rotation may contain a key.
func (s *leakSearch) runKeys(key string) {
	s.client.t.Helper()
	c := caller{s.client, "", "", key}
	created := c.post("/v1/keys", object{"name": "leak search", "scopes": []string{"tenants:read"}})
	s.secrets["created key"] = created.text("api_key")
	rotated := c.post("/v1/keys/"+created.text("id")+"/rotate", nil)
	s.secrets["replacement of the created key"] = rotated.text("api_key")
	for _, name := range []string{"created key", "replacement of the created key"} {
		if !strings.HasPrefix(s.secrets[name], "tny_live_") {
			s.client.t.Fatalf("the %s has %d characters and does not begin with tny_live_", name, len(s.secrets[name]))
		}
		s.do("GET", s.ready.APIURL+"/v1/tenants", s.secrets[name], nil)
		s.expectStatus(403, "GET", "/v1/keys", s.secrets[name], nil)
	}
	for _, path := range []string{"/v1/keys", "/v1/events", "/v1/audit"} {
		s.expectStatus(200, "GET", path, key, nil)
	}
}

// sendTwice sends a password twice with the same Idempotency-Key. The second response is a replay.
// The Idempotency-Key also counts as a secret, because callers may put anything into it.
func (s *leakSearch) sendTwice(path, key string) {
	s.client.t.Helper()
	body := mailboxesBody(s.zone, "lise")
	s.secrets["replayed password"] = "Aa7&" + rand.Text()
	body["account_password"] = s.secrets["replayed password"]
	idempotencyKey := s.newSecret("Idempotency-Key", "")
	for _, replayed := range []string{"", "true"} {
		got, err := s.tryWithKey(idempotencyKey, "POST", s.ready.APIURL+path, key, body)
		if err != nil || got.status != http.StatusOK || got.header.Get("Idempotency-Replayed") != replayed {
			s.client.t.Fatalf("got %d with Idempotency-Replayed %q, want 200 with %q (%v): %s", got.status, got.header.Get("Idempotency-Replayed"), replayed, err, got.raw)
		}
	}
}

func (s *leakSearch) sendPasswords(path, key string) {
	s.client.t.Helper()
	sendPassword := func(status int, name, password string, changes object) {
		s.client.t.Helper()
		s.secrets[name] = password
		body := mailboxesBody(s.zone, "ada")
		body["account_password"] = password
		for member, value := range changes {
			body[member] = value
		}
		s.expectStatus(status, "POST", path, key, body)
	}
	strongPassword := func() string { return `Aa7&"<%/+\ ` + rand.Text() }
	sendPassword(400, "weak password", strings.ToLower(rand.Text()), nil)
	sendPassword(400, "password beside an unknown field", strongPassword(), object{"unknown": 1})
	sendPassword(400, "password of a wrong address", strongPassword(), object{"mailboxes": []object{{"name": "A", "email": "a@elsewhere.test"}}})
	sendPassword(404, "password for an unknown domain", strongPassword(), object{"domain": "foreign.test"})
	sendPassword(400, "long password", strongPassword()+strings.Repeat("x", 300), nil)
	s.secrets["password of a wrong type"] = rand.Text()
	s.expectStatus(400, "POST", path, key, object{"domain": s.zone, "account_password": []string{s.secrets["password of a wrong type"]}, "mailboxes": []object{}})
	injectFaults := func(list ...object) {
		s.client.t.Helper()
		for _, f := range list {
			f["times"] = 3
			s.control("POST", "/faults", f)
		}
	}
	body := mailboxesBody(s.zone, "ada")
	for name, f := range map[string][]object{
		"password that the platform refuses": {{"operation": "user.update", "kind": "status", "status": 400}},
		"password of a call that fails":      {{"operation": "user.update", "kind": "status", "status": 500}},
		"password whose answer is lost":      {{"operation": "user.update", "kind": "drop_after"}, {"operation": "Set-CASMailbox", "kind": "drop_before"}},
	} {
		injectFaults(f...)
		body["account_password"] = s.newSecret(name, `Aa7&"<`)
		got := s.do("POST", s.ready.APIURL+path, key, body)
		s.keep(name, got.raw)
		s.control("DELETE", "/faults", nil)
	}
	s.eventually("the mailbox is provisioned", func() bool {
		body["account_password"] = s.newSecret("password", `Aa7%+/\`)
		got := s.do("POST", s.ready.APIURL+path, key, body)
		s.keep("the answer", got.raw)
		return got.status == http.StatusOK && got.text("failed_count") == "0"
	})
}

// addDNSConnections adds a connection to Cloudflare to the account, after an attempt with a
// credential that Cloudflare refuses.
func (s *leakSearch) addDNSConnections(account string, env []string) {
	s.serviceFixture.t.Helper()
	s.secrets["DNS credential"] = s.cloudflare.token
	for _, name := range []string{"refused DNS credential", "DNS credential"} {
		if s.secrets[name] == "" {
			s.secrets[name] = "refused" + rand.Text()
		}
		code, printed := s.runWithDebugLog(env, "dns-connection", "add", "--account", account, "--provider", "cloudflare",
			"--credential-file", credentialFile(s.serviceFixture.t, s.secrets[name]))
		if (code == 0) != (name == "DNS credential") {
			s.serviceFixture.t.Fatalf("dns-connection add with the %s ends with the exit code %d, want 0 only for the valid credential\n%s", name, code, printed)
		}
	}
	s.runWithDebugLog(env, "dns-connection", "list", "-o", "json")
	s.runWithDebugLog(env, "dns-connection", "add", "--account", account, "--provider", "cloudflare", "--set", "api_token="+s.cloudflare.token)
}

// runWithDebugLog runs a command at log level debug and keeps its output for the search.
func (s *leakSearch) runWithDebugLog(env []string, args ...string) (code int, printed []byte) {
	s.serviceFixture.t.Helper()
	cmd := exec.CommandContext(s.serviceFixture.t.Context(), s.build.binary, args...)
	cmd.Env = append([]string{"PATH=" + os.Getenv("PATH"), "HOME=" + scratchDir, "TENANTRY_LOG_LEVEL=debug"}, env...)
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	_ = cmd.Run()
	s.keep("what a command prints", out.Bytes())
	return cmd.ProcessState.ExitCode(), out.Bytes()
}

// readDNSPlans lets the service call Cloudflare with the stored credential, while it is valid and
// after it was revoked.
func (s *leakSearch) readDNSPlans(domainsPath, key string) {
	s.client.t.Helper()
	id := s.expectStatus(200, "GET", domainsPath, key, nil).objects("domains")[0].text("id")
	for _, revoked := range []bool{false, true} {
		s.cloudflare.revoked.Store(revoked)
		before := s.cloudflare.calls.Load()
		s.expectStatus(200, "GET", "/v1/domains/"+id+"/dns/plan", key, nil)
		s.expectStatus(200, "GET", "/v1/domains/"+id+"/dns/automation", key, nil)
		if s.cloudflare.calls.Load() == before {
			s.client.t.Error("Cloudflare was not called")
		}
	}
}

// startSendingPlatforms starts a server that answers like two sending platforms, one of which
// accepts a partner's password. The 401 answers of the server repeat the credentials of the
// request. startSendingPlatforms returns the settings with which a service uses the server.
func (s *leakSearch) startSendingPlatforms() (env []string) {
	s.secrets["sending key"], s.secrets["PlusVibe key"] = "sk"+rand.Text(), "pv"+rand.Text()
	s.secrets["partner's password"], s.secrets["sign-in link"] = "pw"+rand.Text(), "state"+rand.Text()
	signInLink := "https://login.microsoftonline.com/common/oauth2/v2.0/authorize?state=" + s.secrets["sign-in link"]
	mux := http.NewServeMux()
	answerIfAuthorized := func(pattern string, answer any) {
		mux.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) {
			body, _ := io.ReadAll(r.Body)
			isAuthorized := r.Header.Get("Authorization") == "Bearer "+s.secrets["sending key"] || r.Header.Get("X-Api-Key") == s.secrets["PlusVibe key"] ||
				strings.Contains(string(body), s.secrets["partner's password"])
			w.Header().Set("Content-Type", "application/json")
			if !isAuthorized {
				w.WriteHeader(http.StatusUnauthorized)
				_ = json.NewEncoder(w).Encode(object{"statusCode": 401, "error": "Unauthorized", "message": r.Header.Get("Authorization") + r.Header.Get("X-Api-Key") + string(body)})
				return
			}
			_ = json.NewEncoder(w).Encode(answer)
		})
	}
	workspaces := object{"status": "success", "code": 1, "workspaces": []object{{"_id": "65f3a1b2c3d4e5f600000001", "name": "One"}}, "data": object{"url": signInLink}}
	answerIfAuthorized("GET /api/v2/workspaces/current", object{"id": "8d0b1a52-77f2-4a0e-9f1c-2b6f3f5a9e10", "name": "One"})
	answerIfAuthorized("GET /api/v2/accounts", object{"items": []object{}})
	mux.HandleFunc("/api/v2/accounts/{email}", func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusNotFound)
		_ = json.NewEncoder(w).Encode(object{"statusCode": 404, "error": "Not Found", "message": "no such account"})
	})
	answerIfAuthorized("POST /api/v2/oauth/microsoft/init", object{"session_id": "one", "auth_url": signInLink, "expires_at": "2099-01-01T00:00:00.000Z"})
	answerIfAuthorized("GET /api/v2/oauth/session/status/{id}", object{"status": "pending"})
	for _, path := range []string{"GET /authenticate", "POST /webhook/partner-list-workspace", "POST /webhook/partner-microsoft-oauth-url"} {
		answerIfAuthorized(path, workspaces)
	}
	answerIfAuthorized("GET /account/list", object{"accounts": []object{}})
	server := httptest.NewServer(mux)
	s.serviceFixture.t.Cleanup(server.Close)
	return []string{"TENANTRY_PROVIDERS_INSTANTLY_BASE_URL=" + server.URL, "TENANTRY_PROVIDERS_PLUSVIBE_BASE_URL=" + server.URL,
		"TENANTRY_PROVIDERS_PLUSVIBE_ALLOW_PASSWORD_CREDENTIALS=true"}
}

// runIntegrations calls operations with credentials of sending platforms. Some of the calls fail.
// Only the response to POST …/init, which begins a sign-in, may contain the sign-in link.
func (s *leakSearch) runIntegrations(mailboxes, key string) {
	s.client.t.Helper()
	addBody := func(provider, credential string) object {
		return object{"provider": provider, "name": "One", "api_key": credential}
	}
	partnerCredential, _ := json.Marshal(map[string]string{"api_key": s.secrets["PlusVibe key"], "partner_username": "a@partner.test", "partner_password": s.secrets["partner's password"]})
	s.expectStatus(400, "POST", "/v1/integrations", key, addBody("instantly", s.newSecret("refused sending key", "sk")))
	s.expectStatus(400, "POST", "/v1/integrations", key, addBody("instantly", `{"api_key":"`+s.newSecret("key beside an unknown member", "sk")+`","stranger":"x"}`))
	s.expectStatus(400, "POST", "/v1/integrations", key, addBody(s.newSecret("key in the wrong place", "sk"), "x"))
	mailbox := s.expectStatus(200, "GET", mailboxes, key, nil).objects("mailboxes")[0].text("id")
	for _, body := range []object{addBody("instantly", s.secrets["sending key"]), addBody("plusvibe", string(partnerCredential))} {
		integrationPath := "/v1/integrations/" + s.expectStatus(200, "POST", "/v1/integrations", key, body).text("id")
		s.expectStatus(200, "POST", integrationPath+"/test", key, nil)
		s.expectStatus(200, "POST", integrationPath+"/mailboxes/refresh", key, nil)
		oauthPath := integrationPath + "/mailboxes/" + mailbox + "/oauth/microsoft"
		started := s.do("POST", s.ready.APIURL+oauthPath+"/init", key, nil)
		if started.status != http.StatusOK || !strings.Contains(started.text("auth_url"), s.secrets["sign-in link"]) {
			s.client.t.Fatalf("the start of a sign-in is answered %d %s, want 200 with the sign-in link", started.status, started.raw)
		}
		s.expectStatus(200, "GET", oauthPath+"/status?session_id="+started.text("session_id"), key, nil)
		s.expectStatus(200, "GET", integrationPath, key, nil)
		s.expectStatus(200, "DELETE", integrationPath+"/mailboxes/"+mailbox, key, nil)
	}
	s.expectStatus(200, "GET", "/v1/integrations", key, nil)
	s.keepPluginProcesses()
}

// keepPluginProcesses keeps arguments and environment of the plugin processes, which are the
// descendants of the service.
func (s *leakSearch) keepPluginProcesses() {
	t := s.client.t
	t.Helper()
	plugins := descendants(t, s.process.cmd.Process.Pid)
	if len(plugins) == 0 {
		t.Fatal("the service has no plugin processes")
	}
	for _, plugin := range plugins {
		for _, file := range []string{"cmdline", "environ"} {
			content, err := os.ReadFile(fmt.Sprintf("/proc/%d/%s", plugin.pid, file))
			must(t, err)
			s.keep(file+" of a plugin", content)
		}
	}
}
