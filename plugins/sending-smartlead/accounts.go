// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/tenantry/tenantry/core/integration"
	"github.com/tenantry/tenantry/plugins/sdk"
)

const (
	pageSize = 100
	overlap  = 5
	// mostMatches is how many accounts a filter for one address may find before
	// it is no filter.
	mostMatches = 5 * pageSize
)

// Account implements sdk.SendingPlatform. Smartlead's filter finds parts of
// names too, so what it finds is compared.
func (p *platform) Account(ctx context.Context, address string) (sdk.Account, error) {
	for offset := 0; offset < mostMatches; offset += pageSize {
		found, err := p.list(ctx, offset, pageSize, url.Values{"username": {address}})
		if err != nil {
			return sdk.Account{}, err
		}
		if match, ok := best(found, address); ok {
			return match, nil
		}
		if len(found) < pageSize {
			return sdk.Account{}, nil
		}
	}
	return sdk.Account{}, sdk.BrokenBy("smartlead filters nothing")
}

// best is the account with an address, one that Microsoft signed in before any
// other.
func best(found []accountDoc, address string) (match sdk.Account, ok bool) {
	for _, doc := range found {
		for _, own := range []text{doc.FromEmail, doc.Username} {
			if !integration.SameAddress(string(own), address) || ok && !doc.microsoft() {
				continue
			}
			match, ok = doc.account(), true
			match.Address = string(own)
			if doc.microsoft() {
				return match, true
			}
		}
	}
	return match, ok
}

// Accounts implements sdk.SendingPlatform. A page that is not full is the last.
// Pages overlap: an account that is taken out meanwhile moves those behind it to
// the front, and the one that slipped by would pass for gone.
func (p *platform) Accounts(ctx context.Context, cursor string) (sdk.Page, error) {
	offset, last, ok := readCursor(cursor)
	if !ok {
		return sdk.Page{}, sdk.RefusedBy("smartlead cursor")
	}
	found, err := p.list(ctx, offset, pageSize, nil)
	if err != nil {
		return sdk.Page{}, err
	}
	known := 0
	if last != "" {
		known = 1 + slices.IndexFunc(found, func(doc accountDoc) bool { return string(doc.ID) == last })
		if known == 0 || known > pageSize/2 {
			return sdk.Page{}, sdk.BrokenBy("smartlead list moved")
		}
	}
	page := sdk.Page{}
	for _, doc := range found[known:] {
		page.Accounts = append(page.Accounts, doc.account())
	}
	if len(found) >= pageSize {
		page.Next = fmt.Sprintf("%d:%s", offset+len(found)-overlap, found[len(found)-1].ID)
	}
	return page, nil
}

// readCursor reads where a page begins, and the last account of the one before.
func readCursor(cursor string) (offset int, last string, ok bool) {
	if cursor == "" {
		return 0, "", true
	}
	number, last, _ := strings.Cut(cursor, ":")
	offset, err := strconv.Atoi(number)
	return offset, last, err == nil && offset >= 0 && last != ""
}

// list is one page of Smartlead's list. An entry without an id would be a
// mailbox that nobody finds again, so it spoils the page.
func (p *platform) list(ctx context.Context, offset, limit int, filter url.Values) ([]accountDoc, error) {
	query := url.Values{"offset": {strconv.Itoa(offset)}, "limit": {strconv.Itoa(limit)}}
	for name, values := range filter {
		query[name] = values
	}
	if p.given.client != "" {
		query.Set("client_id", p.given.client)
	}
	body, err := p.call(ctx, http.MethodGet, "/email-accounts/", query)
	if errors.Is(err, errGone) {
		return nil, sdk.BrokenBy("smartlead 404")
	}
	if err != nil {
		return nil, err
	}
	found, ok := list[accountDoc](body)
	if !ok {
		return nil, sdk.BrokenBy("nonsense")
	}
	for _, doc := range found {
		if doc.ID == "" || doc.address() == "" {
			return nil, sdk.BrokenBy("nonsense")
		}
	}
	return found, nil
}

// Remove implements sdk.SendingPlatform. Smartlead takes the account out of all
// campaigns too.
func (p *platform) Remove(ctx context.Context, account string) error {
	body, err := p.call(ctx, http.MethodDelete, "/email-accounts/"+url.PathEscape(account), nil)
	if errors.Is(err, errGone) {
		return nil
	}
	if _, readable := complaintIn(body); err == nil && !readable {
		return sdk.BrokenBy("nonsense")
	}
	return err
}

// StartSignIn implements sdk.SendingPlatform: Smartlead takes finished tokens
// of its own application only.
func (p *platform) StartSignIn(context.Context, string) (sdk.SignInSession, error) {
	return sdk.SignInSession{}, sdk.NotSupported(sdk.CanOAuth)
}

// SignIn implements sdk.SendingPlatform.
func (p *platform) SignIn(context.Context, string) (sdk.Progress, error) {
	return sdk.Progress{}, sdk.NotSupported(sdk.CanOAuth)
}
