// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"net/http"

	"github.com/tenantry/tenantry/plugins/sdk"
)

type workspace struct {
	ID   text `json:"id"`
	Name text `json:"name"`
}

// user is the owner of the token. EmailBison does not document which JSON member contains the
// workspace of the token. The plugin uses the first of these members that has an id.
type user struct {
	Workspace        optionalObject[workspace] `json:"workspace"`
	CurrentWorkspace optionalObject[workspace] `json:"current_workspace"`
	Team             optionalObject[workspace] `json:"team"`
	CurrentTeam      optionalObject[workspace] `json:"current_team"`
}

func (u user) workspace() workspace {
	for _, w := range []optionalObject[workspace]{u.Workspace, u.CurrentWorkspace, u.Team, u.CurrentTeam} {
		if w.value.ID != "" {
			return w.value
		}
	}
	return workspace{}
}

// Check implements sdk.SendingPlatform. The calls with a super-admin token use the workspace that
// was last selected at the instance. A token with access to several workspaces must be a
// super-admin token, so Check sets SelectedWorkspaceOnly for it.
func (p *platform) Check(ctx context.Context) (sdk.Reach, error) {
	workspace, err := p.currentWorkspace(ctx)
	if err != nil {
		return sdk.Reach{}, asInstanceError(err)
	}
	workspaces, listed, err := p.workspaces(ctx)
	switch {
	case err != nil:
		return sdk.Reach{}, err
	case len(workspaces) > 0:
		return sdk.Reach{Workspaces: workspaces, SelectedWorkspaceOnly: len(workspaces) > 1}, nil
	case workspace.ID != "":
		return sdk.Reach{Workspaces: []sdk.Workspace{{ID: string(workspace.ID), Name: string(workspace.Name)}}}, nil
	case listed:
		return sdk.Reach{}, nil // the instance lists no workspace
	case p.expectedWorkspace != "":
		return sdk.Reach{}, sdk.NotServed("workspace_id", "the instance does not report the workspace of the token: leave workspace_id out")
	default:
		return sdk.Reach{Workspaces: []sdk.Workspace{{}}}, nil
	}
}

// currentWorkspace returns the workspace in which calls with the token act, or a workspace without
// an id if the instance does not report it.
func (p *platform) currentWorkspace(ctx context.Context) (workspace, error) {
	var answer struct {
		Data *user `json:"data"`
	}
	if err := p.call(ctx, http.MethodGet, "/users", &answer); err != nil {
		return workspace{}, err
	}
	if answer.Data == nil {
		return workspace{}, sdk.BrokenAnswer("unexpected_answer")
	}
	return answer.Data.workspace(), nil
}

// requireWorkspace refuses the credential if the token acts in a different workspace than the
// expected one. The accounts of the expected workspace would otherwise seem to be removed. Somebody
// can select a different workspace for a super-admin token at any time. An instance that does not
// report the workspace is accepted.
func (p *platform) requireWorkspace(ctx context.Context) error {
	if p.expectedWorkspace == "" {
		return nil
	}
	current, err := p.currentWorkspace(ctx)
	if err != nil {
		return asOutcome(err)
	}
	if current.ID != "" && string(current.ID) != p.expectedWorkspace {
		return sdk.CredentialRefused("emailbison workspace")
	}
	return nil
}

// workspaces returns the workspaces on the first maxPages pages of the token's list. listed is
// false if the instance answers 403 or 404, which is possible for a token of one workspace.
func (p *platform) workspaces(ctx context.Context) (found []sdk.Workspace, listed bool, err error) {
	for number := 1; number <= maxPages; number++ {
		page, hasMore, _, err := readPage[workspace](ctx, p, "/workspaces/v1.1", number, "")
		if errors.Is(err, errForbidden) || errors.Is(err, errNotFound) {
			return nil, false, nil
		}
		if err != nil {
			return nil, false, err
		}
		for _, w := range page {
			found = append(found, sdk.Workspace{ID: string(w.ID), Name: string(w.Name)})
		}
		if !hasMore {
			break
		}
	}
	return found, true, nil
}

// asInstanceError converts a 404 to a refusal of instance_url, because the host has no EmailBison
// API. For other errors it returns asOutcome(err).
func asInstanceError(err error) error {
	if errors.Is(err, errNotFound) {
		return sdk.NotServed("instance_url", "there is no EmailBison at this host")
	}
	return asOutcome(err)
}
