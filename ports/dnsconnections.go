// SPDX-License-Identifier: Apache-2.0

package ports

import (
	"context"

	"github.com/tenantry/tenantry/core/access"
	"github.com/tenantry/tenantry/core/dns"
	"github.com/tenantry/tenantry/core/dnsconnection"
)

// DNSConnections stores how accounts reach DNS providers. Credentials go in
// sealed, bound to the connection's id. Changes that operators make are
// recorded as ports.Audit says.
type DNSConnections interface {
	// AddDNSConnection stores a new connection and its sealed credential.
	// Refusals: account_not_found, account_closed.
	AddDNSConnection(ctx context.Context, c dnsconnection.Connection, credential []byte) error
	// DNSConnections lists an account's connections, or all when owner is
	// empty, oldest first.
	DNSConnections(ctx context.Context, owner access.AccountID) ([]dnsconnection.Connection, error)
	// DNSConnection finds one of the account's connections, or of any when
	// owner is empty, with its sealed credential. Refusal:
	// dns_connection_not_found.
	DNSConnection(ctx context.Context, owner access.AccountID, id string) (dnsconnection.Connection, []byte, error)
	// SaveDNSConnectionTest stores Status, ZonesVisible and TestedAt.
	// Refusal: dns_connection_not_found.
	SaveDNSConnectionTest(ctx context.Context, c dnsconnection.Connection) error
	// RemoveDNSConnection deletes a connection and its credential for good.
	// Refusal: dns_connection_not_found.
	RemoveDNSConnection(ctx context.Context, id string) (dnsconnection.Connection, error)
}

// DNSWrites remembers what this service wrote into zones, so that it can tell
// its own records from other people's.
type DNSWrites interface {
	// Written lists what was written for a domain of the account, as the
	// last write of each purpose and value, oldest first. Nothing tells that
	// it is still there. For a domain that is not the account's it is empty.
	Written(ctx context.Context, owner access.AccountID, domainID string) ([]dns.Written, error)
	// SaveWritten adds to that, before or after the write itself: a record that
	// is there though its write's answer got lost is known as well. Refusal:
	// domain_not_found.
	SaveWritten(ctx context.Context, owner access.AccountID, domainID string, written []dns.Written) error
}
