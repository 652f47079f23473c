// SPDX-License-Identifier: Apache-2.0

// Package integration decides about connections of mailboxes to sending platforms: the workspace of
// a credential, the sign-in sessions, and the state of each connection.
//
// Start reading at Reconcile in reconcile.go, which applies a platform's list of accounts, and at
// the methods of Session in session.go.
//
//   - integration.go: Integration, the choice of a workspace, and the check of sign-in links.
//   - merge.go: which of two observations of an integration counts.
//   - account.go: Account, a mail account as the platform reports it.
//   - connection.go: Connection, the state of one mailbox at one platform.
//   - session.go: Session, one attempt to sign a mailbox in.
//   - reconcile.go: Reconcile, its counters, and the drift that it finds.
package integration

import (
	"net/netip"
	"net/url"
	"slices"
	"time"

	"github.com/tenantry/tenantry/core/access"
	"github.com/tenantry/tenantry/core/fault"
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
	HasError  bool // the last test or refresh failed
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

// Workspace is a workspace at a sending platform. Both fields are empty if the platform has no
// workspaces or has not named one yet.
type Workspace struct {
	ID   string
	Name string
}

// Reach describes the workspaces that a valid credential can access.
type Reach struct {
	// Workspaces lists these workspaces. If the platform offers no choice, the list has one entry,
	// possibly without an id.
	Workspaces []Workspace
	// SelectedWorkspaceOnly is true for a credential that acts in the workspace that is currently
	// selected at the platform. Such a credential is refused if it has access to several
	// workspaces.
	SelectedWorkspaceOnly bool
}

// Choose returns the workspace in which a credential is used. requestedID is the workspace id that
// the caller requests, empty if the caller requests none. Choose fails with
// provider_credential_rejected if the credential has access to no workspace. It fails with the
// error of workspaceRequired, which lists the workspaces, in these cases:
//
//   - There are several workspaces, and the caller requests none.
//   - There are several workspaces, and SelectedWorkspaceOnly is true.
//   - The credential has no access to the requested workspace.
func (r Reach) Choose(provider, requestedID string) (Workspace, error) {
	if len(r.Workspaces) == 0 {
		return Workspace{}, fault.CredentialRejected.With("the credential has no access to any workspace")
	}
	several := len(r.Workspaces) > 1
	if several && r.SelectedWorkspaceOnly {
		return Workspace{}, workspaceRequired(provider, r.Workspaces, "the credential works in the workspace that is currently selected at the platform")
	}
	only := r.Workspaces[0]
	switch {
	case !several && requestedID == "":
		return only, nil
	case !several && only.ID == "": // the platform offers no choice and has validated the requested id
		return Workspace{ID: requestedID, Name: only.Name}, nil
	case requestedID == "":
		return Workspace{}, workspaceRequired(provider, r.Workspaces, "the credential has access to several workspaces")
	}
	for _, w := range r.Workspaces {
		if w.ID == requestedID {
			return w, nil
		}
	}
	return Workspace{}, workspaceRequired(provider, r.Workspaces, "the credential has no access to the requested workspace")
}

// workspaceRequired returns an error with the provider's workspace_required code. If the provider
// has no such code, the error has the code invalid_request.
func workspaceRequired(provider string, workspaces []Workspace, detail string) error {
	code, ok := fault.ByName(provider + "_workspace_required")
	if !ok {
		return &fault.Error{Code: fault.InvalidRequest, Detail: detail, Values: workspaces,
			Fields: []fault.Field{{Name: "workspace_id", Message: "not a workspace that the credential has access to"}}}
	}
	return code.WithValues(workspaces, "%s", detail)
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
