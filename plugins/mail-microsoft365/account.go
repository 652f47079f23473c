// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"net/http"

	"github.com/tenantry/tenantry/core/fault"
	"github.com/tenantry/tenantry/core/secret"
	"github.com/tenantry/tenantry/plugins/mail-microsoft365/call"
	"github.com/tenantry/tenantry/plugins/mail-microsoft365/graph"
)

type account struct {
	Principal string `json:"userPrincipalName"`
}

type passwordProfile struct {
	Password     string `json:"password"`
	ForceNext    bool   `json:"forceChangePasswordNextSignIn"`
	ForceNextMFA bool   `json:"forceChangePasswordNextSignInWithMfa"`
}

type accountPatch struct {
	Enabled   bool            `json:"accountEnabled"`
	Principal string          `json:"userPrincipalName,omitempty"`
	Password  passwordProfile `json:"passwordProfile"`
	Policies  string          `json:"passwordPolicies"`
}

// OpenSignIn implements sdk.MailTenant. It names the account by its object id:
// the sign-in name is what it is about to change.
func (c *client) OpenSignIn(ctx context.Context, objectID, address string, password secret.Text) error {
	ctx, cancel := call.WithDeadline(ctx)
	defer cancel()
	if objectID == "" {
		objectID = address
	}
	path := graph.At("/users/%s", objectID)
	found, err := graph.Get[account](ctx, c.graph, path, graph.Query("$select", "id,userPrincipalName"))
	if err != nil {
		return unseenAccount(err)
	}
	patch := accountPatch{
		Enabled: true, Password: passwordProfile{Password: password.Reveal()}, Policies: "DisablePasswordExpiration",
	}
	if !equalFold(found.Principal, address) {
		patch.Principal = address
	}
	_, err = graph.Write[struct{}](ctx, c.graph, call.Repeatable, http.MethodPatch, path, patch)
	switch {
	case graph.Status(err) == http.StatusBadRequest && graph.Says(err, "password"):
		return call.Refuse(fault.WeakPassword, "the mail platform does not take this password", call.CauseOf(err))
	case graph.Status(err) == http.StatusBadRequest && graph.Says(err, "userprincipalname", "conflicting object"),
		graph.Status(err) == http.StatusConflict:
		return call.Refuse(fault.InvalidMailboxEmail, "another account of the tenant signs in with the address", call.CauseOf(err))
	default:
		return unseenAccount(err)
	}
}

// unseenAccount reads a 404: Exchange makes accounts, and Graph shows them
// seconds to minutes later.
func unseenAccount(err error) error {
	if graph.Status(err) == http.StatusNotFound {
		return call.NotReady("the directory does not show the mailbox's account yet", call.CauseOf(err))
	}
	return err
}
