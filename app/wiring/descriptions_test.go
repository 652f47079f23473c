// SPDX-License-Identifier: Apache-2.0

package wiring

import (
	"context"
	"log/slog"
	"testing"

	"github.com/tenantry/tenantry/plugins/wire"
)

// TestDescriptionThatChangesDuringItsReadIsNotCached upgrades a plugin after its description was
// read and before the description is returned. The next call must read the new description.
// describeAll must not omit the plugin.
func TestDescriptionThatChangesDuringItsReadIsNotCached(t *testing.T) {
	version := "1"
	cache := &descriptionCache{log: slog.New(slog.DiscardHandler), byName: map[string]wire.Description{}}
	cache.read = func(_ context.Context, name string) (wire.Description, error) {
		read := wire.Description{Name: name, Version: version}
		if version == "1" {
			version = "2"
			cache.forget(name)
		}
		return read, nil
	}
	if described := cache.describeAll(t.Context(), []string{"cloudflare"}); len(described) != 1 {
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
