// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"net/http"

	"github.com/tenantry/tenantry/plugins/sdk"
)

// Remove implements sdk.SendingPlatform. The call is a guess, so when PlusVibe
// does not say that it worked the account decides: one that is not there is
// removed.
func (p *provider) Remove(ctx context.Context, account string) error {
	if p.workspace == "" {
		return sdk.Misconfigured(fieldWorkspace, "it is missing")
	}
	a, err := p.ask(ctx, request{method: http.MethodPost, path: deletePath,
		body: map[string]string{"workspace_id": p.workspace, "email": account}})
	if err != nil {
		return err
	}
	var said struct {
		Status loose `json:"status"`
	}
	err = a.read(&said)
	switch {
	case err == nil && said.Status == "success":
		return nil
	case err != nil && !isRefusal(err):
		return err
	}
	now, err := p.Account(ctx, account)
	switch {
	case err != nil:
		return sdk.UnknownEffect("not_read_back")
	case !now.There():
		return nil
	case a.status == http.StatusNotFound, a.status == http.StatusMethodNotAllowed:
		return sdk.NotSupported(sdk.CanDisconnect)
	default:
		return sdk.RefusedBy("plusvibe not_removed")
	}
}
