// SPDX-License-Identifier: Apache-2.0

package wiring

import (
	"context"
	"log/slog"
	"sync"

	"github.com/tenantry/tenantry/adapters/pluginhost"
	"github.com/tenantry/tenantry/core/panics"
	"github.com/tenantry/tenantry/plugins/wire"
)

// descriptionCache caches the descriptions of plugins. A description changes only when its plugin
// is upgraded.
type descriptionCache struct {
	host *pluginhost.Host
	log  *slog.Logger

	mu     sync.Mutex
	byName map[string]wire.Description
}

func newDescriptionCache(o providerOptions) *descriptionCache {
	c := &descriptionCache{host: o.host, log: o.log, byName: map[string]wire.Description{}}
	o.host.OnChange(func(name string) {
		c.mu.Lock()
		defer c.mu.Unlock()
		delete(c.byName, name)
	})
	return c
}

// cached returns the description of a plugin that has described itself.
func (c *descriptionCache) cached(name string) (wire.Description, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	description, ok := c.byName[name]
	return description, ok
}

// describe returns the description of a plugin. It starts a plugin that has not described itself
// yet.
func (c *descriptionCache) describe(ctx context.Context, name string) (wire.Description, error) {
	if description, ok := c.cached(name); ok {
		return description, nil
	}
	description, err := c.host.Describe(ctx, name)
	if err != nil {
		return wire.Description{}, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.byName[name] = description
	return description, nil
}

// describeAll returns the descriptions of plugins in the order of names. A plugin that fails to
// start is logged and left out.
func (c *descriptionCache) describeAll(ctx context.Context, names []string) []wire.Description {
	var plugins panics.Group
	for _, name := range names {
		if _, ok := c.cached(name); ok {
			continue
		}
		plugins.Go(func() {
			if _, err := c.describe(ctx, name); err != nil {
				c.log.WarnContext(ctx, "the plugin of a provider returned no description", "provider", name, "error", err)
			}
		})
	}
	plugins.Wait()
	var described []wire.Description
	for _, name := range names {
		if description, ok := c.cached(name); ok {
			described = append(described, description)
		}
	}
	return described
}
