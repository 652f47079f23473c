// SPDX-License-Identifier: Apache-2.0

package ports

import (
	"context"

	"github.com/tenantry/tenantry/core/access"
	"github.com/tenantry/tenantry/core/dnsconnection"
)

// DNSConnections stores the connections of accounts to DNS providers. Credentials are encrypted and
// bound to the connection's id. Added and removed connections are recorded in the audit log, as
// described at Audit.
type DNSConnections interface {
	// AddDNSConnection stores a new connection and its sealed credential. It fails with
	// account_not_found or account_closed.
	AddDNSConnection(ctx context.Context, c dnsconnection.Connection, credential []byte) error
	// DNSConnections lists an account's connections, or those of all accounts if owner is empty,
	// oldest first.
	DNSConnections(ctx context.Context, owner access.AccountID) ([]dnsconnection.Connection, error)
	// DNSConnection returns a connection of the account, or of any account if owner is empty, with
	// its sealed credential. It fails with dns_connection_not_found.
	DNSConnection(ctx context.Context, owner access.AccountID, id string) (dnsconnection.Connection, []byte, error)
	// SaveDNSConnectionTest stores Status, ZonesVisible and TestedAt, unless the stored test is
	// newer. It fails with dns_connection_not_found.
	SaveDNSConnectionTest(ctx context.Context, c dnsconnection.Connection) error
	// RemoveDNSConnection deletes a connection and its credential. It fails with
	// dns_connection_not_found.
	RemoveDNSConnection(ctx context.Context, id string) (dnsconnection.Connection, error)
}
