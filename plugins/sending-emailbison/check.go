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

// user is whose token it is. Which member holds the workspace is a guess: the
// first of these that is there.
type user struct {
	Workspace        loose[workspace] `json:"workspace"`
	CurrentWorkspace loose[workspace] `json:"current_workspace"`
	Team             loose[workspace] `json:"team"`
	CurrentTeam      loose[workspace] `json:"current_team"`
}

func (u user) workspace() workspace {
	for _, w := range []loose[workspace]{u.Workspace, u.CurrentWorkspace, u.Team, u.CurrentTeam} {
		if w.it.ID != "" {
			return w.it
		}
	}
	return workspace{}
}

// Check implements sdk.SendingPlatform. A token of the type super-admin acts in
// whichever workspace somebody selected last, at the instance; it is known by
// reaching several.
func (p *platform) Check(ctx context.Context) (sdk.Reach, error) {
	var who struct {
		Data *user `json:"data"`
	}
	if err := p.call(ctx, http.MethodGet, "/users", &who); err != nil {
		return sdk.Reach{}, notThere(err)
	}
	if who.Data == nil {
		return sdk.Reach{}, sdk.BrokenBy("nonsense")
	}
	all, listed, err := p.workspaces(ctx)
	switch own := who.Data.workspace(); {
	case err != nil:
		return sdk.Reach{}, err
	case len(all) > 0:
		return sdk.Reach{Workspaces: all, Roaming: len(all) > 1}, nil
	case own.ID != "":
		return sdk.Reach{Workspaces: []sdk.Workspace{{ID: string(own.ID), Name: string(own.Name)}}}, nil
	case listed:
		return sdk.Reach{}, nil // none, as the instance says
	case p.workspace != "":
		return sdk.Reach{}, sdk.Misconfigured("workspace_id", "the instance does not say which workspace the token is of: leave it out")
	default:
		return sdk.Reach{Workspaces: []sdk.Workspace{{}}}, nil
	}
}

// workspaces lists those that the token reaches. An instance may keep the list
// from tokens of one workspace, which is not listed then.
func (p *platform) workspaces(ctx context.Context) (all []sdk.Workspace, listed bool, err error) {
	for number := 1; number <= mostPages; number++ {
		found, more, _, err := read[workspace](ctx, p, "/workspaces/v1.1", number, "")
		if errors.Is(err, errDenied) || errors.Is(err, errGone) {
			return nil, false, nil
		}
		if err != nil {
			return nil, false, err
		}
		for _, w := range found {
			all = append(all, sdk.Workspace{ID: string(w.ID), Name: string(w.Name)})
		}
		if !more {
			break
		}
	}
	return all, true, nil
}

// notThere says of a host that has no such API that it is the wrong one.
func notThere(err error) error {
	if errors.Is(err, errGone) {
		return sdk.Misconfigured("instance_url", "there is no EmailBison at this host")
	}
	return settled(err)
}
