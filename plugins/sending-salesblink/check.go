// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"encoding/json"
	"net/http"
	"net/url"

	"github.com/tenantry/tenantry/plugins/sdk"
)

// Check implements sdk.SendingPlatform. Only owners see the workspaces; a key of
// somebody else is good when it lists senders, and acts where it was told to or
// in its own workspace.
func (p *provider) Check(ctx context.Context) (sdk.Reach, error) {
	data, err := p.ask(ctx, http.MethodGet, "/workspaces", nil)
	if err == nil {
		return workspaces(data)
	}
	if !tooLow(err) {
		return sdk.Reach{}, err
	}
	if data, err = p.ask(ctx, http.MethodGet, "/senders", url.Values{"limit": {"1"}}); err != nil {
		return sdk.Reach{}, err
	}
	if _, err = senders(data); err != nil {
		return sdk.Reach{}, err
	}
	return sdk.Reach{Workspaces: []sdk.Workspace{{ID: p.workspace}}}, nil
}

func workspaces(data json.RawMessage) (sdk.Reach, error) {
	var list []json.RawMessage
	if json.Unmarshal(data, &list) != nil || list == nil {
		var object members
		_ = json.Unmarshal(data, &object) // what is none has no list
		ok := false
		if list, ok = object.list(workspaceLists); !ok {
			return sdk.Reach{}, sdk.BrokenBy("no_workspaces")
		}
	}
	var reach sdk.Reach
	for _, raw := range list {
		var w members
		_ = json.Unmarshal(raw, &w) // what is none has no id
		id := w.text(workspaceIDs)
		if id == "" {
			return sdk.Reach{}, sdk.BrokenBy("workspace_without_id")
		}
		reach.Workspaces = append(reach.Workspaces, sdk.Workspace{ID: id, Name: w.text(workspaceNames)})
	}
	return reach, nil
}
