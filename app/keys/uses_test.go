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

// useRecorder is a ports.KeyUses that records the calls of SaveKeyUses. If err is set, the calls
// fail with err.
type useRecorder struct {
	mu    sync.Mutex
	calls []map[string]time.Time
	err   error
}

func (s *useRecorder) saved() []map[string]time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.calls
}

func (s *useRecorder) SaveKeyUses(_ context.Context, lastUsed map[string]time.Time) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.calls = append(s.calls, maps.Clone(lastUsed))
	return s.err
}

// oneCaller is a store of keys that returns the same caller for each key.
type oneCaller struct{ ports.Keys }

func (oneCaller) Caller(context.Context, [32]byte) (access.Caller, error) {
	return access.Caller{KeyID: "the key"}, nil
}

// serviceWithUses returns a service that saves the uses of keys in store, and a valid key.
func serviceWithUses(t *testing.T, store *useRecorder) (*keys.Service, secret.Text) {
	t.Helper()
	_, key, err := access.NewKey(rand.Reader, "tny", access.Live, "", "", now())
	apptest.Must(t, err)
	uses := &keys.Uses{Store: store, Log: slog.New(slog.DiscardHandler)}
	return &keys.Service{Keys: oneCaller{}, Prefix: "tny", Now: now, Uses: uses}, key
}

// TestUsesAreStoredOncePerMinute authenticates 50 requests in one minute. The requests write no
// uses themselves. The minute with requests causes one write, and the next minutes cause no write.
func TestUsesAreStoredOncePerMinute(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store, clock := &useRecorder{}, now()
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
			t.Fatalf("the requests wrote %v, want no write before the end of the minute", calls)
		}
		time.Sleep(3 * time.Minute)
		synctest.Wait()
		calls, want := store.saved(), map[string]time.Time{"the key": now()} // uses are stored in whole minutes
		if len(calls) != 1 || !maps.Equal(calls[0], want) {
			t.Fatalf("three minutes caused the writes %v, want one write of %v", calls, want)
		}
	})
}

// TestUsesAreKeptIfTheStoreFails checks that the next Save stores the uses, and that a third Save
// writes nothing.
func TestUsesAreKeptIfTheStoreFails(t *testing.T) {
	store := &useRecorder{err: errors.New("the database is away")}
	service, key := serviceWithUses(t, store)
	if _, err := service.Authenticate(t.Context(), bearer(key), anyAddress); err != nil {
		t.Fatal(err)
	}
	if err := service.Uses.Save(t.Context()); err == nil {
		t.Fatal("Save returned no error, want the error of the store")
	}
	store.err = nil
	for range 2 {
		apptest.Must(t, service.Uses.Save(t.Context()))
	}
	want := map[string]time.Time{"the key": now()}
	if len(store.calls) != 2 || !maps.Equal(store.calls[0], want) || !maps.Equal(store.calls[1], want) {
		t.Errorf("Save wrote %v, want a failed and a successful write of %v", store.calls, want)
	}
}

// TestRenewedAndRevokedKeysShowTheirLastUse checks that the answers of RenewSecret and Revoke show
// a use that is not stored yet.
func TestRenewedAndRevokedKeysShowTheirLastUse(t *testing.T) {
	service, _, key := newService(t)
	service.Uses = &keys.Uses{Store: &useRecorder{}, Log: slog.New(slog.DiscardHandler)}
	caller, err := service.Authenticate(t.Context(), bearer(key), anyAddress)
	apptest.Must(t, err)
	renewed, err := service.RenewSecret(t.Context(), caller, caller.KeyID, time.Hour, nil)
	apptest.Must(t, err)
	revoked, err := service.Revoke(t.Context(), caller, caller.KeyID, nil)
	apptest.Must(t, err)
	if want := now(); !renewed.LastUsedAt.Equal(want) || !revoked.LastUsedAt.Equal(want) {
		t.Errorf("RenewSecret and Revoke return the last use %s and %s, want %s", renewed.LastUsedAt, revoked.LastUsedAt, want)
	}
}
