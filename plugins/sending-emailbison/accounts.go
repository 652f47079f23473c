// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"

	"github.com/tenantry/tenantry/plugins/sdk"
)

const (
	sendersPath = "/sender-emails"
	// maxPages is the maximum number of pages that the plugin reads when it searches for one
	// address or lists the workspaces.
	maxPages = 10
)

// account is a sender e-mail of the API, reduced to the members that the plugin reads. The plugin
// must not call …/oauth-access-token, which returns a valid token of the mailbox.
type account struct {
	ID      text `json:"id"`
	Name    text `json:"name"`
	Email   text `json:"email"`
	Status  text `json:"status"`
	Updated text `json:"updated_at"`
}

// Account implements sdk.SendingPlatform. The search matches parts of addresses, and an instance
// may ignore the search parameter. Therefore Account compares each address. It fails with Broken if
// the address is not on the first maxPages pages and more pages follow.
func (p *platform) Account(ctx context.Context, address string) (sdk.Account, error) {
	if err := p.requireWorkspace(ctx); err != nil {
		return sdk.Account{}, err
	}
	for number := 1; number <= maxPages; number++ {
		found, hasMore, _, err := p.page(ctx, number, address)
		if err != nil {
			return sdk.Account{}, err
		}
		for _, a := range found {
			if sdk.SameAddress(a.Address, address) {
				return a, nil
			}
		}
		if !hasMore {
			return sdk.Account{}, nil
		}
	}
	return sdk.Account{}, sdk.BrokenAnswer("emailbison search finds everybody")
}

// Accounts implements sdk.SendingPlatform. The cursor has the page number, and the total number of
// accounts at the time of the previous page. If the total is smaller now, an account may have moved
// to a page that was read before. Then Accounts fails with Broken. It also fails with Broken if
// more pages follow and the total is missing. It checks the workspace after the first and after the
// last page, because somebody can select a different workspace during the listing.
func (p *platform) Accounts(ctx context.Context, cursor string) (sdk.Page, error) {
	number, previousTotal := 1, 0
	if cursor != "" {
		if n, err := fmt.Sscanf(cursor, "%d:%d", &number, &previousTotal); n != 2 || err != nil || number < 1 {
			return sdk.Page{}, sdk.RequestRefused("emailbison cursor")
		}
	}
	found, hasMore, total, err := p.page(ctx, number, "")
	if err != nil {
		return sdk.Page{}, err
	}
	if hasMore && total == 0 {
		return sdk.Page{}, sdk.BrokenAnswer("unexpected_answer")
	}
	if total < previousTotal {
		return sdk.Page{}, sdk.BrokenAnswer("emailbison list moved")
	}
	if number == 1 || !hasMore {
		if err := p.requireWorkspace(ctx); err != nil {
			return sdk.Page{}, err
		}
	}
	page := sdk.Page{Accounts: found}
	if hasMore {
		page.Next = fmt.Sprintf("%d:%d", number+1, total)
	}
	return page, nil
}

// page returns the accounts of one page, whether more pages follow, and the total number of
// accounts. If search is empty, it lists all accounts.
func (p *platform) page(ctx context.Context, number int, search string) ([]sdk.Account, bool, int, error) {
	docs, hasMore, total, err := readPage[account](ctx, p, sendersPath, number, search)
	if err != nil {
		return nil, false, 0, asOutcome(err)
	}
	var found []sdk.Account
	for _, doc := range docs {
		if doc.ID == "" || doc.Email == "" {
			return nil, false, 0, sdk.BrokenAnswer("unexpected_answer")
		}
		found = append(found, doc.toAccount())
	}
	return found, hasMore, total, nil
}

func (a account) toAccount() sdk.Account {
	converted := sdk.Account{ID: string(a.ID), Address: string(a.Email), Name: string(a.Name), Stamp: string(a.Updated + " " + a.Status)}
	converted.State, converted.Reason = accountState(string(a.Status))
	converted.HasError = converted.Reason != ""
	return converted
}

// accountState returns the state of an account with this EmailBison status. For a failed account it
// also returns the reason.
func accountState(status string) (state sdk.AccountState, reason string) {
	switch words := strings.NewReplacer("_", " ", "-", " ").Replace(strings.ToLower(strings.TrimSpace(status))); words {
	case "connected":
		return sdk.AccountConnected, ""
	case "not connected", "disconnected":
		return sdk.AccountFailed, "disconnected"
	default:
		return sdk.AccountOther, ""
	}
}

// Remove implements sdk.SendingPlatform. If EmailBison has no account with this id, the account
// counts as removed.
func (p *platform) Remove(ctx context.Context, account string) error {
	if err := p.requireWorkspace(ctx); err != nil {
		return err
	}
	var answer struct {
		Success *bool `json:"success"`
		Data    optionalObject[struct {
			Success *bool `json:"success"`
		}] `json:"data"`
	}
	err := p.call(ctx, http.MethodDelete, sendersPath+"/"+url.PathEscape(account), &answer)
	if errors.Is(err, errNotFound) {
		return nil
	}
	for _, success := range []*bool{answer.Success, answer.Data.value.Success} {
		if err == nil && success != nil && !*success {
			return sdk.RequestRefused("emailbison not done")
		}
	}
	return asOutcome(err)
}

// StartSignIn implements sdk.SendingPlatform. It always fails. Mailboxes of Microsoft 365 can be
// connected only in EmailBison's dashboard or with its bulk uploader, a desktop program.
func (p *platform) StartSignIn(context.Context, string) (sdk.SignInSession, error) {
	return sdk.SignInSession{}, sdk.NotSupported(sdk.CanOAuth)
}

// SignIn implements sdk.SendingPlatform. It always fails (see StartSignIn).
func (p *platform) SignIn(context.Context, string) (sdk.Progress, error) {
	return sdk.Progress{}, sdk.NotSupported(sdk.CanOAuth)
}
