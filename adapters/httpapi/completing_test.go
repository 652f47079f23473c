// SPDX-License-Identifier: Apache-2.0

package httpapi_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/tenantry/tenantry/core/access"
	"github.com/tenantry/tenantry/core/fault"
	"github.com/tenantry/tenantry/core/idempotency"
	"github.com/tenantry/tenantry/core/tenant"
	"github.com/tenantry/tenantry/ports"
)

// finishing is a store of keys that hands on what is to be remembered.
type finishing struct {
	ports.Idempotency

	finish func(at idempotency.Place, answer []byte) error
}

func (f finishing) Finish(ctx context.Context, at idempotency.Place, attempt string, answer []byte, until time.Time) (bool, error) {
	if err := f.finish(at, answer); err != nil {
		return false, err
	}
	return f.Idempotency.Finish(ctx, at, attempt, answer, until)
}

// dies has the process end when the answer is to be stored, with every write
// whose answer is committed with its change. What was committed must have the
// bytes of the answer that was about to be given.
func (w *world) dies(t *testing.T) finishing {
	return finishing{w.store, func(at idempotency.Place, answer []byte) error {
		r, _, err := w.store.Remembered(t.Context(), at)
		if err != nil || r.Answer == nil {
			return err
		}
		sealer := w.options.Idempotency.Sealer
		committed, err := sealer.Open(r.Answer, at.String())
		given, err2 := sealer.Open(answer, at.String())
		if err != nil || err2 != nil || committed.Reveal() != given.Reveal() {
			t.Errorf("%v, %v: committed %q, given %q", err, err2, committed.Reveal(), given.Reveal())
		}
		return fault.ServiceUnavailable.With("the process ends here")
	}}
}

// TestAnAnswerIsCommittedWithItsChange: writes that find something else when
// they run a second time are answered as the first time when the process ends
// between their change and the storing of their answer.
func TestAnAnswerIsCommittedWithItsChange(t *testing.T) {
	w := newWorld(t)
	w.options.Idempotency.Keys = w.dies(t)
	a := serve(t, w.handler(t))
	base := "/v1/tenants/" + string(w.a.tenant)
	again := func(key, method, path, body, want string) {
		t.Helper()
		ask := once(w, key, method, path, body)
		a.expect(ask, 503, "service_unavailable")
		got := a.expect(ask, 200, "")
		if !strings.Contains(got.raw, want) || got.header.Get("Idempotency-Replayed") != "true" {
			t.Errorf("%s is answered %s", key, got.raw)
		}
	}
	write := func(path string) { a.expect(call{method: "POST", path: path, key: w.a.key}, 200, "") }
	write(base + "/sync")
	again("add", "POST", domainsOfA, `{"domain":"example.com"}`, `"status":"added"`)
	w.publish(t, w.a, "example.com")
	write(verifyOfA)
	again("provision", "POST", base+"/mailboxes", `{"domain":"example.com","account_password":"Correct-Horse-7",
		"mailboxes":[{"name":"<Zoë & Bo>","email":"ana@example.com"},{"name":"Bo","email":"bo@example.com"}]}`, `"created_count":2`)
	again("delete", "DELETE", base, "", `"status":"deleted"`)
	if n := w.platform.Calls("AddDomain") + w.platform.Calls("CreateMailbox"); n != 3 {
		t.Errorf("%d things were made", n)
	}
}

// robbed is a store whose changes come when another attempt has the key.
type robbed struct {
	tenantStore
	rob func()
}

func (r robbed) DeleteTenant(ctx context.Context, owner access.AccountID, id tenant.GUID) error {
	r.rob()
	return r.tenantStore.DeleteTenant(ctx, owner, id)
}

// TestAnAttemptThatLostItsKeyDeletesNothing: a deletion that was slow leaves
// it to the attempt that has the key by now.
func TestAnAttemptThatLostItsKeyDeletesNothing(t *testing.T) {
	w := newWorld(t)
	service := *w.options.Tenants
	service.Tenants = robbed{w.store, func() {
		r, _, err := w.store.Remembered(t.Context(), w.place("k"))
		if err != nil {
			t.Error(err)
		}
		if _, err := w.store.Hold(t.Context(), w.place("k"), r.Attempt, -time.Second); err != nil {
			t.Error(err)
		}
		claim := ports.Claim{Place: w.place("k"), Fingerprint: r.Fingerprint, Lease: time.Hour, Now: time.Now()}
		if _, won, err := w.store.TakeOver(t.Context(), r.Attempt, claim); err != nil || !won {
			t.Errorf("taken over: %v, %v", won, err)
		}
	}}
	w.options.Tenants = &service
	a := serve(t, w.handler(t))
	a.expect(once(w, "k", "DELETE", "/v1/tenants/"+string(w.a.tenant), ""), 409, "idempotency_request_in_progress")
	if _, err := w.store.Tenant(t.Context(), w.a.account.ID, w.a.tenant); err != nil {
		t.Errorf("the tenant is gone: %v", err)
	}
}
