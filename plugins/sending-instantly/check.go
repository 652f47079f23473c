// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"net/http"

	"github.com/tenantry/tenantry/plugins/sdk"
)

// Check implements sdk.SendingPlatform. If the key does not have the scope workspaces:read, Check
// uses the workspace of an account.
func (p *platform) Check(ctx context.Context) (sdk.Reach, error) {
	var w struct{ ID, Name string }
	err := p.call(ctx, http.MethodGet, "/workspaces/current", &w)
	switch {
	case lacksScope(err):
		w.ID, err = p.workspaceOfAccounts(ctx)
	case err == nil && w.ID == "":
		err = sdk.BrokenAnswer("workspace_without_id")
	}
	if err != nil {
		return sdk.Reach{}, asOutcome(err)
	}
	return sdk.Reach{Workspaces: []sdk.Workspace{{ID: w.ID, Name: w.Name}}}, nil
}

// workspaceOfAccounts returns the workspace of the first account. Without an account it returns "",
// or fails if the connection has the setting workspace_id, because it cannot check that setting.
func (p *platform) workspaceOfAccounts(ctx context.Context) (string, error) {
	var listed accountPage
	if err := p.call(ctx, http.MethodGet, "/accounts?limit=1", &listed); err != nil {
		return "", err
	}
	switch {
	case listed.Items == nil:
		return "", sdk.BrokenAnswer("listing_without_items")
	case len(listed.Items) > 0:
		return listed.Items[0].Organization, nil
	case p.workspace != "":
		return "", sdk.NotServed("workspace_id", "the key cannot read its workspace: leave workspace_id out, or give the key the scope workspaces:read")
	default:
		return "", nil
	}
}
