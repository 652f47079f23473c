// SPDX-License-Identifier: Apache-2.0

// Package dnsconnection defines Connection, the connection of an account to a DNS provider.
package dnsconnection

import (
	"time"

	"github.com/tenantry/tenantry/core/access"
)

// Status is the result of a connection's last test.
type Status string

// The statuses. A connection that fails its first test is not stored, so only a later test leads to
// Failed.
const (
	Connected Status = "connected"
	Failed    Status = "failed"
)

// Connection is an account's connection to a DNS provider, without the credential. An account may
// have several connections to the same provider.
type Connection struct {
	ID        string // UUIDv7
	AccountID access.AccountID
	Provider  string // the provider's id
	Name      string // label for people, may be empty
	Status    Status
	// ZonesVisible is the number of zones that the last successful test found.
	ZonesVisible int
	TestedAt     time.Time
	CreatedAt    time.Time
}
