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
	senders = "/sender-emails"
	// mostPages is how far a search for one address goes before it is none.
	mostPages = 10
)

// account is what is read of one. A token for the mailbox itself is at
// …/oauth-access-token, which is never asked for.
type account struct {
	ID      text `json:"id"`
	Name    text `json:"name"`
	Email   text `json:"email"`
	Status  text `json:"status"`
	Updated text `json:"updated_at"`
}

// Account implements sdk.SendingPlatform. A search finds parts of addresses, and
// an instance that does not know the parameter finds everybody, so what it finds
// is compared.
func (p *platform) Account(ctx context.Context, address string) (sdk.Account, error) {
	for number := 1; number <= mostPages; number++ {
		found, more, _, err := p.page(ctx, number, address)
		if err != nil {
			return sdk.Account{}, err
		}
		for _, a := range found {
			if sdk.SameAddress(a.Address, address) {
				return a, nil
			}
		}
		if !more {
			return sdk.Account{}, nil
		}
	}
	return sdk.Account{}, sdk.BrokenBy("emailbison search finds everybody")
}

// Accounts implements sdk.SendingPlatform. The cursor is the number of the page
// and how many accounts there were on the way: where some have gone meanwhile,
// others moved to a page that was read before.
func (p *platform) Accounts(ctx context.Context, cursor string) (sdk.Page, error) {
	number, before := 1, 0
	if cursor != "" {
		if n, err := fmt.Sscanf(cursor, "%d:%d", &number, &before); n != 2 || err != nil || number < 1 {
			return sdk.Page{}, sdk.RefusedBy("emailbison cursor")
		}
	}
	found, more, total, err := p.page(ctx, number, "")
	if err != nil {
		return sdk.Page{}, err
	}
	if total < before {
		return sdk.Page{}, sdk.BrokenBy("emailbison list moved")
	}
	page := sdk.Page{Accounts: found}
	if more {
		page.Next = fmt.Sprintf("%d:%d", number+1, total)
	}
	return page, nil
}

func (p *platform) page(ctx context.Context, number int, search string) ([]sdk.Account, bool, int, error) {
	docs, more, total, err := read[account](ctx, p, senders, number, search)
	if err != nil {
		return nil, false, 0, settled(err)
	}
	var found []sdk.Account
	for _, doc := range docs {
		if doc.ID == "" || doc.Email == "" {
			return nil, false, 0, sdk.BrokenBy("nonsense")
		}
		found = append(found, doc.told())
	}
	return found, more, total, nil
}

func (a account) told() sdk.Account {
	told := sdk.Account{ID: string(a.ID), Address: string(a.Email), Name: string(a.Name), Stamp: string(a.Updated + " " + a.Status)}
	told.State, told.Reason = state(string(a.Status))
	told.HasError = told.Reason != ""
	return told
}

// state is the table of EmailBison's words.
func state(status string) (state sdk.AccountState, reason string) {
	switch words := strings.NewReplacer("_", " ", "-", " ").Replace(strings.ToLower(strings.TrimSpace(status))); words {
	case "connected":
		return sdk.AccountConnected, ""
	case "not connected", "disconnected":
		return sdk.AccountFailed, "disconnected"
	default:
		return sdk.AccountOther, ""
	}
}

// Remove implements sdk.SendingPlatform.
func (p *platform) Remove(ctx context.Context, account string) error {
	var said struct {
		Success *bool `json:"success"`
		Data    struct {
			Success *bool `json:"success"`
		} `json:"data"`
	}
	err := p.call(ctx, http.MethodDelete, senders+"/"+url.PathEscape(account), &said)
	if errors.Is(err, errGone) {
		return nil
	}
	for _, done := range []*bool{said.Success, said.Data.Success} {
		if err == nil && done != nil && !*done {
			return sdk.RefusedBy("emailbison not done")
		}
	}
	return settled(err)
}

// StartSignIn implements sdk.SendingPlatform: EmailBison connects mailboxes in its
// dashboard and its uploader alone.
func (p *platform) StartSignIn(context.Context, string) (sdk.SignInSession, error) {
	return sdk.SignInSession{}, sdk.NotSupported(sdk.CanOAuth)
}

// SignIn implements sdk.SendingPlatform.
func (p *platform) SignIn(context.Context, string) (sdk.Progress, error) {
	return sdk.Progress{}, sdk.NotSupported(sdk.CanOAuth)
}
