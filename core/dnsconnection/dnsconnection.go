// SPDX-License-Identifier: Apache-2.0

// Package dnsconnection holds the connections of accounts to DNS providers.
package dnsconnection

import (
	"time"

	"github.com/tenantry/tenantry/core/access"
)

// Status is how a connection's last test ended.
type Status string

// The statuses. One that fails is stored only by a later test: a connection
// that fails on entry is not stored at all.
const (
	Connected Status = "connected"
	Failed    Status = "failed"
)

// Connection is an account's connection to a DNS provider, without its
// credential. An account may have several to one provider.
type Connection struct {
	ID        string // UUIDv7
	AccountID access.AccountID
	Provider  string // the provider's id, as in cloudflare
	Name      string // for people, may be empty
	Status    Status
	// ZonesVisible is how many zones the last test that succeeded saw.
	ZonesVisible int
	TestedAt     time.Time
	CreatedAt    time.Time
}
