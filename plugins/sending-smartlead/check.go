// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/url"

	"github.com/tenantry/tenantry/plugins/sdk"
)

// Check implements sdk.SendingPlatform. Smartlead has neither workspaces nor a
// call that says whose key it is, but an account says whose it is.
func (p *platform) Check(ctx context.Context) (sdk.Reach, error) {
	some, err := p.list(ctx, 0, 1, nil)
	if err != nil {
		return sdk.Reach{}, err
	}
	var w sdk.Workspace
	switch {
	case p.given.client != "":
		w, err = p.client(ctx)
	case len(some) > 0:
		w.ID, err = p.owner(ctx, string(some[0].ID))
	case p.given.user != "":
		w.ID = "user:" + p.given.user // no account is left that could say another
	}
	if err != nil {
		return sdk.Reach{}, err
	}
	return sdk.Reach{Workspaces: []sdk.Workspace{w}}, nil
}

// owner is whose account it is, empty when Smartlead does not say. The answer
// holds the account's password, of which nothing is read.
func (p *platform) owner(ctx context.Context, account string) (string, error) {
	body, err := p.call(ctx, http.MethodGet, "/email-accounts/"+url.PathEscape(account)+"/", nil)
	if errors.Is(err, errGone) {
		return "", nil
	}
	if err != nil {
		return "", err
	}
	var doc struct {
		User text `json:"user_id"`
		Data struct {
			User text `json:"user_id"`
		} `json:"data"`
	}
	if json.Unmarshal(body, &doc) != nil {
		return "", sdk.BrokenBy("nonsense")
	}
	for _, user := range []text{doc.User, doc.Data.User} {
		if w, ok := readWorkspace("user:" + string(user)); ok {
			return "user:" + w.user, nil
		}
	}
	return "", nil
}

// client finds the client of an agency that was chosen.
func (p *platform) client(ctx context.Context) (sdk.Workspace, error) {
	body, err := p.call(ctx, http.MethodGet, "/client/", nil)
	if errors.Is(err, errGone) {
		body, err = []byte("[]"), nil // no agency
	}
	if err != nil {
		return sdk.Workspace{}, err
	}
	clients, ok := list[struct {
		ID   text `json:"id"`
		Name text `json:"name"`
	}](body)
	if !ok {
		return sdk.Workspace{}, sdk.BrokenBy("nonsense")
	}
	for _, c := range clients {
		if string(c.ID) == p.given.client {
			return sdk.Workspace{ID: string(c.ID), Name: string(c.Name)}, nil
		}
	}
	return sdk.Workspace{}, sdk.Misconfigured("workspace_id", "no client of this key has this number")
}
