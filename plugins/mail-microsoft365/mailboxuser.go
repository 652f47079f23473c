// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"net/http"
	"slices"
	"strings"

	"github.com/tenantry/tenantry/core/fault"
	"github.com/tenantry/tenantry/core/secret"
	"github.com/tenantry/tenantry/plugins/mail-microsoft365/call"
	"github.com/tenantry/tenantry/plugins/mail-microsoft365/exchange"
	"github.com/tenantry/tenantry/plugins/mail-microsoft365/graph"
)

type account struct {
	Principal string `json:"userPrincipalName"`
}

type passwordProfile struct {
	Password       string `json:"password"`
	ForceChange    bool   `json:"forceChangePasswordNextSignIn"`
	ForceChangeMFA bool   `json:"forceChangePasswordNextSignInWithMfa"`
}

type accountPatch struct {
	Enabled   bool            `json:"accountEnabled"`
	Principal string          `json:"userPrincipalName,omitempty"`
	Password  passwordProfile `json:"passwordProfile"`
	Policies  string          `json:"passwordPolicies"`
}

// OpenSignIn implements sdk.MailTenant. It identifies the account by the object id, because
// OpenSignIn may change the sign-in name. If there is no object id, it uses the address.
func (c *tenantClient) OpenSignIn(ctx context.Context, objectID, address string, password secret.Text) error {
	ctx, cancel := call.WithDeadline(ctx)
	defer cancel()
	if objectID == "" {
		objectID = address
	}
	path := graph.PathWith("/users/%s", objectID)
	found, err := graph.Get[account](ctx, c.graph, path, graph.Query("$select", "id,userPrincipalName"))
	if err != nil {
		return accountError(err)
	}
	patch := accountPatch{
		Enabled: true, Password: passwordProfile{Password: password.Reveal()}, Policies: "DisablePasswordExpiration",
	}
	if !strings.EqualFold(found.Principal, address) {
		patch.Principal = address
	}
	_, err = graph.Write[struct{}](ctx, c.graph, call.Repeatable, http.MethodPatch, path, patch)
	switch {
	case graph.RefusesProperty(err, "PasswordProfile"),
		graph.Status(err) == http.StatusBadRequest && graph.MessageContains(err, "password complexity"):
		return call.Refuse(fault.WeakPassword, "the mail platform does not accept this password", call.CauseOf(err))
	case graph.ObjectExists(err):
		return call.Refuse(fault.InvalidMailboxEmail, "another account of the tenant signs in with the address", call.CauseOf(err))
	case graph.LostRace(err):
		return lostRaceOutcome(err)
	default:
		return accountError(err)
	}
}

// RemoveMailbox implements sdk.MailTenant. Graph deletes the mailbox with its account, and keeps
// both for 30 days. A new account never gets the object id of a deleted account. If Graph does not
// find an account, the account may be deleted, or too new for Graph to show it. RemoveMailbox then
// also checks that Exchange shows no mailbox of the account.
func (c *tenantClient) RemoveMailbox(ctx context.Context, objectID string) error {
	_, err := graph.Write[struct{}](ctx, c.graph, call.Repeatable, http.MethodDelete, graph.PathWith("/users/%s", objectID), nil)
	switch {
	case graph.Status(err) == http.StatusNotFound:
		return c.checkRemoved(ctx, objectID)
	case graph.LostRace(err):
		return lostRaceOutcome(err)
	default:
		return err
	}
}

// checkRemoved fails with NotReady while Exchange shows a mailbox of the account.
func (c *tenantClient) checkRemoved(ctx context.Context, objectID string) error {
	rows, err := exchange.Invoke[mailboxRow](ctx, c.exchange, exchange.Command{
		Effect: call.Read, Cmdlet: exchange.GetMailbox, Select: mailboxProperties,
		Parameters: map[string]any{"Identity": objectID},
	})
	switch {
	case exchange.Is(err, exchange.NotFound):
		return nil
	case err != nil:
		return err
	case slices.ContainsFunc(rows, func(r mailboxRow) bool { return strings.EqualFold(string(r.ObjectID), objectID) }):
		return call.NotReady("the mail server shows the mailbox, but the directory does not show its account")
	default:
		return nil
	}
}

// accountError returns NotReady for a 404: Exchange creates the account, and Graph shows it seconds
// to minutes later. It returns other errors unchanged.
func accountError(err error) error {
	if graph.Status(err) == http.StatusNotFound {
		return call.NotReady("the directory does not show the mailbox's account yet", call.CauseOf(err))
	}
	return err
}
