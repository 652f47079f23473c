// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/tenantry/tenantry/plugins/sdk"
)

// The JSON documents of the API.
type (
	accountDoc struct {
		ID       string `json:"id"`
		Address  string `json:"address"`
		Name     string `json:"name"`
		State    string `json:"state"`    // "ok", "failed" or a state that this plugin does not know
		Revision int    `json:"revision"` // grows with each sign-in
	}
	accountList struct {
		Page     int          `json:"page"`
		Accounts []accountDoc `json:"accounts"`
		More     bool         `json:"more"`
	}
	linkDoc struct {
		ID      string    `json:"id"`
		URL     string    `json:"url"`
		State   string    `json:"state"` // "pending", "done", "denied" or "expired"
		Address string    `json:"address"`
		Until   time.Time `json:"until"`
	}
)

// Check implements sdk.SendingPlatform.
func (p *platform) Check(ctx context.Context) (sdk.Reach, error) {
	var list struct {
		Workspaces []struct {
			ID   string `json:"id"`
			Name string `json:"name"`
		} `json:"workspaces"`
	}
	if err := p.call(ctx, http.MethodGet, "/workspaces", &list); err != nil {
		return sdk.Reach{}, asOutcome(err)
	}
	if list.Workspaces == nil {
		return sdk.Reach{}, sdk.BrokenAnswer("no_workspaces")
	}
	var reach sdk.Reach
	for _, w := range list.Workspaces {
		reach.Workspaces = append(reach.Workspaces, sdk.Workspace{ID: w.ID, Name: w.Name})
	}
	return reach, nil
}

// Account implements sdk.SendingPlatform. The parameter `like` finds every address that contains the
// text, so Account compares whole addresses, page by page. It returns the zero Account for an
// address that has no account.
func (p *platform) Account(ctx context.Context, address string) (sdk.Account, error) {
	for page, hasMore := 0, true; hasMore; page++ {
		list, err := p.readPage(ctx, url.Values{"like": {address}, "page": {strconv.Itoa(page)}})
		if err != nil {
			return sdk.Account{}, err
		}
		for _, a := range list.Accounts {
			if sdk.SameAddress(a.Address, address) {
				return a.account(), nil
			}
		}
		hasMore = list.More
	}
	return sdk.Account{}, nil
}

// Accounts implements sdk.SendingPlatform. The cursor is the number of the page.
func (p *platform) Accounts(ctx context.Context, cursor string) (sdk.Page, error) {
	list, err := p.readPage(ctx, url.Values{"page": {cursor}})
	if err != nil {
		return sdk.Page{}, err
	}
	var page sdk.Page
	for _, a := range list.Accounts {
		page.Accounts = append(page.Accounts, a.account())
	}
	if list.More {
		page.Next = strconv.Itoa(list.Page + 1)
	}
	return page, nil
}

// readPage reads one page. It fails for an answer without the requested page, because an account
// that is missing from a complete list counts as disconnected.
func (p *platform) readPage(ctx context.Context, query url.Values) (list accountList, err error) {
	if err := p.call(ctx, http.MethodGet, "/accounts?"+query.Encode(), &list); err != nil {
		return accountList{}, asOutcome(err)
	}
	requested, _ := strconv.Atoi(query.Get("page")) // a query without a number asks for the first page, 0
	if list.Accounts == nil || list.Page != requested {
		return accountList{}, sdk.BrokenAnswer("not_the_requested_page")
	}
	return list, nil
}

func (a accountDoc) account() sdk.Account {
	account := sdk.Account{ID: a.ID, Address: a.Address, Name: a.Name, State: sdk.AccountOther, Stamp: strconv.Itoa(a.Revision)}
	switch a.State {
	case "ok":
		account.State = sdk.AccountConnected
	case "failed":
		account.State, account.HasError = sdk.AccountFailed, true
	}
	return account
}

// StartSignIn implements sdk.SendingPlatform.
func (p *platform) StartSignIn(ctx context.Context, _ string) (sdk.SignInSession, error) {
	var link linkDoc
	if err := p.call(ctx, http.MethodPost, "/links", &link); err != nil {
		return sdk.SignInSession{}, asOutcome(err)
	}
	if link.ID == "" || !sdk.SignInLink(link.URL, p.authHosts) {
		return sdk.SignInSession{}, sdk.BrokenAnswer("no_link_to_an_allowed_host")
	}
	return sdk.SignInSession{ID: link.ID, URL: link.URL, ExpiresAt: link.Until}, nil
}

// SignIn implements sdk.SendingPlatform. A session that the platform no longer has counts as
// expired.
func (p *platform) SignIn(ctx context.Context, session string) (sdk.Progress, error) {
	var link linkDoc
	switch err := p.call(ctx, http.MethodGet, "/links/"+url.PathEscape(session), &link); {
	case errors.Is(err, errNotFound):
		return sdk.Progress{State: sdk.SignInExpired}, nil
	case err != nil:
		return sdk.Progress{}, err
	}
	switch link.State {
	case "pending":
		return sdk.Progress{State: sdk.SignInPending}, nil
	case "done":
		return sdk.Progress{State: sdk.SignInSucceeded, Address: link.Address}, nil
	case "denied":
		return sdk.Progress{State: sdk.SignInFailed, Reason: "access_denied"}, nil
	case "expired":
		return sdk.Progress{State: sdk.SignInExpired}, nil
	}
	return sdk.Progress{}, sdk.BrokenAnswer("unknown_link_state")
}

// Remove implements sdk.SendingPlatform. Removing an account that does not exist succeeds.
func (p *platform) Remove(ctx context.Context, account string) error {
	var answer struct {
		Removed bool `json:"removed"`
	}
	switch err := p.call(ctx, http.MethodDelete, "/accounts/"+url.PathEscape(account), &answer); {
	case errors.Is(err, errNotFound):
		return nil
	case err != nil:
		return err
	case !answer.Removed:
		return sdk.BrokenAnswer("not_removed")
	}
	return nil
}
