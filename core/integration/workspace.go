// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"slices"

	"github.com/tenantry/tenantry/core/fault"
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

// Current returns the stored workspace of an integration as the platform reports it now. It fails
// with provider_credential_rejected if the credential no longer has access to the workspace, or if
// its calls may use a different workspace. It then returns the stored workspace.
func (r Reach) Current(stored Workspace) (Workspace, error) {
	index := slices.IndexFunc(r.Workspaces, func(w Workspace) bool { return w.ID == stored.ID })
	switch {
	case r.SelectedWorkspaceOnly && len(r.Workspaces) > 1: // Choose refuses the credential, too
		return stored, fault.CredentialRejected.With("the credential works in the workspace that is currently selected at the platform, and has access to several workspaces")
	case index >= 0:
		return r.Workspaces[index], nil
	case len(r.Workspaces) == 1 && stored.ID == "":
		return r.Workspaces[0], nil // the platform named no workspace before
	case len(r.Workspaces) == 1 && r.Workspaces[0].ID == "":
		return stored, nil // the platform offers no choice of workspaces
	default:
		return stored, fault.CredentialRejected.With("the credential no longer has access to the workspace")
	}
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
