// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strings"
)

// secret makes a secret of some kind; one that may stand in a header or a
// query has no unusual characters.
func (k *canary) secret(name, prefix string) string {
	k.secrets[name] = prefix + rand.Text()
	return k.secrets[name]
}

// answered sends a request and looks into the answer.
func (k *canary) answered(status int, method, path, key string, body any) reply {
	k.client.t.Helper()
	got := k.do(method, k.ready.APIURL+path, key, body)
	if got.status != status {
		k.client.t.Errorf("%s %s: %d, want %d: %s", method, path, got.status, status, got.raw)
	}
	k.keep("the answer to "+method+" "+path, append([]byte(fmt.Sprint(got.header)), got.raw...))
	return got
}

// strangers are calls with secrets that nobody knows, or in wrong places.
func (k *canary) strangers() {
	k.client.t.Helper()
	foreign := make([]byte, 24)
	_, _ = rand.Read(foreign)
	k.secrets["unknown key"] = "tny_live_" + hex.EncodeToString(foreign)
	k.answered(401, "GET", "/v1/tenants", k.secrets["unknown key"], nil)
	k.answered(401, "GET", "/v1/tenants", k.secret("malformed key", "tny_live_"), nil)
	k.answered(404, "GET", "/v1/"+k.secret("secret in a path", "p"), k.ready.APIKey, nil)
	k.answered(200, "GET", "/v1/tenants?token="+k.secret("secret in a query", "q"), k.ready.APIKey, nil)
	k.answered(400, "GET", "/connect/microsoft365/callback?state="+k.secret("forged state", "s")+"&tenant=x&admin_consent=True", "", nil)
	k.answered(400, "GET", "/connect/microsoft365/signin?state=x&code="+k.secret("forged code", "c"), "", nil)
	k.answered(403, "POST", "/api-key/rotate?user_email="+k.secret("strange address", "e")+"@example.com", k.ready.APIKey, nil)
}

// connecting walks to the confirmation: declined, failed in the middle, used
// twice, and well.
func (k *canary) connecting() {
	k.client.t.Helper()
	guid, name := k.rig.tenant(k.client)
	k.tenant = guid
	declines := newAdministrator(k.client.t, name)
	declines.open(k.do("GET", k.ready.APIURL+"/v1/tenants/connect-url", k.ready.APIKey, nil).text("connect_url"))
	declines.press("deny", "")
	k.carried(declines, "declining ")

	fails := newAdministrator(k.client.t, name)
	fails.open(k.do("GET", k.ready.APIURL+"/v1/tenants/connect-url", k.ready.APIKey, nil).text("connect_url"))
	fails.press("accept", "")
	k.look("while a sign-in waits")
	k.control("POST", "/faults", object{"operation": "token", "kind": "status", "status": 500, "times": 3})
	fails.press("", "")
	k.control("DELETE", "/faults", nil)
	k.carried(fails, "failing ")

	connects := newAdministrator(k.client.t, name)
	connects.proves(k.client, k.ready.APIKey)
	k.carried(connects, "")
	k.keep("the confirmation page", []byte(connects.page))
	again := newAdministrator(k.client.t, name)
	again.open(k.ready.APIURL + "/connect/microsoft365/signin?code=" + k.secrets["code"] + "&state=" + url.QueryEscape(connects.parameter("state")))
	k.keep("the page of a code used twice", []byte(again.page))
	k.look("before the confirmation")
	connects.press("connect", "")
	if connects.status != http.StatusOK {
		k.client.t.Fatalf("connect: %d %s", connects.status, connects.page)
	}
	k.keep("the last page", []byte(connects.page))
}

// carried makes secrets of what a browser carried between service and
// platform, and of what the plugin sent for it.
func (k *canary) carried(a *administrator, who string) {
	k.client.t.Helper()
	for i, cookie := range a.cookies {
		k.secrets[fmt.Sprint(who, "cookie ", i)] = cookie
	}
	for _, visited := range a.visited {
		u, err := url.Parse(visited)
		if err != nil {
			continue
		}
		for _, name := range []string{"code", "state"} {
			if value := u.Query().Get(name); len(value) > 20 {
				k.secrets[who+name] = value
			}
		}
	}
	k.tokens()
}

// tokens makes secrets of what went between plugin and platform.
func (k *canary) tokens() {
	for i, call := range k.requests() {
		if !strings.HasSuffix(call.path, "/token") {
			continue
		}
		form, _ := url.ParseQuery(string(call.body))
		for _, name := range []string{"code", "code_verifier", "client_assertion", "client_secret"} {
			if form.Get(name) != "" {
				k.secrets[fmt.Sprint(name, " ", i)] = form.Get(name)
			}
		}
		var tokens map[string]any
		_ = json.Unmarshal(call.answer, &tokens)
		for _, name := range []string{"access_token", "id_token", "refresh_token"} {
			if text, ok := tokens[name].(string); ok {
				k.secrets[fmt.Sprint(name, " ", i)] = text
			}
		}
	}
}

