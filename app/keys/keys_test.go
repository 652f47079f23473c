// SPDX-License-Identifier: Apache-2.0

package keys_test

import (
	"crypto/rand"
	"errors"
	"net/netip"
	"sync"
	"testing"
	"time"

	"github.com/tenantry/tenantry/adapters/bunstore"
	"github.com/tenantry/tenantry/app/apptest"
	"github.com/tenantry/tenantry/app/keys"
	"github.com/tenantry/tenantry/core/access"
	"github.com/tenantry/tenantry/core/fault"
	"github.com/tenantry/tenantry/core/secret"
)

// anyAddress is the address of requests whose address does not matter.
var anyAddress = netip.MustParseAddr("127.0.0.1")

func now() time.Time { return time.Date(2026, 11, 2, 9, 0, 0, 0, time.UTC) }

// newService returns a service over an empty store, an account, and the account's key.
func newService(t *testing.T) (*keys.Service, access.Account, secret.Text) {
	t.Helper()
	store := apptest.NewStore(t)
	account, err := store.CreateAccount(t.Context(), "ann@example.com", "complete", 0, now())
	apptest.Must(t, err)
	if _, err := store.CreateAccount(t.Context(), "bob@example.com", "complete", 0, now()); err != nil {
		t.Fatal(err)
	}
	key, text, err := access.NewKey(rand.Reader, "tny", access.Trial, account.ID, "first", now())
	apptest.Must(t, err)
	apptest.Must(t, store.AddKey(t.Context(), key))
	return &keys.Service{Keys: store, AccountKeys: store, Prefix: "tny", Random: rand.Reader, Now: now}, account, text
}

// bearer returns the Authorization headers of a request with this key.
func bearer(key secret.Text) []string { return []string{"Bearer " + key.Reveal()} }

func TestAuthenticateFindsTheCallerOfTheKey(t *testing.T) {
	service, account, key := newService(t)
	_, unknownKey, err := access.NewKey(rand.Reader, "tny", access.Live, account.ID, "", now())
	apptest.Must(t, err)
	for _, tt := range []struct {
		name    string
		headers []string
		want    error
	}{
		{"the key", bearer(key), nil},
		{"no header", nil, fault.InvalidAuthHeader},
		{"no key", []string{"Bearer "}, fault.MissingAPIKey},
		{"a malformed key", []string{"Bearer tny_live_1"}, fault.InvalidAPIKey},
		{"an unknown key", bearer(unknownKey), fault.InvalidAPIKey},
	} {
		t.Run(tt.name, func(t *testing.T) {
			caller, err := service.Authenticate(t.Context(), tt.headers, anyAddress)
			if !errors.Is(err, tt.want) || tt.want == nil && caller.Account.ID != account.ID {
				t.Fatalf("got %v, %v, want the error %v", caller, err, tt.want)
			}
		})
	}
}

func TestMalformedAndUnknownKeysGetOneAnswer(t *testing.T) {
	service, _, key := newService(t)
	malformedKey := secret.New(key.Reveal()[:len(key.Reveal())-1] + "x")
	_, malformedErr := service.Authenticate(t.Context(), bearer(malformedKey), anyAddress)
	last := key.Reveal()[len(key.Reveal())-1]
	otherDigit := byte('0')
	if last == '0' {
		otherDigit = '1'
	}
	unknownKey := secret.New(key.Reveal()[:len(key.Reveal())-1] + string(otherDigit))
	_, unknownErr := service.Authenticate(t.Context(), bearer(unknownKey), anyAddress)
	if malformedErr == nil || unknownErr == nil || malformedErr.Error() != unknownErr.Error() {
		t.Fatalf("the errors of a malformed and of an unknown key differ: %v and %v", malformedErr, unknownErr)
	}
}

