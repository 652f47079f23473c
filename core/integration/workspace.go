// SPDX-License-Identifier: Apache-2.0

package integration

import "github.com/tenantry/tenantry/core/fault"

// Choose returns the workspace to use a credential for. given is the workspace id that the caller
// requests, empty for none. It fails with provider_credential_rejected if the credential reaches no
// workspace. It fails with the provider's workspace_required error, which lists the workspaces, if
// the choice is missing, invalid or not possible.
func (r Reach) Choose(provider, given string) (Workspace, error) {
	if len(r.Workspaces) == 0 {
		return Workspace{}, fault.CredentialRejected.With("the credential reaches no workspace")
	}
	several := len(r.Workspaces) > 1
	if several && r.Roaming {
		return Workspace{}, workspaceRequired(provider, r.Workspaces, "the credential acts in whichever of its workspaces is selected at the platform")
	}
	only := r.Workspaces[0]
	switch {
	case !several && given == "":
		return only, nil
	case !several && only.ID == "": // the platform leaves no choice and has validated given itself
		return Workspace{ID: given, Name: only.Name}, nil
	case given == "":
		return Workspace{}, workspaceRequired(provider, r.Workspaces, "the credential reaches several workspaces")
	}
	for _, w := range r.Workspaces {
		if w.ID == given {
			return w, nil
		}
	}
	return Workspace{}, workspaceRequired(provider, r.Workspaces, "the credential does not reach the workspace that is asked for")
}

// workspaceRequired returns the provider's own error code if one is published, else
// invalid_request.
func workspaceRequired(provider string, all []Workspace, why string) error {
	code, ok := fault.ByName(provider + "_workspace_required")
	if !ok {
		return &fault.Error{Code: fault.InvalidRequest, Detail: why, Shows: all,
			Fields: []fault.Field{{Location: "body.workspace_id", Message: "not a workspace that the credential reaches"}}}
	}
	return code.Showing(all, "%s", why)
}