// working takes passwords and keys through the operations, well and badly.
func (k *canary) working() {
	k.client.t.Helper()
	key, path := k.ready.APIKey, "/v1/tenants/"+k.tenant
	k.control("POST", "/faults", object{"operation": "token", "kind": "status", "status": 401, "times": 1})
	k.do("POST", k.ready.APIURL+path+"/sync", key, nil)
	k.control("DELETE", "/faults", nil)
	k.eventually("sync", func() bool { return k.answered(200, "POST", path+"/sync", key, nil).text("status") == "completed" })
	if err := k.zones.Add(k.zone, "manual"); err != nil {
		k.client.t.Fatal(err)
	}
	h := holding{caller: caller{k.client, "", "", key}, guid: k.tenant}
	h.post(h.path("/domains"), object{"domain": k.zone})
	k.answered(400, "POST", path+"/domains/"+k.zone+"/verify", key, nil)
	h.publish(k.zone)
	k.answered(200, "POST", path+"/domains/"+k.zone+"/verify", key, nil)
	k.planned(path+"/domains", key)
	k.twice(path+"/mailboxes", key)
	k.passwords(path+"/mailboxes", key)
	k.selling(path+"/mailboxes", key)
	rotated := k.do("POST", k.ready.APIURL+"/api-key/rotate?user_email=owner@example.com", key, nil)
	k.secrets["rotated key"] = rotated.text("api_key")
	k.answered(401, "GET", "/v1/tenants", key, nil)
	k.answered(200, "GET", "/v1/tenants", rotated.text("api_key"), nil)
	k.control("POST", "/app", object{"expire_secret": true})
	k.tokens()
}

// twice sends a password with an Idempotency-Key that is a secret too, as
// callers put anything in it, and has the answer given again.
func (k *canary) twice(path, key string) {
	k.client.t.Helper()
	body := boxes(k.zone, "lise")
	k.secrets["remembered password"] = "Aa7&" + rand.Text()
	body["account_password"] = k.secrets["remembered password"]
	once := k.secret("Idempotency-Key", "")
	for _, replayed := range []string{"", "true"} {
		got, err := k.tryAs(once, "POST", k.ready.APIURL+path, key, body)
		if err != nil || got.status != http.StatusOK || got.header.Get("Idempotency-Replayed") != replayed {
			k.client.t.Fatalf("%v, %d, replayed %q: %s", err, got.status, got.header.Get("Idempotency-Replayed"), got.raw)
		}
	}
}

// passwords sends one password after the other, each to another end.
func (k *canary) passwords(path, key string) {
	k.client.t.Helper()
	try := func(status int, name, password string, more object) {
		k.client.t.Helper()
		k.secrets[name] = password
		body := boxes(k.zone, "ada")
		body["account_password"] = password
		for member, value := range more {
			body[member] = value
		}
		k.answered(status, "POST", path, key, body)
	}
	strong := func() string { return `Aa7&"<%/+\ ` + rand.Text() }
	try(400, "weak password", strings.ToLower(rand.Text()), nil)
	try(400, "password beside an unknown field", strong(), object{"unknown": 1})
	try(400, "password of a wrong address", strong(), object{"mailboxes": []object{{"name": "A", "email": "a@elsewhere.test"}}})
	try(404, "password for a foreign domain", strong(), object{"domain": "foreign.test"})
	try(400, "long password", strong()+strings.Repeat("x", 300), nil)
	k.secrets["password of a wrong type"] = rand.Text()
	k.answered(400, "POST", path, key, object{"domain": k.zone, "account_password": []string{k.secrets["password of a wrong type"]}, "mailboxes": []object{}})
	faults := func(list ...object) {
		k.client.t.Helper()
		for _, f := range list {
			f["times"] = 3
			k.control("POST", "/faults", f)
		}
	}
	body := boxes(k.zone, "ada")
	for name, f := range map[string][]object{
		"password that the platform refuses": {{"operation": "user.update", "kind": "status", "status": 400}},
		"password in trouble":                {{"operation": "user.update", "kind": "status", "status": 500}},
		"password whose answer is lost":      {{"operation": "user.update", "kind": "drop_after"}, {"operation": "Set-CASMailbox", "kind": "drop_before"}},
	} {
		faults(f...)
		body["account_password"] = k.secret(name, `Aa7&"<`)
		got := k.do("POST", k.ready.APIURL+path, key, body)
		k.keep(name, got.raw)
		k.control("DELETE", "/faults", nil)
	}
	k.eventually("provision", func() bool {
		body["account_password"] = k.secret("password", `Aa7%+/\`)
		got := k.do("POST", k.ready.APIURL+path, key, body)
		k.keep("the answer", got.raw)
		return got.status == http.StatusOK && got.text("failed_count") == "0"
	})
}