func TestRotateReplacesTheKey(t *testing.T) {
	service, account, key := newService(t)
	caller, err := service.Authenticate(t.Context(), bearer(key), anyAddress)
	apptest.Must(t, err)
	rotated, err := service.Rotate(t.Context(), caller, "Ann@Example.com")
	apptest.Must(t, err)
	if form, err := access.ParseKey("tny", rotated.Secret); err != nil || form != access.Live {
		t.Fatalf("the new key parses as %q, %v", form, err)
	}
	if rotated.Hint != access.KeyHint(rotated.Secret) || !rotated.RotatedAt.Equal(now()) {
		t.Fatalf("the hint or the time of the rotation is wrong: %+v", rotated)
	}
	if callerOfNewKey, err := service.Authenticate(t.Context(), bearer(rotated.Secret), anyAddress); err != nil || callerOfNewKey.Account.ID != account.ID {
		t.Fatalf("the new key: %v, %v", callerOfNewKey, err)
	}
	if _, err := service.Authenticate(t.Context(), bearer(key), anyAddress); !errors.Is(err, fault.InvalidAPIKey) {
		t.Fatalf("the old key is still valid: %v", err)
	}
	stored, err := service.Keys.(*bunstore.Store).IssuedKeys(t.Context(), account.ID)
	if err != nil || len(stored) != 2 || stored[0].Name != "first" || stored[1].Name != "first" {
		t.Fatalf("the new key lost its name: %+v, %v", stored, err)
	}
}

// TestRenewedSecretOfATrialKeyIsLive checks that the answer and the store have the form of the new
// secret.
func TestRenewedSecretOfATrialKeyIsLive(t *testing.T) {
	service, account, key := newService(t)
	caller, err := service.Authenticate(t.Context(), bearer(key), anyAddress)
	apptest.Must(t, err)
	renewed, err := service.RenewSecret(t.Context(), caller, caller.KeyID, 0, nil)
	apptest.Must(t, err)
	stored, err := service.AccountKeys.AccountKey(t.Context(), account.ID, caller.KeyID)
	apptest.Must(t, err)
	form, err := access.ParseKey("tny", renewed.Secret)
	if err != nil || form != access.Live || renewed.Form != form || stored.Form != form {
		t.Errorf("the secret has the form %q, %v, the answer has %q and the store %q; want live", form, err, renewed.Form, stored.Form)
	}
}

func TestRotateRefusesAnAddressOfAnotherAccount(t *testing.T) {
	service, _, key := newService(t)
	caller, err := service.Authenticate(t.Context(), bearer(key), anyAddress)
	apptest.Must(t, err)
	for _, address := range []string{"bob@example.com", "nobody@example.com", ""} {
		if _, err := service.Rotate(t.Context(), caller, address); !errors.Is(err, fault.AccessDenied) {
			t.Errorf("a rotation for %q: got %v, want access_denied", address, err)
		}
	}
	if _, err := service.Authenticate(t.Context(), bearer(key), anyAddress); err != nil {
		t.Errorf("the key is no longer valid: %v", err)
	}
}

func TestOneOfManyConcurrentRotationsSucceeds(t *testing.T) {
	service, _, key := newService(t)
	caller, err := service.Authenticate(t.Context(), bearer(key), anyAddress)
	apptest.Must(t, err)
	var rotations sync.WaitGroup
	errs := make([]error, 8)
	for i := range errs {
		rotations.Go(func() { _, errs[i] = service.Rotate(t.Context(), caller, "ann@example.com") })
	}
	rotations.Wait()
	succeeded := 0
	for _, err := range errs {
		switch {
		case err == nil:
			succeeded++
		case !errors.Is(err, fault.InvalidAPIKey):
			t.Errorf("a failed rotation returned %v", err)
		}
	}
	if succeeded != 1 {
		t.Fatalf("%d rotations succeeded, want 1", succeeded)
	}
}

// TestStoredPlansEqualTheRules checks that the plans that the migrations store equal access.Plans.
func TestStoredPlansEqualTheRules(t *testing.T) {
	service, _, _ := newService(t)
	store := service.Keys.(*bunstore.Store)
	for _, plan := range access.Plans() {
		account, err := store.CreateAccount(t.Context(), plan.Name+"@example.com", plan.Name, 0, now())
		if err != nil || account.Plan != plan || account.CheckActive() != nil {
			t.Errorf("%s is stored as %+v, %v", plan.Name, account, err)
		}
	}
}
