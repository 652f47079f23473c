// SPDX-License-Identifier: Apache-2.0

package dnsresolver

import (
	"sync"
	"time"
)

// Delegations change rarely and finding one costs round trips, so they are
// remembered for a while. Mail records never are.
const (
	rememberFor = 5 * time.Minute
	rememberMax = 4096
)

// delegations remembers zones by the domain they were found for. It follows
// the machine's clock: what a sandbox does to days does not matter here.
type delegations struct {
	mu    sync.Mutex
	zones map[string]remembered
}

type remembered struct {
	zone  zone
	until time.Time
}

func (d *delegations) find(name string) (zone, bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	r, ok := d.zones[name]
	return r.zone, ok && time.Now().Before(r.until)
}

func (d *delegations) keep(name string, z zone) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if len(d.zones) >= rememberMax {
		d.zones = nil // rather find some again than keep a second list by age
	}
	if d.zones == nil {
		d.zones = map[string]remembered{}
	}
	d.zones[name] = remembered{z, time.Now().Add(rememberFor)}
}

func (d *delegations) forget(name string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.zones, name)
}
