// SPDX-License-Identifier: Apache-2.0

package keys

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/tenantry/tenantry/ports"
)

// saveUsesEvery is how often Uses.Run stores the uses.
const saveUsesEvery = time.Minute

// Uses collects in memory when each key was last used. Run stores the times once a minute in one
// statement, so a use causes no write of its own. A process that is killed loses the uses that are
// not stored yet.
type Uses struct {
	Store ports.KeyUses
	Log   *slog.Logger

	mu      sync.Mutex
	unsaved map[string]time.Time // by key id, in whole minutes
}

func (u *Uses) record(keyID string, at time.Time) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.unsaved == nil {
		u.unsaved = map[string]time.Time{}
	}
	if minute := at.Truncate(time.Minute); minute.After(u.unsaved[keyID]) {
		u.unsaved[keyID] = minute
	}
}

// lastUse returns the last use of a key: stored, or a later use in unsaved.
func (u *Uses) lastUse(keyID string, stored time.Time) time.Time {
	u.mu.Lock()
	defer u.mu.Unlock()
	if unsaved := u.unsaved[keyID]; unsaved.After(stored) {
		return unsaved
	}
	return stored
}

// Save stores the uses since the last successful call.
func (u *Uses) Save(ctx context.Context) error {
	u.mu.Lock()
	saving := u.unsaved
	u.unsaved = nil
	u.mu.Unlock()
	if len(saving) == 0 {
		return nil
	}
	err := u.Store.SaveKeyUses(ctx, saving)
	if err != nil {
		for id, at := range saving {
			u.record(id, at)
		}
	}
	return err
}

// Run stores the uses every minute until ctx ends. It logs failures.
func (u *Uses) Run(ctx context.Context) {
	ticker := time.NewTicker(saveUsesEvery)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
			if err := u.Save(ctx); err != nil && ctx.Err() == nil {
				u.Log.WarnContext(ctx, "could not store when API keys were last used; trying again in a minute", "error", err)
			}
		}
	}
}
