// SPDX-License-Identifier: Apache-2.0

package httpapi_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/tenantry/tenantry/adapters/fake"
	"github.com/tenantry/tenantry/adapters/httpapi/guard"
	"github.com/tenantry/tenantry/adapters/telemetry"
	"github.com/tenantry/tenantry/core/access"
	"github.com/tenantry/tenantry/core/audit"
	"github.com/tenantry/tenantry/core/fault"
	"github.com/tenantry/tenantry/core/idempotency"
	"github.com/tenantry/tenantry/core/ident"
	"github.com/tenantry/tenantry/core/outcome"
	"github.com/tenantry/tenantry/ports"
)

// receivedEntry is an audit entry as callers get it.
type receivedEntry struct {
	Sequence int64
	Actor    struct{ Type, ID, Name string }
	Action   string
	TenantID string `json:"tenant_id"`
	Subject  *struct{ Type, ID string }
	Outcome  struct {
		Status int
		Code   string
	}
	RequestID string `json:"request_id"`
	ClientIP  string `json:"client_ip"`
}

func (e receivedEntry) summary() string {
	subject := "nothing"
	if e.Subject != nil {
		subject = e.Subject.Type + " " + e.Subject.ID
	}
	return strings.TrimSpace(fmt.Sprintf("%s %s: %d %s", e.Action, subject, e.Outcome.Status, e.Outcome.Code))
}

// exportedEntries returns the entries of an export, without the entries of the actions with which
// the fixture adds accounts, tenants and keys. It checks that the export is an unbroken chain.
func exportedEntries(client *apiClient, key string) (entries []receivedEntry) {
	client.t.Helper()
	got := client.expect(call{method: "GET", path: "/v1/audit/export", key: key}, 200, "")
	if _, err := audit.Verify(strings.NewReader(got.raw)); err != nil {
		client.t.Fatalf("the export is not a chain: %v\n%s", err, got.raw)
	}
	for line := range strings.Lines(got.raw) {
		var e receivedEntry
		must(client.t, json.Unmarshal([]byte(line), &e))
		if !slices.Contains([]string{"account.create", "connect.confirm", "key.create"}, e.Action) {
			entries = append(entries, e)
		}
	}
	return entries
}

func summaries(entries []receivedEntry) (lines []string) {
	for _, e := range entries {
		lines = append(lines, e.summary())
	}
	return lines
}

