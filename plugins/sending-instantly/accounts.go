// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"strings"

	"github.com/tenantry/tenantry/core/integration"
	"github.com/tenantry/tenantry/plugins/sdk"
)

// pageSize is the largest that Instantly takes.
const pageSize = "100"

// page is a page of Instantly's listing.
type page struct {
	Items []accountDoc `json:"items"`
	Next  string       `json:"next_starting_after"`
}

// Check implements sdk.SendingPlatform. A key without workspaces:read may still
// read accounts, and each of those names the workspace.
func (p *platform) Check(ctx context.Context) (sdk.Reach, error) {
	var w struct{ ID, Name string }
	err := p.call(ctx, http.MethodGet, "/workspaces/current", &w)
	switch {
	case lacksScope(err):
		w.ID, err = p.organization(ctx)
	case err == nil && w.ID == "":
		err = sdk.BrokenBy("workspace_without_id")
	}
	if err != nil {
		return sdk.Reach{}, settled(err)
	}
	return sdk.Reach{Workspaces: []sdk.Workspace{{ID: w.ID, Name: w.Name}}}, nil
}

func (p *platform) organization(ctx context.Context) (string, error) {
	var found page
	if err := p.call(ctx, http.MethodGet, "/accounts?limit=1", &found); err != nil {
		return "", err
	}
	switch {
	case found.Items == nil:
		return "", sdk.BrokenBy("listing_without_items")
	case len(found.Items) > 0:
		return found.Items[0].Organization, nil
	case p.workspace != "":
		return "", sdk.Misconfigured("workspace_id", "the key cannot read its workspace; leave it out, or give the key the scope workspaces:read")
	default:
		return "", nil
	}
}

// Account implements sdk.SendingPlatform. Whether Instantly's path minds the
// case of letters is not known, so an address that it does not find is looked
// for once more by the search, which finds parts of addresses.
func (p *platform) Account(ctx context.Context, address string) (sdk.Account, error) {
	if !strings.Contains(address, "@") {
		return sdk.Account{}, nil
	}
	var a accountDoc
	err := p.call(ctx, http.MethodGet, "/accounts/"+url.PathEscape(address), &a)
	switch {
	case errors.Is(err, errGone):
		return p.search(ctx, address)
	case err != nil:
		return sdk.Account{}, err
	case !integration.SameAddress(a.Email, address):
		return sdk.Account{}, sdk.BrokenBy("another_account")
	}
	return a.account(), nil
}

func (p *platform) search(ctx context.Context, address string) (sdk.Account, error) {
	var found page
	q := url.Values{"limit": {pageSize}, "search": {address}}
	if err := p.call(ctx, http.MethodGet, "/accounts?"+q.Encode(), &found); err != nil {
		return sdk.Account{}, settled(err)
	}
	if found.Items == nil {
		return sdk.Account{}, sdk.BrokenBy("listing_without_items")
	}
	for _, a := range found.Items {
		if integration.SameAddress(a.Email, address) {
			return a.account(), nil
		}
	}
	return sdk.Account{}, nil
}

// Accounts implements sdk.SendingPlatform. Instantly may give a cursor with the
// last page that has accounts, so the end is an empty page or no cursor. One
// that leads back to its own page would make a part pass for all.
func (p *platform) Accounts(ctx context.Context, cursor string) (sdk.Page, error) {
	q := url.Values{"limit": {pageSize}}
	if cursor != "" {
		q.Set("starting_after", cursor)
	}
	var found page
	if err := p.call(ctx, http.MethodGet, "/accounts?"+q.Encode(), &found); err != nil {
		return sdk.Page{}, settled(err)
	}
	if found.Items == nil {
		return sdk.Page{}, sdk.BrokenBy("listing_without_items")
	}
	out := sdk.Page{Accounts: make([]sdk.Account, 0, len(found.Items))}
	for _, a := range found.Items {
		if a.Email == "" {
			return sdk.Page{}, sdk.BrokenBy("account_without_email")
		}
		out.Accounts = append(out.Accounts, a.account())
	}
	switch {
	case len(found.Items) == 0:
		return out, nil
	case cursor != "" && found.Next == cursor:
		return sdk.Page{}, sdk.BrokenBy("listing_in_a_circle")
	}
	out.Next = found.Next
	return out, nil
}

// Remove implements sdk.SendingPlatform. The answer is the account that was.
func (p *platform) Remove(ctx context.Context, account string) error {
	if !strings.Contains(account, "@") {
		return nil // no account of Instantly's has such an id
	}
	var gone accountDoc
	err := p.call(ctx, http.MethodDelete, "/accounts/"+url.PathEscape(account), &gone)
	switch {
	case errors.Is(err, errGone):
		return nil
	case err == nil && !integration.SameAddress(gone.Email, account):
		return sdk.BrokenBy("another_account")
	}
	return err
}
