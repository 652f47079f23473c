// SPDX-License-Identifier: Apache-2.0

package integration

import "github.com/tenantry/tenantry/core/fault"

// Choose decides which workspace a credential is used for. given is the one
// that the caller asks for, empty for none. Refusals:
// provider_credential_rejected when the credential reaches none, else the
// provider's own workspace_required, which shows []Workspace to choose from.
func (r Reach) Choose(provider, given string) (Workspace, error) {
	if len(r.Workspaces) == 0 {
		return Workspace{}, fault.CredentialRejected.With("the credential reaches no workspace")
	}
	several := len(r.Workspaces) > 1
	if several && r.Roaming {
		return Workspace{}, required(provider, r.Workspaces, "the credential acts in whichever of its workspaces is selected at the platform")
	}
	only := r.Workspaces[0]
	switch {
	case !several && given == "":
		return only, nil
	case !several && only.ID == "": // a platform without a choice; it has judged what was given itself
		return Workspace{ID: given, Name: only.Name}, nil
	case given == "":
		return Workspace{}, required(provider, r.Workspaces, "the credential reaches several workspaces")
	}
	for _, w := range r.Workspaces {
		if w.ID == given {
			return w, nil
		}
	}
	return Workspace{}, required(provider, r.Workspaces, "the credential does not reach the workspace that is asked for")
}

// required is the provider's own code where one is published.
func required(provider string, all []Workspace, why string) error {
	code, ok := fault.ByName(provider + "_workspace_required")
	if !ok {
		return &fault.Error{Code: fault.InvalidRequest, Detail: why, Shows: all,
			Fields: []fault.Field{{Location: "body.workspace_id", Message: "not a workspace that the credential reaches"}}}
	}
	return code.Showing(all, "%s", why)
}
