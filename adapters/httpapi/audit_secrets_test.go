// SPDX-License-Identifier: Apache-2.0

package httpapi_test

import (
	"strings"
	"testing"
)

// TestSecretChangesGetAuditEntries changes keys and webhooks with the API key manager. Each change
// has one entry, which names this key and the changed object. The exported chain contains no
// secret.
func TestSecretChangesGetAuditEntries(t *testing.T) {
	env := newTestEnv(t)
	client := serve(t, env.handler(t))
	manager := createKey(client, env.accountA.key, `{"name":"manager","scopes":["keys:*","webhooks:*","audit:read"]}`)
	managerID, secrets := memberText(manager, "id"), []string{env.accountA.key, memberText(manager, "api_key")}
	send := func(method, path, body string) reply {
		t.Helper()
		got := client.expect(call{method: method, path: path, body: body, key: memberText(manager, "api_key")}, 200, "")
		for _, member := range []string{"api_key", "secret"} {
			if shownSecret := memberText(got, member); shownSecret != "" {
				secrets = append(secrets, shownSecret)
			}
		}
		return got
	}
	createdKeyID := memberText(send("POST", "/v1/keys", `{"name":"more","scopes":["webhooks:read"]}`), "id")
	send("POST", "/v1/keys/"+createdKeyID+"/rotate", "")
	send("DELETE", "/v1/keys/"+createdKeyID, "")
	webhookID := memberText(send("POST", "/v1/webhooks", `{"url":"https://hooks.example.test/200?token=in-the-url","event_types":["*"]}`), "id")
	webhookPath := "/v1/webhooks/" + webhookID
	send("PATCH", webhookPath, `{"status":"disabled"}`)
	send("PATCH", webhookPath, `{"status":"enabled","url":"https://hooks.example.test/204?token=in-the-url"}`)
	send("POST", webhookPath+"/rotate-secret", "")
	send("POST", webhookPath+"/test", "")
	deliveryID, _ := send("GET", webhookPath+"/deliveries", "").body["deliveries"].([]any)[0].(map[string]any)["id"].(string)
	send("POST", webhookPath+"/deliveries/"+deliveryID+"/redeliver", "")
	send("POST", webhookPath+"/replay", `{"after":"2026-01-01T00:00:00Z"}`)
	send("DELETE", webhookPath, "")
	requireEntries(t, client, env,
		"create-key key "+managerID+": 200",
		"create-key key "+createdKeyID+": 200",
		"rotate-key key "+createdKeyID+": 200",
		"revoke-key key "+createdKeyID+": 200",
		"create-webhook webhook "+webhookID+": 200",
		"update-webhook webhook "+webhookID+": 200",
		"update-webhook webhook "+webhookID+": 200",
		"rotate-webhook-secret webhook "+webhookID+": 200",
		"test-webhook webhook "+webhookID+": 200",
		"redeliver-webhook-delivery delivery "+deliveryID+": 200",
		"replay-webhook webhook "+webhookID+": 200",
		"delete-webhook webhook "+webhookID+": 200",
	)
	for _, e := range exportedEntries(client, env.accountA.key)[1:] { // the first entry is the creation of manager with a different key
		if e.Actor.Type != "key" || e.Actor.ID != managerID || e.Actor.Name != "manager" {
			t.Errorf("the actor of the entry %s is %+v, want the key manager", e.summary(), e.Actor)
		}
	}
	if len(secrets) != 6 {
		t.Fatalf("%d secrets are known, want 6: four API keys and two secrets of a webhook", len(secrets))
	}
	chain := client.expect(call{method: "GET", path: "/v1/audit/export", key: memberText(manager, "api_key")}, 200, "").raw
	for _, secret := range append(secrets, "in-the-url") {
		if secretPart := secret[strings.LastIndex(secret, "_")+1:]; strings.Contains(chain, secretPart) {
			t.Errorf("the chain contains %s", secret)
		}
	}
}
