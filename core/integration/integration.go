// SPDX-License-Identifier: Apache-2.0

// Package integration decides about connections of mailboxes to sending platforms: the workspace of
// a credential, the sign-in sessions, and the state of each connection.
//
// Start reading at Reconcile in reconcile.go, which applies a platform's list of accounts, and at
// the methods of Session in session.go.
//
//   - integration.go: Integration, and the check of sign-in links.
//   - workspace.go: the choice of the workspace in which a credential is used, and its check.
//   - merge.go: which of two observations of an integration counts.
//   - account.go: Account, a mail account as the platform reports it.
//   - connection.go: Connection, the state of one mailbox at one platform, and how it changes.
//   - session.go: Session, one attempt to sign a mailbox in.
//   - reconcile.go: Reconcile, its counters, and the drift that it finds.
package integration

import (
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"time"
	"unicode"

	"github.com/tenantry/tenantry/core/access"
)

// Provider is a sending platform that has a plugin.
type Provider struct {
	ID    string // id of the platform in its plugin
	Title string // display name
	// AuthHosts are the hosts that the platform's authorization URLs may use, with the port if it
	// is not 443.
	AuthHosts []string
	// RequiredFields are the names of the fields that every credential must have, such as api_key.
	RequiredFields []string
	// Capabilities are what an integration can do if its credential has all fields.
	Capabilities Capabilities
}

// Status says whether the platform accepts the integration's credential. A test or call that fails
// for a reason other than the credential does not change the status.
type Status string

// The statuses. A credential that fails its first test is not stored. Therefore only a later test
// or call can lead to Failed.
const (
	Connected Status = "connected"
	Failed    Status = "failed"
)

// Integration is an account's access to a sending platform, without the credential.
type Integration struct {
	ID        string // UUIDv7
	AccountID access.AccountID
	Provider  string // the provider's id
	Name      string // the caller's label
	Workspace Workspace
	Status    Status
	// HasError is true if the last test or refresh failed, or if the platform has rejected the
	// credential since then.
	HasError bool
	// CredentialFields lists the credential's fields that were set, from which Capabilities are
	// computed.
	CredentialFields []string
	LastTestedAt     time.Time
	// RefreshedAt is the end of the last complete listing of the integration's accounts, zero
	// before the first.
	RefreshedAt time.Time
	CreatedAt   time.Time
	UpdatedAt   time.Time
	Observed    Observed // the times that Merge compares
}

// Capabilities lists what an integration can do. This depends on the provider's plugin, the fields
// of the credential and the operator's settings.
type Capabilities struct {
	OAuth             bool // microsoft_oauth
	MailboxRefresh    bool // mailbox_refresh
	MailboxDisconnect bool // mailbox_disconnect
}

// The names of the capabilities in a plugin's description.
const (
	CanOAuth      = "microsoft_oauth"
	CanRefresh    = "mailbox_refresh"
	CanDisconnect = "mailbox_disconnect"
)

// SplitAuthHosts returns the hosts in the value of a plugin's setting auth_hosts. Commas and white
// space separate them.
func SplitAuthHosts(setting string) []string {
	return strings.FieldsFunc(setting, func(r rune) bool { return r == ',' || unicode.IsSpace(r) })
}

// IsAllowedAuthURL reports whether an authorization URL may be shown to a person. The URL must use
// https and one of the hosts. Plain http is allowed for loopback addresses, which only test systems
// configure.
func IsAllowedAuthURL(raw string, hosts []string) bool {
	u, err := url.Parse(raw)
	if err != nil || u.User != nil || u.Opaque != "" || !slices.Contains(hosts, u.Host) {
		return false
	}
	if u.Scheme == "http" {
		address, err := netip.ParseAddr(u.Hostname())
		return err == nil && address.IsLoopback()
	}
	return u.Scheme == "https"
}
