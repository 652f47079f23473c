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

// Check implements sdk.SendingPlatform. Smartlead has no workspaces, and no call that returns the
// user of the key. In place of a workspace, Check returns the configured client. If no client is
// configured, it returns the user of the first account. Without accounts it returns the configured
// user, or an empty workspace.
func (p *platform) Check(ctx context.Context) (sdk.Reach, error) {
	accounts, err := p.list(ctx, 0, 1, nil)
	if err != nil {
		return sdk.Reach{}, err
	}
	var w sdk.Workspace
	switch {
	case p.configured.client != "":
		w, err = p.client(ctx)
	case len(accounts) > 0:
		w.ID, err = p.owner(ctx, string(accounts[0].ID))
	case p.configured.user != "":
		w.ID = "user:" + p.configured.user // there is no account with which the user could be checked
	}
	if err != nil {
		return sdk.Reach{}, err
	}
	return sdk.Reach{Workspaces: []sdk.Workspace{w}}, nil
}

// owner returns the user of an account in the form "user:" and a number, or "" if Smartlead does
// not have the account or does not name its user. The answer contains the password of the account,
// which owner does not decode.
func (p *platform) owner(ctx context.Context, account string) (string, error) {
	body, err := p.call(ctx, http.MethodGet, "/email-accounts/"+url.PathEscape(account)+"/", nil)
	if errors.Is(err, errNotFound) {
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
		return "", sdk.BrokenAnswer("unexpected_answer")
	}
	for _, user := range []text{doc.User, doc.Data.User} {
		if w, ok := parseWorkspace("user:" + string(user)); ok {
			return "user:" + w.user, nil
		}
	}
	return "", nil
}

// client returns the configured client. It refuses the setting workspace_id if the key has no such
// client.
func (p *platform) client(ctx context.Context) (sdk.Workspace, error) {
	body, err := p.call(ctx, http.MethodGet, "/client/", nil)
	if errors.Is(err, errNotFound) {
		body, err = []byte("[]"), nil // a user that is not an agency has no clients
	}
	if err != nil {
		return sdk.Workspace{}, err
	}
	clients, ok := decodeList[struct {
		ID   text `json:"id"`
		Name text `json:"name"`
	}](body)
	if !ok {
		return sdk.Workspace{}, sdk.BrokenAnswer("unexpected_answer")
	}
	for _, c := range clients {
		if string(c.ID) == p.configured.client {
			return sdk.Workspace{ID: string(c.ID), Name: string(c.Name)}, nil
		}
	}
	return sdk.Workspace{}, sdk.NotServed("workspace_id", "no client of this key has this number")
}
