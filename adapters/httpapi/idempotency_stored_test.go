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

// named gives a mailbox of owner A a display name of n bytes, as a mail platform might. It returns
// the call whose answer contains that name.
func (w *world) named(t *testing.T, key string, n int) call {
	t.Helper()
	path := w.mailbox(t, w.a)
	found := ports.Found{Began: time.Now(), Mailboxes: []mailbox.Platform{{
		ObjectID: "object-aaaaaaaa.example", DisplayName: strings.Repeat("n", n), Address: "ana@aaaaaaaa.example", AccountEnabled: true,
	}}}
	if err := w.store.SaveDiscovery(t.Context(), w.a.account.ID, w.a.tenant, found); err != nil {
		t.Fatal(err)
	}
	return once(w, key, "PATCH", path, `{"daily_send_limit":5}`)
}

// TestTheLargestAnswer checks that an answer of 256 KiB is stored. A larger one is sent but not
// stored, so the same request runs again.
func TestTheLargestAnswer(t *testing.T) {
	w := newWorld(t)
	a := serve(t, w.handler(t))
	frame := len(a.expect(w.named(t, "small", 1), 200, "").raw) - 1
	for over, kept := range map[int]bool{0: true, 1: false} {
		key := map[bool]string{true: "largest", false: "too-large"}[kept]
		ask := w.named(t, key, idempotency.MaxAnswer-frame+over)
		first := a.expect(ask, 200, "")
		if len(first.raw) != idempotency.MaxAnswer+over {
			t.Fatalf("%s: an answer of %d bytes", key, len(first.raw))
		}
		second := a.expect(ask, 200, "")
		if replayed := second.header.Get("Idempotency-Replayed") == "true"; replayed != kept || second.raw != first.raw {
			t.Errorf("%s: replayed is %v, the same bytes %v", key, replayed, second.raw == first.raw)
		}
		if r, found, err := w.store.Remembered(t.Context(), w.place(key)); err != nil || !found || r.Leased || (r.Answer != nil) != kept {
			t.Errorf("%s: found %v, leased %v, %d bytes, %v", key, found, r.Leased, len(r.Answer), err)
		}
	}
}

// TestALargeAnswerIsNotCommitted checks the size limit for answers that are stored with their
// change.
func TestALargeAnswerIsNotCommitted(t *testing.T) {
	w := newWorld(t)
	a := serve(t, w.handler(t))
	held, err := w.store.Tenant(t.Context(), w.a.account.ID, w.a.tenant)
	if err != nil {
		t.Fatal(err)
	}
	held.Name = strings.Repeat("n", idempotency.MaxAnswer)
	if err := w.store.SaveTenant(t.Context(), w.a.account.ID, held); err != nil {
		t.Fatal(err)
	}
	a.expect(once(w, "k", "DELETE", "/v1/tenants/"+string(w.a.tenant), ""), 200, "")
	if r, _, err := w.store.Remembered(t.Context(), w.place("k")); err != nil || r.Answer != nil || r.Leased {
		t.Errorf("leased %v, %d bytes, %v", r.Leased, len(r.Answer), err)
	}
}

// withKeyset opens the keyset file again, as a new process does.
func (w *world) withKeyset(t *testing.T, path string) *api {
	t.Helper()
	keyset, err := secrets.OpenKeyset(path, true)
	if err != nil {
		t.Fatal(err)
	}
	w.options.Idempotency.Sealer, w.options.Idempotency.Prints = keyset, keyset
	return serve(t, w.handler(t))
}

// loseOldKeys leaves only the newest key in a keyset file.
func loseOldKeys(t *testing.T, path string) {
	t.Helper()
	raw, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var file struct {
		Primary uint32           `json:"primaryKeyId"`
		Keys    []map[string]any `json:"key"`
	}
	if err := json.Unmarshal(raw, &file); err != nil || len(file.Keys) < 2 {
		t.Fatalf("%d keys, %v", len(file.Keys), err)
	}
	for _, key := range file.Keys {
		if key["keyId"] == float64(file.Primary) {
			file.Keys = []map[string]any{key}
		}
	}
	if raw, err = json.Marshal(file); err == nil {
		err = os.WriteFile(path, raw, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// TestAKeysetThatChanges checks that replays survive a key rotation. When the old key is gone, the
// request cannot be compared with the first one. Then it is refused, with or without a stored
// answer, and nothing runs a second time.
func TestAKeysetThatChanges(t *testing.T) {
	w := newWorld(t)
	path := filepath.Join(t.TempDir(), "keyset.json")
	first := w.withKeyset(t, path).expect(addOnce(w, "k"), 200, "")
	w.options.Idempotency.Keys = finishing{w.store, func(idempotency.Place, []byte) error { panic("the process ends here") }}
	unanswered := once(w, "unanswered", "POST", "/v1/tenants/"+string(w.a.tenant)+"/sync", "")
	w.withKeyset(t, path).expect(unanswered, 500, "internal_error")
	w.options.Idempotency.Keys = w.store

	if _, err := secrets.Rotate(path); err != nil {
		t.Fatal(err)
	}
	rotated := w.withKeyset(t, path)
	replays(t, first, rotated.expect(addOnce(w, "k"), 200, ""))
	fresh := rotated.expect(once(w, "new", "POST", domainsOfA, `{"domain":"example.org"}`), 200, "")

	loseOldKeys(t, path)
	left := w.withKeyset(t, path)
	calls := w.platform.Calls("AddDomain") + w.platform.Calls("Profile")
	left.expect(addOnce(w, "k"), 409, "idempotency_key_conflict")
	left.expect(unanswered, 409, "idempotency_key_conflict")
	replays(t, fresh, left.expect(once(w, "new", "POST", domainsOfA, `{"domain":"example.org"}`), 200, ""))
	if again := w.platform.Calls("AddDomain") + w.platform.Calls("Profile"); again != calls {
		t.Errorf("%d calls of the platform more", again-calls)
	}
}
