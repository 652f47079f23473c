// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/url"
	"strings"

	"github.com/tenantry/tenantry/plugins/sdk"
)

// pageSize is the maximum page size of Instantly.
const pageSize = "100"

// accountPage is one page of the list of accounts.
type accountPage struct {
	Items []accountDoc `json:"items"`
	Next  string       `json:"next_starting_after"`
}

// Account implements sdk.SendingPlatform. Instantly may distinguish upper and lower case in the
// address that the path contains. Therefore, if the request finds no account, Account searches for
// the address in the list.
func (p *platform) Account(ctx context.Context, address string) (sdk.Account, error) {
	if !strings.Contains(address, "@") {
		return sdk.Account{}, nil
	}
	var a accountDoc
	err := p.call(ctx, http.MethodGet, "/accounts/"+url.PathEscape(address), &a)
	switch {
	case errors.Is(err, errNotFound):
		return p.search(ctx, address)
	case err != nil:
		return sdk.Account{}, err
	case !sdk.SameAddress(a.Email, address):
		return sdk.Account{}, sdk.BrokenAnswer("different_account")
	}
	return a.account(), nil
}

// search finds an address with the filter of the list, which matches parts of addresses. It reads
// one page, and returns the zero account if no account on it has that address.
func (p *platform) search(ctx context.Context, address string) (sdk.Account, error) {
	var listed accountPage
	query := url.Values{"limit": {pageSize}, "search": {address}}
	if err := p.call(ctx, http.MethodGet, "/accounts?"+query.Encode(), &listed); err != nil {
		return sdk.Account{}, asOutcome(err)
	}
	if listed.Items == nil {
		return sdk.Account{}, sdk.BrokenAnswer("listing_without_items")
	}
	for _, a := range listed.Items {
		if sdk.SameAddress(a.Email, address) {
			return a.account(), nil
		}
	}
	return sdk.Account{}, nil
}

// Accounts implements sdk.SendingPlatform. Instantly may send a cursor even with the last page.
// Therefore the list ends at an empty page or at a page without a cursor. If the next cursor equals
// the cursor of this page, Accounts fails with Broken, because the listing would never end.
func (p *platform) Accounts(ctx context.Context, cursor string) (sdk.Page, error) {
	query := url.Values{"limit": {pageSize}}
	if cursor != "" {
		query.Set("starting_after", cursor)
	}
	var listed accountPage
	if err := p.call(ctx, http.MethodGet, "/accounts?"+query.Encode(), &listed); err != nil {
		return sdk.Page{}, asOutcome(err)
	}
	if listed.Items == nil {
		return sdk.Page{}, sdk.BrokenAnswer("listing_without_items")
	}
	page := sdk.Page{Accounts: make([]sdk.Account, 0, len(listed.Items))}
	for _, a := range listed.Items {
		if a.Email == "" {
			return sdk.Page{}, sdk.BrokenAnswer("account_without_email")
		}
		page.Accounts = append(page.Accounts, a.account())
	}
	switch {
	case len(listed.Items) == 0:
		return page, nil
	case cursor != "" && listed.Next == cursor:
		return sdk.Page{}, sdk.BrokenAnswer("repeated_cursor")
	}
	page.Next = listed.Next
	return page, nil
}

// Remove implements sdk.SendingPlatform. Instantly answers with the removed account. If Instantly
// has no such account, the account counts as removed.
func (p *platform) Remove(ctx context.Context, account string) error {
	if !strings.Contains(account, "@") {
		return nil // the id of an account is its address
	}
	var removed accountDoc
	err := p.call(ctx, http.MethodDelete, "/accounts/"+url.PathEscape(account), &removed)
	switch {
	case errors.Is(err, errNotFound):
		return nil
	case err == nil && !sdk.SameAddress(removed.Email, account):
		return sdk.BrokenAnswer("different_account")
	}
	return err
}

// accountDoc is an account of the API, reduced to the members that the plugin reads. Its id is its
// address.
type accountDoc struct {
	Email        string   `json:"email"`
	FirstName    string   `json:"first_name"`
	LastName     string   `json:"last_name"`
	Organization string   `json:"organization"`
	Status       *float64 `json:"status"`
	SetupPending bool     `json:"setup_pending"`
	Updated      string   `json:"timestamp_updated"`
	// AutofixFailed is null while Instantly tries to reconnect the account.
	AutofixFailed json.RawMessage `json:"autofix_failed"`
}

// The values of status.
const (
	statusActive          = 1
	statusPaused          = 2
	statusMaintenance     = 3 // becomes active again without an action of the user
	statusConnectionError = -1
	statusSoftBounces     = -2
	statusSendingError    = -3
)

func (a accountDoc) account() sdk.Account {
	converted := sdk.Account{
		ID: a.Email, Address: a.Email, Name: strings.TrimSpace(a.FirstName + " " + a.LastName), Stamp: a.Updated,
	}
	switch {
	case a.SetupPending:
		converted.State = sdk.AccountPending
	case a.Status == nil:
		converted.State, converted.Reason = sdk.AccountOther, "unknown_status"
	default:
		a.applyStatus(&converted)
	}
	return converted
}

// applyStatus sets the state of converted from the status of a. An account with soft bounces or a
// sending error still has its OAuth grant, so it is connected with an error.
func (a accountDoc) applyStatus(converted *sdk.Account) {
	converted.State = sdk.AccountConnected
	switch *a.Status {
	case statusActive, statusMaintenance:
	case statusPaused:
		converted.Paused = true
	case statusSoftBounces:
		converted.HasError, converted.Reason = true, "soft_bounce_error"
	case statusSendingError:
		converted.HasError, converted.Reason = true, "sending_error"
	case statusConnectionError:
		converted.State, converted.HasError, converted.Reason = sdk.AccountFailed, true, "connection_error"
		if string(a.AutofixFailed) == "null" {
			converted.State, converted.Reason = sdk.AccountOther, "reconnecting"
		}
	default:
		converted.State, converted.Reason = sdk.AccountOther, "unknown_status"
	}
}
