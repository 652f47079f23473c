// SPDX-License-Identifier: Apache-2.0

package keys_test

import (
	"context"
	"crypto/rand"
	"errors"
	"log/slog"
	"maps"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tenantry/tenantry/app/apptest"
	"github.com/tenantry/tenantry/app/keys"
	"github.com/tenantry/tenantry/core/access"
	"github.com/tenantry/tenantry/core/secret"
	"github.com/tenantry/tenantry/ports"
)

// useStore is a store that records the calls of SaveKeyUses.
type useStore struct {
	mu    sync.Mutex
	calls []map[string]time.Time
	err   error
}

func (s *useStore) saved() []map[string]time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.calls
}

func (s *useStore) SaveKeyUses(_ context.Context, lastUsed map[string]time.Time) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.calls = append(s.calls, maps.Clone(lastUsed))
	return s.err
}

// oneCaller is a store of keys in which all keys belong to the same caller.
type oneCaller struct{ ports.Keys }

func (oneCaller) Caller(context.Context, [32]byte) (access.Caller, error) {
	return access.Caller{KeyID: "the key"}, nil
}

// serviceWithUses returns a service that saves the uses of keys in store, and a key.
func serviceWithUses(t *testing.T, store *useStore) (*keys.Service, secret.Text) {
	t.Helper()
	_, key, err := access.NewKey(rand.Reader, "tny", access.Live, "", "", now())
	apptest.Must(t, err)
	uses := &keys.Uses{Store: store, Log: slog.New(slog.DiscardHandler)}
	return &keys.Service{Keys: oneCaller{}, Prefix: "tny", Now: now, Uses: uses}, key
}

// TestUsesAreStoredOncePerMinute checks that requests do not write uses themselves. A minute with
// requests causes one write, and a minute without requests causes none.
func TestUsesAreStoredOncePerMinute(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store, clock := &useStore{}, now()
		service, key := serviceWithUses(t, store)
		service.Now = func() time.Time { return clock }
		go service.Uses.Run(t.Context())
		for range 50 {
			clock = clock.Add(time.Second)
			if _, err := service.Authenticate(t.Context(), bearer(key), anyAddress); err != nil {
				t.Fatal(err)
			}
		}
		synctest.Wait()
		if calls := store.saved(); len(calls) != 0 {
			t.Fatalf("requests wrote %v", calls)
		}
		time.Sleep(3 * time.Minute)
		synctest.Wait()
		calls, want := store.saved(), map[string]time.Time{"the key": now()}
		if len(calls) != 1 || !maps.Equal(calls[0], want) {
			t.Fatalf("three minutes wrote %v, want one write of %v", calls, want)
		}
	})
}

// TestUnsavedUsesAreKept checks that a failure of the store loses no use.
func TestUnsavedUsesAreKept(t *testing.T) {
	store := &useStore{err: errors.New("away")}
	service, key := serviceWithUses(t, store)
	if _, err := service.Authenticate(t.Context(), bearer(key), anyAddress); err != nil {
		t.Fatal(err)
	}
	if err := service.Uses.Save(t.Context()); err == nil {
		t.Fatal("the failure is not returned")
	}
	store.err = nil
	for range 2 {
		apptest.Must(t, service.Uses.Save(t.Context()))
	}
	if len(store.calls) != 2 || !maps.Equal(store.calls[0], store.calls[1]) {
		t.Errorf("Save stored %v, want the same use twice", store.calls)
	}
}

// TestRenewedKeyShowsItsLastUse checks that the answers of RenewSecret and Revoke show a use that
// is not stored yet, as the list of keys does.
func TestRenewedKeyShowsItsLastUse(t *testing.T) {
	service, _, text := newService(t)
	service.Uses = &keys.Uses{Store: &useStore{}, Log: slog.New(slog.DiscardHandler)}
	caller, err := service.Authenticate(t.Context(), bearer(text), anyAddress)
	apptest.Must(t, err)
	renewed, err := service.RenewSecret(t.Context(), caller, caller.KeyID, time.Hour, nil)
	apptest.Must(t, err)
	revoked, err := service.Revoke(t.Context(), caller, caller.KeyID, nil)
	apptest.Must(t, err)
	if want := now(); !renewed.LastUsedAt.Equal(want) || !revoked.LastUsedAt.Equal(want) {
		t.Errorf("last used at %s and %s, want %s", renewed.LastUsedAt, revoked.LastUsedAt, want)
	}
}
