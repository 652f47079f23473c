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
// sent but not stored, so a repetition of the request runs again.
func TestAnswersUpTo256KiBAreStored(t *testing.T) {
	env := newTestEnv(t)
	client := serve(t, env.handler(t))
	overhead := len(client.expect(env.longNameCall(t, "small", 1), 200, "").raw) - 1
	for _, tc := range []struct {
		key        string
		size       int
		wantStored bool
	}{{"largest", idempotency.MaxAnswer, true}, {"too-large", idempotency.MaxAnswer + 1, false}} {
		request := env.longNameCall(t, tc.key, tc.size-overhead)
		original := client.expect(request, 200, "")
		if len(original.raw) != tc.size {
			t.Fatalf("%s: the answer has %d bytes, want %d", tc.key, len(original.raw), tc.size)
		}
		repeated := client.expect(request, 200, "")
		if replayed := repeated.header.Get("Idempotency-Replayed") == "true"; replayed != tc.wantStored || repeated.raw != original.raw {
			t.Errorf("%s: replayed is %v, want %v; the same bytes: %v, want true", tc.key, replayed, tc.wantStored, repeated.raw == original.raw)
		}
		record, found, err := env.store.KeyRecord(t.Context(), env.storedKeyID(tc.key))
		if err != nil || !found || record.Leased || (record.Answer != nil) != tc.wantStored {
			t.Errorf("%s: found %v, leased %v, %d bytes, want a record without a lease, with an answer: %v (%v)", tc.key, found, record.Leased, len(record.Answer), tc.wantStored, err)
		}
	}
}

// TestTooLargeAnswerIsNotCommitted checks that an answer above the size limit is not stored in the
// transaction of its change.
func TestTooLargeAnswerIsNotCommitted(t *testing.T) {
	env := newTestEnv(t)
	client := serve(t, env.handler(t))
	storedTenant, err := env.store.Tenant(t.Context(), env.accountA.account.ID, env.accountA.tenant)
	must(t, err)
	storedTenant.Name = strings.Repeat("n", idempotency.MaxAnswer)
	must(t, env.store.SaveTenant(t.Context(), env.accountA.account.ID, storedTenant))
	client.expect(keyedCall(env, "k", "DELETE", "/v1/tenants/"+string(env.accountA.tenant), ""), 200, "")
	if record, _, err := env.store.KeyRecord(t.Context(), env.storedKeyID("k")); err != nil || record.Answer != nil || record.Leased {
		t.Errorf("leased is %v and the answer has %d bytes, want no lease and no answer (%v)", record.Leased, len(record.Answer), err)
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

// removeOldKeys leaves only the primary key in a keyset file.
func removeOldKeys(t *testing.T, path string) {
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
// the original request. The repeated request is then refused, with or without a stored answer.
func TestStoredAnswersAreReplayedAfterKeyRotation(t *testing.T) {
	env := newTestEnv(t)
	keysetPath := filepath.Join(t.TempDir(), "keyset.json")
	original := env.serveWithKeyset(t, keysetPath).expect(addDomainCall(env, "k"), 200, "")
	env.options.Guard.Idempotency.Keys = &hookedKeys{Idempotency: env.store, finish: func(idempotency.KeyID) error { panic("the process ends here") }}
	unanswered := keyedCall(env, "unanswered", "POST", "/v1/tenants/"+string(env.accountA.tenant)+"/sync", "")
	env.serveWithKeyset(t, keysetPath).expect(unanswered, 500, "internal_error")
	env.options.Guard.Idempotency.Keys = env.store

	if _, err := secrets.Rotate(keysetPath); err != nil {
		t.Fatal(err)
	}
	withNewKey := env.serveWithKeyset(t, keysetPath)
	checkReplay(t, original, withNewKey.expect(addDomainCall(env, "k"), 200, ""))
	originalAfterRotation := withNewKey.expect(keyedCall(env, "new", "POST", domainsOfA, `{"domain":"example.org"}`), 200, "")

	removeOldKeys(t, keysetPath)
	withoutOldKey := env.serveWithKeyset(t, keysetPath)
	callsBefore := env.platform.Calls("AddDomain") + env.platform.Calls("Profile")
	withoutOldKey.expect(addDomainCall(env, "k"), 409, "idempotency_key_conflict")
	withoutOldKey.expect(unanswered, 409, "idempotency_key_conflict")
	checkReplay(t, originalAfterRotation, withoutOldKey.expect(keyedCall(env, "new", "POST", domainsOfA, `{"domain":"example.org"}`), 200, ""))
	if callsAfter := env.platform.Calls("AddDomain") + env.platform.Calls("Profile"); callsAfter != callsBefore {
		t.Errorf("the platform was called %d more times, want 0", callsAfter-callsBefore)
	}
}
