// SPDX-License-Identifier: Apache-2.0

package keys_test

import (
	"crypto/rand"
	"errors"
	"net/netip"
	"strings"
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

// newService returns a service, the account ann@example.com, and a trial key of this account. The
// store also has the account bob@example.com.
func newService(t *testing.T) (*keys.Service, access.Account, secret.Text) {
	t.Helper()
	store := apptest.NewStore(t)
	account, err := store.CreateAccount(t.Context(), "ann@example.com", "complete", 0, now())
	apptest.Must(t, err)
	if _, err := store.CreateAccount(t.Context(), "bob@example.com", "complete", 0, now()); err != nil {
		t.Fatal(err)
	}
	storedKey, key, err := access.NewKey(rand.Reader, "tny", access.Trial, account.ID, "deployment", now())
	apptest.Must(t, err)
	apptest.Must(t, store.AddKey(t.Context(), storedKey))
	return &keys.Service{Keys: store, AccountKeys: store, Prefix: "tny", Random: rand.Reader, Now: now}, account, key
}

// bearer returns the Authorization headers of a request with the given key.
func bearer(key secret.Text) []string { return []string{"Bearer " + key.Reveal()} }

func TestAuthenticateFindsTheCallerOfTheKey(t *testing.T) {
	service, account, key := newService(t)
	_, unknownKey, err := access.NewKey(rand.Reader, "tny", access.Live, account.ID, "", now())
	apptest.Must(t, err)
	for _, tc := range []struct {
		name    string
		headers []string
		want    error
	}{
		{"the key of the account", bearer(key), nil},
		{"no header", nil, fault.InvalidAuthHeader},
		{"no key", []string{"Bearer "}, fault.MissingAPIKey},
		{"a malformed key", []string{"Bearer tny_live_1"}, fault.InvalidAPIKey},
		{"an unknown key", bearer(unknownKey), fault.InvalidAPIKey},
	} {
		t.Run(tc.name, func(t *testing.T) {
			caller, err := service.Authenticate(t.Context(), tc.headers, anyAddress)
			if !errors.Is(err, tc.want) || tc.want == nil && caller.Account.ID != account.ID {
				t.Fatalf("got the caller %+v and the error %v, want the account %s or the error %v", caller, err, account.ID, tc.want)
			}
		})
	}
}

func TestMalformedAndUnknownKeysGetOneAnswer(t *testing.T) {
	service, _, key := newService(t)
	malformedKey := secret.New(key.Reveal()[:len(key.Reveal())-1] + "x")
	_, malformedErr := service.Authenticate(t.Context(), bearer(malformedKey), anyAddress)
	changedDigit := "0"
	if strings.HasSuffix(key.Reveal(), changedDigit) {
		changedDigit = "1"
	}
	unknownKey := secret.New(key.Reveal()[:len(key.Reveal())-1] + changedDigit)
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
		t.Fatalf("the new key has the form %q, %v, want live", form, err)
	}
	if rotated.Hint != access.KeyHint(rotated.Secret) || !rotated.RotatedAt.Equal(now()) {
		t.Fatalf("got the hint %q and the time %s, want %q and %s", rotated.Hint, rotated.RotatedAt, access.KeyHint(rotated.Secret), now())
	}
	if callerOfNewKey, err := service.Authenticate(t.Context(), bearer(rotated.Secret), anyAddress); err != nil || callerOfNewKey.Account.ID != account.ID {
		t.Fatalf("the new key has the caller %+v, %v, want the account %s", callerOfNewKey, err, account.ID)
	}
	if _, err := service.Authenticate(t.Context(), bearer(key), anyAddress); !errors.Is(err, fault.InvalidAPIKey) {
		t.Fatalf("the old key: got %v, want invalid_api_key", err)
	}
	stored, err := service.Keys.(*bunstore.Store).IssuedKeys(t.Context(), account.ID)
	if err != nil || len(stored) != 2 || stored[0].Name != "deployment" || stored[1].Name != "deployment" {
		t.Fatalf("the store has the keys %+v, %v, want the old and the new key with the same name", stored, err)
	}
}

// TestRenewedSecretOfATrialKeyIsLive checks the form of the new secret, and the forms in the answer
// and in the store.
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
		t.Errorf("the key after the refused rotations: got %v, want no error", err)
	}
}

func TestOnlyOneOfConcurrentRotationsSucceeds(t *testing.T) {
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
			t.Errorf("a failed rotation returned %v, want invalid_api_key", err)
		}
	}
	if succeeded != 1 {
		t.Fatalf("%d rotations succeeded, want 1", succeeded)
	}
}

// TestMigrationsStoreThePlans checks that the plans in the database equal access.Plans.
func TestMigrationsStoreThePlans(t *testing.T) {
	service, _, _ := newService(t)
	store := service.Keys.(*bunstore.Store)
	for _, plan := range access.Plans() {
		account, err := store.CreateAccount(t.Context(), plan.Name+"@example.com", plan.Name, 0, now())
		if err != nil || account.Plan != plan || account.CheckActive() != nil {
			t.Errorf("got the account %+v, %v, want an active account with the plan %+v", account, err, plan)
		}
	}
}
