// SPDX-License-Identifier: Apache-2.0

package wiring

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tenantry/tenantry/core/outcome"
	"github.com/tenantry/tenantry/plugins/wire"
)

func newTestCache() *descriptionCache {
	return &descriptionCache{log: slog.New(slog.DiscardHandler), byName: map[string]wire.Description{}, late: map[string]bool{}}
}

// TestDescriptionThatChangesDuringItsReadIsNotCached upgrades a plugin after its description was
// read and before the description is returned. describeAll must still return the old description.
// The next call must read the new description.
func TestDescriptionThatChangesDuringItsReadIsNotCached(t *testing.T) {
	version := "1"
	cache := newTestCache()
	cache.read = func(_ context.Context, name string) (wire.Description, error) {
		read := wire.Description{Name: name, Version: version}
		if version == "1" {
			version = "2"
			cache.forget(name)
		}
		return read, nil
	}
	if described, _ := cache.describeAll(t.Context(), []string{"cloudflare"}); len(described) != 1 {
		t.Errorf("describeAll returned %v, want one description", described)
	}
	for range 2 {
		if description, err := cache.describe(t.Context(), "cloudflare"); err != nil || description.Version != "2" {
			t.Fatalf("got version %q, %v, want the version after the upgrade", description.Version, err)
		}
	}
	if _, ok := cache.cached("cloudflare"); !ok {
		t.Error("the new description is not cached")
	}
}

// TestPluginThatHangsAtItsStartDelaysOneRequest checks requests for the descriptions of all plugins
// while one plugin hangs at its start. Only the first request waits for the plugin, for startWait.
// Each request makes the host start the plugin. As soon as the plugin runs, a request gets its
// description. After an upgrade of the plugin, a request waits again.
func TestPluginThatHangsAtItsStartDelaysOneRequest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cache, hangs, starts := newTestCache(), true, 0
		cache.read = func(ctx context.Context, name string) (wire.Description, error) {
			if name == "hanging" && hangs {
				starts++
				<-ctx.Done()
				return wire.Description{}, &outcome.Error{Kind: outcome.Down, Cause: "plugin_starting"}
			}
			return wire.Description{Name: name}, nil
		}
		requestDescriptions := func(wantWait time.Duration, wantUndescribed ...string) {
			t.Helper()
			began := time.Now()
			described, undescribed := cache.describeAll(t.Context(), []string{"cloudflare", "hanging"})
			if !slices.Equal(undescribed, wantUndescribed) || len(described) != 2-len(wantUndescribed) || described[0].Name != "cloudflare" {
				t.Errorf("described %v and not %v, want all except %v", described, undescribed, wantUndescribed)
			}
			if took := time.Since(began); took != wantWait {
				t.Errorf("the request took %s, want %s", took, wantWait)
			}
		}
		requestDescriptions(startWait, "hanging")
		requestDescriptions(0, "hanging")
		if starts != 2 {
			t.Errorf("%d requests started the plugin, want 2", starts)
		}
		hangs = false
		requestDescriptions(0)
		cache.forget("hanging")
		hangs = true
		requestDescriptions(startWait, "hanging")
	})
}

// TestCancelledRequestDoesNotMakeAPluginLate makes a cancelled request while a plugin starts. The
// next request must still wait for the plugin.
func TestCancelledRequestDoesNotMakeAPluginLate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cache := newTestCache()
		cache.read = func(ctx context.Context, name string) (wire.Description, error) {
			select {
			case <-ctx.Done():
				return wire.Description{}, ctx.Err()
			case <-time.After(startWait / 2):
				return wire.Description{Name: name}, nil
			}
		}
		cancelled, cancel := context.WithCancel(t.Context())
		cancel()
		if _, err := cache.describeSoon(cancelled, "slow"); !errors.Is(err, context.Canceled) {
			t.Errorf("got %v, want the error of the cancelled request", err)
		}
		if _, err := cache.describeSoon(t.Context(), "slow"); err != nil {
			t.Errorf("the next request ended with %v, want a description", err)
		}
	})
}
