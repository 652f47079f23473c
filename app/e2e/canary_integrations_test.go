// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"crypto/rand"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"

	"github.com/tenantry/tenantry/adapters/testserver"
)

// platforms are two sending platforms of which one takes a partner's password.
// They repeat in their refusals whatever they were sent.
func (k *canary) platforms() (env []string) {
	k.secrets["sending key"], k.secrets["PlusVibe key"] = "sk"+rand.Text(), "pv"+rand.Text()
	k.secrets["partner's password"], k.secrets["sign-in link"] = "pw"+rand.Text(), "state"+rand.Text()
	link := "https://login.microsoftonline.com/common/oauth2/v2.0/authorize?state=" + k.secrets["sign-in link"]
	mux := http.NewServeMux()
	reply := func(pattern string, answer any) {
		mux.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) {
			body, _ := io.ReadAll(r.Body)
			good := r.Header.Get("Authorization") == "Bearer "+k.secrets["sending key"] || r.Header.Get("X-Api-Key") == k.secrets["PlusVibe key"] ||
				strings.Contains(string(body), k.secrets["partner's password"])
			w.Header().Set("Content-Type", "application/json")
			if !good {
				w.WriteHeader(http.StatusUnauthorized)
				_ = json.NewEncoder(w).Encode(object{"statusCode": 401, "error": "Unauthorized", "message": r.Header.Get("Authorization") + r.Header.Get("X-Api-Key") + string(body)})
				return
			}
			_ = json.NewEncoder(w).Encode(answer)
		})
	}
	workspaces := object{"status": "success", "code": 1, "workspaces": []object{{"_id": "65f3a1b2c3d4e5f600000001", "name": "One"}}, "data": object{"url": link}}
	reply("GET /api/v2/workspaces/current", object{"id": "8d0b1a52-77f2-4a0e-9f1c-2b6f3f5a9e10", "name": "One"})
	reply("GET /api/v2/accounts", object{"items": []object{}})
	mux.HandleFunc("/api/v2/accounts/{email}", func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusNotFound)
		_ = json.NewEncoder(w).Encode(object{"statusCode": 404, "error": "Not Found", "message": "no such account"})
	})
	reply("POST /api/v2/oauth/microsoft/init", object{"session_id": "one", "auth_url": link, "expires_at": "2099-01-01T00:00:00.000Z"})
	reply("GET /api/v2/oauth/session/status/{id}", object{"status": "pending"})
	for _, path := range []string{"GET /authenticate", "POST /webhook/partner-list-workspace", "POST /webhook/partner-microsoft-oauth-url"} {
		reply(path, workspaces)
	}
	reply("GET /account/list", object{"accounts": []object{}})
	server := httptest.NewServer(mux)
	k.rig.t.Cleanup(server.Close)
	return []string{"TENANTRY_PROVIDERS_INSTANTLY_BASE_URL=" + server.URL, "TENANTRY_PROVIDERS_PLUSVIBE_BASE_URL=" + server.URL,
		"TENANTRY_PROVIDERS_PLUSVIBE_ALLOW_PASSWORD_CREDENTIALS=true"}
}

// selling takes credentials of sending platforms through the operations, well
// and badly. The link of a sign-in is in one answer alone.
func (k *canary) selling(mailboxes, key string) {
	k.client.t.Helper()
	of := func(provider, credential string) object {
		return object{"provider": provider, "name": "One", "api_key": credential}
	}
	partner, _ := json.Marshal(map[string]string{"api_key": k.secrets["PlusVibe key"], "partner_username": "a@partner.test", "partner_password": k.secrets["partner's password"]})
	k.answered(400, "POST", "/v1/integrations", key, of("instantly", k.secret("refused sending key", "sk")))
	k.answered(400, "POST", "/v1/integrations", key, of("instantly", `{"api_key":"`+k.secret("key beside a stranger", "sk")+`","stranger":"x"}`))
	k.answered(400, "POST", "/v1/integrations", key, of(k.secret("key in the wrong place", "sk"), "x"))
	mailbox := k.answered(200, "GET", mailboxes, key, nil).objects("mailboxes")[0].text("id")
	for _, body := range []object{of("instantly", k.secrets["sending key"]), of("plusvibe", string(partner))} {
		at := "/v1/integrations/" + k.answered(200, "POST", "/v1/integrations", key, body).text("id")
		k.answered(200, "POST", at+"/test", key, nil)
		k.answered(200, "POST", at+"/mailboxes/refresh", key, nil)
		oauth := at + "/mailboxes/" + mailbox + "/oauth/microsoft"
		begun := k.do("POST", k.ready.APIURL+oauth+"/init", key, nil)
		if begun.status != http.StatusOK || !strings.Contains(begun.text("auth_url"), k.secrets["sign-in link"]) {
			k.client.t.Fatalf("init: %d %s", begun.status, begun.raw)
		}
		k.answered(200, "GET", oauth+"/status?session_id="+begun.text("session_id"), key, nil)
		k.answered(200, "GET", at, key, nil)
		k.answered(200, "DELETE", at+"/mailboxes/"+mailbox, key, nil)
	}
	k.answered(200, "GET", "/v1/integrations", key, nil)
	k.plugins()
}

// plugins keeps what the processes of plugins were started with. Tests of other
// packages start the same files with the environment of their test, which no
// service has: those processes are left out.
func (k *canary) plugins() {
	k.client.t.Helper()
	files, _ := filepath.Glob("/proc/[0-9]*/cmdline")
	for _, file := range files {
		line, err := os.ReadFile(file)
		if err != nil || !strings.HasPrefix(string(line), k.binary.folder) {
			continue
		}
		env, _ := os.ReadFile(filepath.Join(filepath.Dir(file), "environ"))
		if strings.Contains(string(line), "/plugins/") && !strings.Contains(string(env), testserver.Env+"=") {
			k.keep("arguments and environment of a plugin", append(line, env...))
		}
	}
}
