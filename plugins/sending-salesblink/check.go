// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"encoding/json"
	"net/http"
	"net/url"

	"github.com/tenantry/tenantry/plugins/sdk"
)

// Check implements sdk.SendingPlatform. Only the key of a user with the role owner may list the
// workspaces. Any other key is valid if it can list senders. The calls with such a key use the
// workspace of the connection. Without a workspace they use the default workspace of the key.
func (p *platform) Check(ctx context.Context) (sdk.Reach, error) {
	data, err := p.call(ctx, http.MethodGet, "/workspaces", nil)
	if err == nil {
		return decodeWorkspaces(data)
	}
	if !isForbidden(err) {
		return sdk.Reach{}, err
	}
	if data, err = p.call(ctx, http.MethodGet, "/senders", url.Values{"limit": {"1"}}); err != nil {
		return sdk.Reach{}, err
	}
	if _, err = decodeSenders(data); err != nil {
		return sdk.Reach{}, err
	}
	return sdk.Reach{Workspaces: []sdk.Workspace{{ID: p.workspace}}}, nil
}

// decodeWorkspaces decodes an array of workspaces, or an object with this array.
func decodeWorkspaces(data json.RawMessage) (sdk.Reach, error) {
	var list []json.RawMessage
	if json.Unmarshal(data, &list) != nil || list == nil {
		var object members
		_ = json.Unmarshal(data, &object) // object stays empty for other JSON types, and then list finds nothing
		isList := false
		if list, isList = object.list(workspaceLists); !isList {
			return sdk.Reach{}, sdk.BrokenAnswer("no_workspaces")
		}
	}
	var reach sdk.Reach
	for _, raw := range list {
		var workspace members
		_ = json.Unmarshal(raw, &workspace) // workspace stays empty for other JSON types, and then text finds no id
		id := workspace.text(workspaceIDs)
		if id == "" {
			return sdk.Reach{}, sdk.BrokenAnswer("workspace_without_id")
		}
		reach.Workspaces = append(reach.Workspaces, sdk.Workspace{ID: id, Name: workspace.text(workspaceNames)})
	}
	return reach, nil
}