// requireEntries checks the summaries of the entries of account A, oldest first. See
// exportedEntries.
func requireEntries(t *testing.T, client *apiClient, env *testEnv, want ...string) {
	t.Helper()
	if got := summaries(exportedEntries(client, env.accountA.key)); !slices.Equal(got, want) {
		t.Errorf("the entries are\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// TestSuccessfulWriteGetsOneAuditEntry sends reads, replays, refused writes and writes that
// succeed. Only the writes that succeed get an entry.
func TestSuccessfulWriteGetsOneAuditEntry(t *testing.T) {
	env := newTestEnv(t)
	client := serve(t, env.handler(t))
	base := "/v1/tenants/" + string(env.accountA.tenant)
	send := func(c call, status int) reply {
		t.Helper()
		c.key = env.accountA.key
		got := client.do(c)
		if got.status != status {
			t.Fatalf("%s %s: %d, want %d\n%s", c.method, c.path, got.status, status, got.raw)
		}
		return got
	}
	send(call{method: "POST", path: base + "/sync"}, 200)
	addDomain := keyedCall(env, "one", "POST", base+"/domains", `{"domain":"Example.com"}`)
	for range 2 { // the second answer is a replay
		send(addDomain, 200)
	}
	send(keyedCall(env, "one", "POST", base+"/domains", `{"domain":"other.example"}`), 409)
	send(call{method: "POST", path: base + "/domains", body: `{"domain":"example.com"}`}, 200) // the domain exists already
	send(call{method: "POST", path: base + "/domains", body: `{"domain":"-"}`}, 400)
	send(call{method: "POST", path: base + "/domains", body: `{`}, 400)
	send(call{method: "POST", path: "/v1/tenants/" + string(env.accountB.tenant) + "/sync"}, 404)
	send(call{method: "POST", path: base + "/domains/example.com/verify"}, 400) // the request stores an observation of the domain, but is refused
	send(call{method: "POST", path: "/v1/nothing"}, 404)
	send(call{method: "GET", path: base}, 200)
	env.publishRecords(t, env.accountA, "example.com")
	send(call{method: "POST", path: base + "/domains/example.com/verify"}, 200)
	_, addedMailbox := env.addDomainAndMailbox(t, env.accountA)
	createdIDs := map[string]string{}
	for _, creation := range []struct{ name, method, path, body string }{
		{"integration", "POST", "/v1/integrations", `{"provider":"instantly","name":"Outbound","api_key":"` + exampleAPIKey + `"}`},
		{"policy", "POST", base + "/mailbox-limits", `{"daily_send_limit":5}`},
	} {
		got := send(call{method: creation.method, path: creation.path, body: creation.body}, 200)
		object, isMember := got.body[creation.name].(map[string]any)
		if !isMember {
			object = got.body
		}
		createdIDs[creation.name], _ = object["id"].(string)
	}
	send(call{method: "PATCH", path: base + "/mailboxes/" + strings.ToUpper(addedMailbox.ID), body: `{"daily_send_limit":5}`}, 200)
	send(call{method: "DELETE", path: "/v1/integrations/" + createdIDs["integration"]}, 200)
	send(call{method: "DELETE", path: base}, 200)
	rotated := send(call{method: "POST", path: "/api-key/rotate?user_email=ann@a.example", headers: map[string]string{"Idempotency-Key": ""}}, 200)
	keyID := exportedEntries(client, rotated.body["api_key"].(string))[0].Actor.ID
	env.accountA.key = rotated.body["api_key"].(string)
	requireEntries(t, client, env,
		"sync-tenant tenant "+string(env.accountA.tenant)+": 200",
		"add-domain domain example.com: 200",
		"add-domain domain example.com: 200",
		"verify-domain domain example.com: 200",
		"create-integration integration "+createdIDs["integration"]+": 200",
		"set-mailbox-limit policy "+createdIDs["policy"]+": 200",
		"update-mailbox mailbox "+addedMailbox.ID+": 200",
		"delete-integration integration "+createdIDs["integration"]+": 200",
		"delete-tenant tenant "+string(env.accountA.tenant)+": 200",
		"rotate-api-key key "+keyID+": 200",
	)
	if n, err := env.store.RecordLostWrites(t.Context(), 0, 100); err != nil || n != 0 {
		t.Errorf("%d acts have no outcome, want 0 (%v)", n, err)
	}
}

// TestAuditEntryDescribesTheRequest checks the members of the entry of a sync. It also checks that
// the listed entries form a valid chain, like the lines of the export.
func TestAuditEntryDescribesTheRequest(t *testing.T) {
	env := newTestEnv(t)
	client := serve(t, env.handler(t))
	client.expect(call{method: "POST", path: "/v1/tenants/" + strings.ToUpper(string(env.accountA.tenant)) + "/sync", key: env.accountA.key,
		headers: map[string]string{"X-Request-ID": "req-4711"}}, 200, "")
	e := exportedEntries(client, env.accountA.key)[0]
	if e.Actor.Type != "key" || e.Actor.Name != "test" || len(e.Actor.ID) != 36 || e.TenantID != string(env.accountA.tenant) ||
		e.RequestID != "req-4711" || e.ClientIP != "127.0.0.1" {
		t.Errorf("got %+v, want the key test, the tenant, req-4711 and 127.0.0.1", e)
	}
	list := client.expect(call{method: "GET", path: "/v1/audit", key: env.accountA.key}, 200, "")
	var lines []string
	for _, entry := range list.body["entries"].([]any) {
		line, err := json.Marshal(entry)
		must(t, err)
		lines = append(lines, string(line))
	}
	slices.Reverse(lines)
	verified, err := audit.Verify(strings.NewReader(strings.Join(lines, "\n")))
	if err != nil || verified.Entries != 4 || list.body["next_cursor"] != nil {
		t.Errorf("the list is %+v, want a chain of 4 entries: three of the fixture and the sync (%v)\n%s", verified, err, list.raw)
	}
}

// TestRefusalsOfKnownKeysGetAuditEntries checks reads and writes that are answered with 401 or 403.
// A request without a key or with an unknown key gets no entry.
func TestRefusalsOfKnownKeysGetAuditEntries(t *testing.T) {
	env := newTestEnv(t)
	client := serve(t, env.handler(t))
	revokedKey := env.addKey(t, env.accountA.account.ID)
	keys, err := env.store.IssuedKeys(t.Context(), env.accountA.account.ID)
	must(t, err)
	firstID, revokedID := keys[0].ID, keys[1].ID
	if _, err := env.store.RevokeKey(t.Context(), revokedID, time.Now()); err != nil {
		t.Fatal(err)
	}
	base := "/v1/tenants/" + string(env.accountA.tenant)
	for _, path := range []string{"/v1/tenants", base, "/v1/nothing", "/v1/tenants/x"} {
		client.expect(call{method: "GET", path: path, key: revokedKey}, 401, "invalid_api_key")
	}
	client.expect(call{method: "DELETE", path: base, key: revokedKey}, 401, "invalid_api_key")
	client.expect(call{method: "GET", path: base, key: "tny_live_" + strings.Repeat("0", 48)}, 401, "invalid_api_key")
	client.expect(call{method: "GET", path: base}, 401, "invalid_auth_header")
	defer env.platform.Fail(fake.Fault{Method: "AddDomain", Kind: outcome.Refused, Code: fault.AccessDenied})()
	refusedCall := keyedCall(env, "denied", "POST", base+"/domains", `{"domain":"example.com"}`)
	client.expect(refusedCall, 403, "access_denied")
	client.expect(call{method: "POST", path: "/api-key/rotate?user_email=nobody@a.example", key: env.accountA.key,
		headers: map[string]string{"Idempotency-Key": ""}}, 403, "access_denied")
	for _, e := range exportedEntries(client, env.accountA.key) {
		if e.Outcome.Status == 401 && e.Actor.ID != revokedID {
			t.Errorf("the actor of the entry %s is %s, want the revoked key %s", e.summary(), e.Actor.ID, revokedID)
		}
	}
	requireEntries(t, client, env,
		"key.revoke key "+revokedID+": 200",
		"list-tenants nothing: 401 invalid_api_key",
		"get-tenant tenant "+string(env.accountA.tenant)+": 401 invalid_api_key",
		"unknown nothing: 401 invalid_api_key",
		"get-tenant nothing: 401 invalid_api_key",
		"delete-tenant tenant "+string(env.accountA.tenant)+": 401 invalid_api_key",
		"add-domain tenant "+string(env.accountA.tenant)+": 403 access_denied",
		"rotate-api-key key "+firstID+": 403 access_denied",
	)
}

// TestReplacedSecretsGetAuditEntries checks that a refused request with a secret that was replaced
// without an overlap gets an entry, also after a further rotation of the key.
func TestReplacedSecretsGetAuditEntries(t *testing.T) {
	env := newTestEnv(t)
	client := serve(t, env.handler(t))
	key := createKey(client, env.accountA.key, `{"name":"k","scopes":["*"]}`)
	for range 2 {
		client.expect(call{method: "POST", path: "/v1/keys/" + memberText(key, "id") + "/rotate", key: env.accountA.key, body: `{"overlap_hours":0}`}, 200, "")
		client.expect(call{method: "GET", path: "/v1/me", key: memberText(key, "api_key")}, 401, "invalid_api_key")
	}
	refused := slices.DeleteFunc(exportedEntries(client, env.accountA.key), func(e receivedEntry) bool { return e.Outcome.Status != 401 })
	if len(refused) != 2 || refused[0].Actor.ID != memberText(key, "id") || refused[1].Actor.ID != memberText(key, "id") {
		t.Errorf("the refused requests have the entries %+v, want two of the key %s", refused, memberText(key, "id"))
	}
}

// TestRefusalThatNamesTheZeroUUIDKeepsTheChain checks that an account's chain stays valid after a
// refused request that names the zero UUID as the tenant. The entry of the request has no tenant.
func TestRefusalThatNamesTheZeroUUIDKeepsTheChain(t *testing.T) {
	env := newTestEnv(t)
	client := serve(t, env.handler(t))
	bounds := access.Unbounded()
	bounds.Scopes = []access.Scope{access.EventsRead}
	boundedKey := env.addBoundedKey(t, env.accountA.account.ID, bounds)
	path := "/v1/tenants/" + ident.Zero
	client.expect(call{method: "GET", path: path, key: boundedKey}, 403, "insufficient_scope")
	client.expect(call{method: "DELETE", path: path, key: boundedKey}, 403, "insufficient_scope")
	requireEntries(t, client, env, "get-tenant tenant "+ident.Zero+": 403 insufficient_scope", "delete-tenant tenant "+ident.Zero+": 403 insufficient_scope")
	for _, e := range exportedEntries(client, env.accountA.key) {
		if e.TenantID != "" {
			t.Errorf("the tenant of %s is %q, want none", e.summary(), e.TenantID)
		}
	}
}

// failingChains is an audit store whose EndAct fails for the outcomes that failsFor selects.
type failingChains struct {
	ports.AuditChains
	failsFor func(*audit.Outcome) bool
}

func (c failingChains) EndAct(ctx context.Context, o *audit.Outcome) error {
	if c.failsFor(o) {
		return errors.New("the disk is full")
	}
	return c.AuditChains.EndAct(ctx, o)
}

// TestRefusalWithoutAnEntryIsNotSent checks that a refusal is sent only if its entry could be
// stored. The answer to a successful change is sent even if its entry could not be stored: the
// transaction of the change stored the act (see ports.Act), and a background job makes the entry
// from the act.
func TestRefusalWithoutAnEntryIsNotSent(t *testing.T) {
	env := newTestEnv(t)
	env.options.Guard.Audit = failingChains{env.store, func(o *audit.Outcome) bool { return o != nil }}
	client := serve(t, env.handler(t))
	client.expect(call{method: "POST", path: "/api-key/rotate?user_email=nobody@a.example", key: env.accountA.key,
		headers: map[string]string{"Idempotency-Key": ""}}, 500, "internal_error")
	rotated := client.expect(call{method: "POST", path: "/api-key/rotate?user_email=ann@a.example", key: env.accountA.key,
		headers: map[string]string{"Idempotency-Key": ""}}, 200, "")
	env.accountA.key, _ = rotated.body["api_key"].(string)
	if n, err := env.store.RecordLostWrites(t.Context(), 0, 100); err != nil || n != 1 {
		t.Fatalf("%d acts have no outcome, want 1 (%v)", n, err)
	}
	if got := exportedEntries(client, env.accountA.key); len(got) != 1 || got[0].Outcome.Status != 0 || got[0].Outcome.Code != "outcome_unknown" {
		t.Errorf("got the entries %+v, want one with the code outcome_unknown", got)
	}
}

// TestFailedWriteGetsEntryIfItMayHaveChangedSomething checks a write that is answered with 503
// after a provider call.
func TestFailedWriteGetsEntryIfItMayHaveChangedSomething(t *testing.T) {
	env := newTestEnv(t)
	client := serve(t, env.handler(t))
	endFailure := env.platform.Fail(fake.Fault{Method: "AddDomain", Kind: outcome.Down})
	client.expect(keyedCall(env, "k", "POST", domainsOfA, `{"domain":"example.com"}`), 503, "provider_unavailable")
	endFailure()
	client.expect(keyedCall(env, "k", "POST", domainsOfA, `{"domain":"example.com"}`), 200, "")
	requireEntries(t, client, env,
		"add-domain tenant "+string(env.accountA.tenant)+": 503 provider_unavailable",
		"add-domain domain example.com: 200",
	)
}

// TestKilledWriteGetsAuditEntry simulates a crash between the change and the answer: after the
// change, the store saves neither the answer nor an audit entry. When the client repeats the
// request, the entry is stored together with the answer.
func TestKilledWriteGetsAuditEntry(t *testing.T) {
	env := newTestEnv(t)
	errKilled := errors.New("the process was killed")
	keys := &hookedKeys{Idempotency: env.store, finish: func(idempotency.KeyID) error { return errKilled }}
	env.options.Guard.Idempotency.Keys = keys
	env.options.Guard.Audit = failingChains{env.store, func(*audit.Outcome) bool { return true }}
	client := serve(t, env.handler(t))
	base := "/v1/tenants/" + string(env.accountA.tenant)
	client.expect(keyedCall(env, "k", "POST", base+"/sync", ""), 500, "internal_error")
	if got := exportedEntries(client, env.accountA.key); len(got) != 0 {
		t.Fatalf("got the entries %+v, want none", got)
	}
	keys.finish = nil
	env.expireLease(t, "k")
	client.expect(keyedCall(env, "k", "POST", base+"/sync", ""), 200, "")
	if n, err := env.store.RecordLostWrites(t.Context(), 0, 100); err != nil || n != 0 {
		t.Errorf("%d acts have no outcome, want 0 (%v)", n, err)
	}
	requireEntries(t, client, env, "sync-tenant tenant "+string(env.accountA.tenant)+": 200")
}

// TestRefusalsAreLimited checks that a key cannot fill the audit chain with refusals.
func TestRefusalsAreLimited(t *testing.T) {
	env := newTestEnv(t)
	env.options.Guard.Limits = guard.Limits{Counters: newCounters(t)}
	client := serve(t, env.handler(t))
	revokedKey := env.addKey(t, env.accountA.account.ID)
	keys, err := env.store.IssuedKeys(t.Context(), env.accountA.account.ID)
	must(t, err)
	if _, err := env.store.RevokeKey(t.Context(), keys[1].ID, time.Now()); err != nil {
		t.Fatal(err)
	}
	request := call{method: "GET", path: "/v1/tenants", key: revokedKey}
	for range 1000 {
		if got := client.do(request); got.status != 401 {
			t.Fatalf("got %d, want 401\n%s", got.status, got.raw)
		}
	}
	got := client.expect(request, 429, "rate_limit_exceeded")
	if got.header.Get("X-RateLimit-Bucket") != guard.DeniedRequests || got.header.Get("X-RateLimit-Limit") != "1000" || got.header.Get("Retry-After") == "" {
		t.Errorf("got the headers %v, want the bucket denied with the limit 1000 and a Retry-After", got.header)
	}
	if n := len(exportedEntries(client, env.accountA.key)); n != 1+1000 {
		t.Errorf("%d entries, want 1001: the revocation and 1000 refusals", n)
	}
	client.expect(call{method: "GET", path: "/v1/tenants", key: env.accountA.key}, 200, "")
}

func TestAuditIsLimitedToTheAccount(t *testing.T) {
	env := newTestEnv(t)
	client := serve(t, env.handler(t))
	client.expect(call{method: "POST", path: "/v1/tenants/" + string(env.accountB.tenant) + "/sync", key: env.accountB.key}, 200, "")
	requireEntries(t, client, env) // account A has no entries
	if got := exportedEntries(client, env.accountB.key); len(got) != 1 {
		t.Errorf("got the entries %+v, want one", got)
	}
	for _, query := range []string{"", "?tenant_id=" + string(env.accountB.tenant), "?action=sync-tenant"} {
		got := client.expect(call{method: "GET", path: "/v1/audit" + query, key: env.accountA.key}, 200, "")
		if strings.Contains(got.raw, string(env.accountB.tenant)) {
			t.Errorf("the query %q returns the tenant of account B: %s", query, got.raw)
		}
	}
}

func TestAuditIsPagedAndFiltered(t *testing.T) {
	env := newTestEnv(t)
	client := serve(t, env.handler(t))
	for range 3 {
		client.expect(call{method: "POST", path: "/v1/tenants/" + string(env.accountA.tenant) + "/sync", key: env.accountA.key}, 200, "")
	}
	list := func(query string) (sequences []int, next string) {
		t.Helper()
		got := client.expect(call{method: "GET", path: "/v1/audit?" + query, key: env.accountA.key}, 200, "")
		for _, e := range got.body["entries"].([]any) {
			sequences = append(sequences, int(e.(map[string]any)["sequence"].(float64)))
		}
		next, _ = got.body["next_cursor"].(string)
		return sequences, next
	}
	// The entries 1 to 3 are from the fixture, and 4 to 6 are the syncs.
	var listed []int
	for after := ""; ; {
		page, next := list("limit=4" + after)
		listed = append(listed, page...)
		if next == "" {
			break
		}
		after = "&after=" + next
	}
	if !slices.Equal(listed, []int{6, 5, 4, 3, 2, 1}) {
		t.Errorf("the pages list %v, want 6 to 1", listed)
	}
	for query, want := range map[string][]int{
		"actor=test&limit=100": {6, 5, 4}, "actor=operator": {3, 1}, "action=sync-tenant&limit=1": {6}, "tenant_id=x": nil,
		"tenant_id=" + strings.ToUpper(string(env.accountA.tenant)): {6, 5, 4, 2}, "from=2100-01-01T00:00:00Z": nil, "to=2000-01-01T00:00:00%2B02:00": nil,
		"from=0001-01-01T00:00:00Z": {6, 5, 4, 3, 2, 1}, "to=0001-01-01T00:00:00Z": nil, "from=9999-12-31T23:59:59-01:00": nil,
		"from=0000-01-01T00:00:00Z&to=9999-12-31T23:59:59-01:00":    {6, 5, 4, 3, 2, 1},
		"from=2000-01-01T00:00:00Z&to=2100-01-01T00:00:00Z&limit=2": {6, 5}, "unknown=1": {6, 5, 4, 3, 2, 1},
	} {
		if got, _ := list(query); !slices.Equal(got, want) {
			t.Errorf("the query %s lists %v, want %v", query, got, want)
		}
	}
	for _, query := range []string{"limit=0", "limit=101", "limit=x", "limit=01", "after=x", "after=MQ", "from=yesterday", "to=2026-11-21", "limit=1&limit=2", "action="} {
		client.expect(call{method: "GET", path: "/v1/audit?" + query, key: env.accountA.key}, 400, "invalid_request")
	}
	_, cursor := list("limit=4")
	if n, err := env.store.DropAuditEntries(t.Context(), time.Now().Add(time.Hour), 4); err != nil || n != 4 {
		t.Fatalf("%d entries were dropped, want 4 (%v)", n, err)
	}
	client.expect(call{method: "GET", path: "/v1/audit?after=" + cursor, key: env.accountA.key}, 410, "cursor_expired")
}

// addEntries adds n entries of account A.
func (env *testEnv) addEntries(t *testing.T, n int) {
	t.Helper()
	for i := range n {
		act := &ports.Act{Write: []byte(strconv.Itoa(i)), Entry: audit.Entry{ID: newID(time.Now()), Account: env.accountA.account.ID, Actor: audit.Actor{Type: audit.Key}, Action: "x"}}
		must(t, env.store.EndAct(ports.WithAct(t.Context(), act), &audit.Succeeded))
	}
}

// TestExportIsSentInParts exports 1100 entries, which are three pages.
func TestExportIsSentInParts(t *testing.T) {
	env := newTestEnv(t)
	env.addEntries(t, 1100)
	client := serve(t, env.handler(t))
	if got := exportedEntries(client, env.accountA.key); len(got) != 1100 {
		t.Errorf("%d entries were exported, want 1100", len(got))
	}
	got := client.do(call{method: "GET", path: "/v1/audit/export", key: env.accountA.key, headers: map[string]string{"Accept": "application/jsonl"}})
	if got.status != 200 || got.header.Get("Content-Type") != "application/jsonl" || got.header.Get("Content-Length") != "" || got.header.Get("Cache-Control") != "no-store" {
		t.Errorf("got %d %v, want 200 with JSON Lines, no-store and no Content-Length", got.status, got.header)
	}
	client.expect(call{method: "GET", path: "/v1/audit/export", key: env.accountA.key, headers: map[string]string{"Accept": "text/csv"}}, 406, "not_acceptable")
	client.expect(call{method: "GET", path: "/v1/audit", key: env.accountA.key, headers: map[string]string{"Accept": "application/jsonl"}}, 406, "not_acceptable")
	client.expect(call{method: "HEAD", path: "/v1/audit/export", key: env.accountA.key}, 200, "")
}

// brokenExport is an audit store that fails after the first page of an export. It calls
// panicOrReturn before it fails.
type brokenExport struct {
	ports.AuditChains
	panicOrReturn func()
}

func (c brokenExport) AuditExport(ctx context.Context, owner access.AccountID, after int64, limit int) ([]audit.Entry, error) {
	if after > 0 {
		c.panicOrReturn()
		return nil, errors.New("the database is unavailable")
	}
	return c.AuditChains.AuditExport(ctx, owner, after, limit)
}

// TestBrokenExportIsNotComplete checks that the client and the log show that an export ended early.
func TestBrokenExportIsNotComplete(t *testing.T) {
	for name, tc := range map[string]struct {
		panicOrReturn func()
		wantLog       string
	}{
		"an error": {func() {}, `"incomplete":true,"error":"the database is unavailable"`},
		"a panic":  {func() { panic("broken") }, `"incomplete":true,"error":"the operation panicked"`},
	} {
		t.Run(name, func(t *testing.T) {
			env := newTestEnv(t)
			var log bytes.Buffer
			env.options.Guard.Log = telemetry.NewLogger(&log, slog.LevelInfo)
			service := *env.options.Audit
			service.Chains = brokenExport{env.store, tc.panicOrReturn}
			env.options.Audit = &service
			server := httptest.NewServer(env.handler(t))
			defer server.Close()
			response, err := noRedirects.Do(call{method: "GET", path: "/v1/audit/export", key: env.accountA.key}.request(t, server.URL))
			must(t, err)
			defer func() { _ = response.Body.Close() }()
			var entries int
			for d := json.NewDecoder(response.Body); ; entries++ {
				var e receivedEntry
				if err = d.Decode(&e); err != nil {
					break
				}
			}
			if response.StatusCode != http.StatusOK || err.Error() != "unexpected EOF" || entries > 3 {
				t.Errorf("got %d and %d entries, then %v, want 200, at most 3 entries, then unexpected EOF", response.StatusCode, entries, err)
			}
			server.Close() // waits for the request
			if !strings.Contains(log.String(), tc.wantLog) {
				t.Errorf("the log lacks %s:\n%s", tc.wantLog, &log)
			}
		})
	}
}
