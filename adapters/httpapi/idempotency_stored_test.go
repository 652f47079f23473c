// SPDX-License-Identifier: Apache-2.0

package httpapi_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/tenantry/tenantry/adapters/secrets"
	"github.com/tenantry/tenantry/core/idempotency"
	"github.com/tenantry/tenantry/core/mailbox"
	"github.com/tenantry/tenantry/ports"
)

// longNameCall adds a discovered mailbox with a display name of n bytes to account A. It returns a
// call whose answer contains that name.
func (env *testEnv) longNameCall(t *testing.T, key string, n int) call {
	t.Helper()
	path := env.addMailbox(t, env.accountA)
	discovered := ports.DiscoveryResult{Began: time.Now(), Mailboxes: []mailbox.Platform{{
		ObjectID: "object-aaaaaaaa.example", DisplayName: strings.Repeat("n", n), Address: "ana@aaaaaaaa.example", AccountEnabled: true,
	}}}
	must(t, env.store.SaveDiscovery(t.Context(), env.accountA.account.ID, env.accountA.tenant, discovered))
	return keyedCall(env, key, "PATCH", path, `{"daily_send_limit":5}`)
}

// TestAnswersUpTo256KiBAreStored checks that an answer of 256 KiB is stored. A larger answer is
// sent but not stored, so the same request runs again.
func TestAnswersUpTo256KiBAreStored(t *testing.T) {
	env := newTestEnv(t)
	client := serve(t, env.handler(t))
	overhead := len(client.expect(env.longNameCall(t, "small", 1), 200, "").raw) - 1
	for excess, stored := range map[int]bool{0: true, 1: false} {
		key := map[bool]string{true: "largest", false: "too-large"}[stored]
		request := env.longNameCall(t, key, idempotency.MaxAnswer-overhead+excess)
		first := client.expect(request, 200, "")
		if len(first.raw) != idempotency.MaxAnswer+excess {
			t.Fatalf("%s: the answer has %d bytes, want %d", key, len(first.raw), idempotency.MaxAnswer+excess)
		}
		second := client.expect(request, 200, "")
		if replayed := second.header.Get("Idempotency-Replayed") == "true"; replayed != stored || second.raw != first.raw {
			t.Errorf("%s: replayed is %v, want %v; the bytes are the same: %v", key, replayed, stored, second.raw == first.raw)
		}
		if r, found, err := env.store.KeyRecord(t.Context(), env.storedKeyID(key)); err != nil || !found || r.Leased || (r.Answer != nil) != stored {
			t.Errorf("%s: found %v, leased %v, %d bytes, want a record without lease, with an answer: %v (%v)", key, found, r.Leased, len(r.Answer), stored, err)
		}
	}
}

// TestTooLargeAnswerIsNotCommitted checks the size limit for answers that are stored with their
// change.
func TestTooLargeAnswerIsNotCommitted(t *testing.T) {
	env := newTestEnv(t)
	client := serve(t, env.handler(t))
	storedTenant, err := env.store.Tenant(t.Context(), env.accountA.account.ID, env.accountA.tenant)
	must(t, err)
	storedTenant.Name = strings.Repeat("n", idempotency.MaxAnswer)
	must(t, env.store.SaveTenant(t.Context(), env.accountA.account.ID, storedTenant))
	client.expect(keyedCall(env, "k", "DELETE", "/v1/tenants/"+string(env.accountA.tenant), ""), 200, "")
	if r, _, err := env.store.KeyRecord(t.Context(), env.storedKeyID("k")); err != nil || r.Answer != nil || r.Leased {
		t.Errorf("leased is %v and the answer has %d bytes, want no lease and no answer (%v)", r.Leased, len(r.Answer), err)
	}
}

// serveWithKeyset opens the keyset file, like a new process, and returns a client of a server that
// uses the keyset.
func (env *testEnv) serveWithKeyset(t *testing.T, path string) *apiClient {
	t.Helper()
	keyset, err := secrets.OpenKeyset(path, secrets.CreateMissing)
	must(t, err)
	env.options.Guard.Idempotency.Sealer, env.options.Guard.Idempotency.Fingerprinter = keyset, keyset
	return serve(t, env.handler(t))
}

// loseOldKeys leaves only the primary key in a keyset file.
func loseOldKeys(t *testing.T, path string) {
	t.Helper()
	raw, err := os.ReadFile(path)
	must(t, err)
	var file struct {
		Primary uint32           `json:"primaryKeyId"`
		Keys    []map[string]any `json:"key"`
	}
	if err := json.Unmarshal(raw, &file); err != nil || len(file.Keys) < 2 {
		t.Fatalf("the keyset has %d keys, want at least 2 (%v)", len(file.Keys), err)
	}
	for _, key := range file.Keys {
		if key["keyId"] == float64(file.Primary) {
			file.Keys = []map[string]any{key}
		}
	}
	if raw, err = json.Marshal(file); err == nil {
		err = os.WriteFile(path, raw, 0o600)
	}
	must(t, err)
}

// TestStoredAnswersAreReplayedAfterKeyRotation checks that stored answers are still replayed after
// a rotation of the keyset. If the old key was deleted, a repeated request cannot be compared with
// the first request. The repeated request is then refused, with or without a stored answer.
func TestStoredAnswersAreReplayedAfterKeyRotation(t *testing.T) {
	env := newTestEnv(t)
	path := filepath.Join(t.TempDir(), "keyset.json")
	first := env.serveWithKeyset(t, path).expect(addDomainCall(env, "k"), 200, "")
	env.options.Guard.Idempotency.Keys = &hookedKeys{Idempotency: env.store, finish: func(idempotency.KeyID) error { panic("the process ends here") }}
	unanswered := keyedCall(env, "unanswered", "POST", "/v1/tenants/"+string(env.accountA.tenant)+"/sync", "")
	env.serveWithKeyset(t, path).expect(unanswered, 500, "internal_error")
	env.options.Guard.Idempotency.Keys = env.store

	if _, err := secrets.Rotate(path); err != nil {
		t.Fatal(err)
	}
	rotated := env.serveWithKeyset(t, path)
	checkReplay(t, first, rotated.expect(addDomainCall(env, "k"), 200, ""))
	firstAfterRotation := rotated.expect(keyedCall(env, "new", "POST", domainsOfA, `{"domain":"example.org"}`), 200, "")

	loseOldKeys(t, path)
	withoutOldKey := env.serveWithKeyset(t, path)
	calls := env.platform.Calls("AddDomain") + env.platform.Calls("Profile")
	withoutOldKey.expect(addDomainCall(env, "k"), 409, "idempotency_key_conflict")
	withoutOldKey.expect(unanswered, 409, "idempotency_key_conflict")
	checkReplay(t, firstAfterRotation, withoutOldKey.expect(keyedCall(env, "new", "POST", domainsOfA, `{"domain":"example.org"}`), 200, ""))
	if callsAfter := env.platform.Calls("AddDomain") + env.platform.Calls("Profile"); callsAfter != calls {
		t.Errorf("the platform was called %d more times, want 0", callsAfter-calls)
	}
}
