// SPDX-License-Identifier: Apache-2.0

package wiring

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/tenantry/tenantry/core/panics"
	"github.com/tenantry/tenantry/plugins/wire"
)

// descriptionCache caches the descriptions of plugins. A description changes only with the version
// of its plugin.
type descriptionCache struct {
	read describeFunc // pluginhost.Host.Describe
	log  *slog.Logger

	mu      sync.Mutex // guards the fields below
	byName  map[string]wire.Description
	late    map[string]bool // the plugins that did not describe themselves within startWait
	changes int             // the number of calls of forget
}

// startWait is how long describeSoon waits for the start of a plugin. A start on a busy machine can
// take several seconds.
const startWait = 10 * time.Second

func newDescriptionCache(o providerOptions) *descriptionCache {
	c := &descriptionCache{read: o.host.Describe, log: o.log, byName: map[string]wire.Description{}, late: map[string]bool{}}
	o.host.OnChange(c.forget)
	return c
}

// forget deletes the description of a plugin whose version has changed.
func (c *descriptionCache) forget(name string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.byName, name)
	delete(c.late, name)
	c.changes++
}

// cached returns the description of a plugin that has described itself.
func (c *descriptionCache) cached(name string) (wire.Description, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	description, ok := c.byName[name]
	return description, ok
}

// describe returns the description of a plugin. It starts a plugin that has not described itself
// yet. If a plugin changed meanwhile, describe does not cache the description, because it may
// describe the replaced version.
func (c *descriptionCache) describe(ctx context.Context, name string) (wire.Description, error) {
	c.mu.Lock()
	description, ok := c.byName[name]
	changes := c.changes
	c.mu.Unlock()
	if ok {
		return description, nil
	}
	description, err := c.read(ctx, name)
	if err != nil {
		return wire.Description{}, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.changes == changes {
		c.byName[name] = description
	}
	return description, nil
}

// describeSoon is like describe, but waits at most startWait for the start of the plugin. If a
// start takes longer, later calls do not wait. They make the host start the plugin, and fail until
// the plugin has described itself.
func (c *descriptionCache) describeSoon(ctx context.Context, name string) (wire.Description, error) {
	waitCtx, cancel := context.WithTimeout(ctx, c.waitFor(name))
	defer cancel()
	description, err := c.describe(waitCtx, name)
	if err != nil && waitCtx.Err() != nil && ctx.Err() == nil {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.late[name] = true
	}
	return description, err
}

// waitFor returns how long describeSoon waits for the start of a plugin.
func (c *descriptionCache) waitFor(name string) time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.late[name] {
		return 0
	}
	return startWait
}

// describeAll returns the descriptions of plugins in the order of names. A plugin that describeSoon
// cannot describe is logged, and its name is in undescribed.
func (c *descriptionCache) describeAll(ctx context.Context, names []string) (described []wire.Description, undescribed []string) {
	descriptions := make([]wire.Description, len(names))
	errs := make([]error, len(names))
	var plugins panics.Group
	for i, name := range names {
		if description, ok := c.cached(name); ok {
			descriptions[i] = description
			continue
		}
		plugins.Go(func() { descriptions[i], errs[i] = c.describeSoon(ctx, name) })
	}
	plugins.Wait()
	for i, name := range names {
		if errs[i] != nil {
			c.log.WarnContext(ctx, "the plugin of a provider returned no description", "provider", name, "error", errs[i])
			undescribed = append(undescribed, name)
			continue
		}
		described = append(described, descriptions[i])
	}
	return described, undescribed
}
