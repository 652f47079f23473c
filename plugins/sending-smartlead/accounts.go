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

	"github.com/tenantry/tenantry/plugins/sdk"
)

const (
	pageSize = 100
	// overlap is how many accounts a page has in common with the previous page.
	overlap = 5
	// maxMatches is the maximum number of accounts that Account reads when it searches for one
	// address. If none of them has the address and more accounts may follow, Account assumes that
	// the filter has no effect, and fails.
	maxMatches = 5 * pageSize
)

// Account implements sdk.SendingPlatform. Smartlead's filter matches parts of user names, so
// Account compares the addresses.
func (p *platform) Account(ctx context.Context, address string) (sdk.Account, error) {
	for offset := 0; offset < maxMatches; offset += pageSize {
		found, err := p.list(ctx, offset, pageSize, url.Values{"username": {address}})
		if err != nil {
			return sdk.Account{}, err
		}
		if match, ok := bestMatch(found, address); ok {
			return match, nil
		}
		if len(found) < pageSize {
			return sdk.Account{}, nil
		}
	}
	return sdk.Account{}, sdk.BrokenAnswer("smartlead filters nothing")
}

// bestMatch returns the account with an address. It prefers an account that is connected through
// Microsoft.
func bestMatch(found []accountDoc, address string) (match sdk.Account, ok bool) {
	for _, doc := range found {
		for _, candidate := range []text{doc.FromEmail, doc.Username} {
			if !sdk.SameAddress(string(candidate), address) || ok && !doc.isMicrosoft() {
				continue
			}
			match, ok = doc.account(), true
			match.Address = string(candidate)
			if doc.isMicrosoft() {
				return match, true
			}
		}
	}
	return match, ok
}

// Accounts implements sdk.SendingPlatform. A page that is not full is the last page. If an account
// is removed during the listing, the later accounts move forward. If the pages did not overlap, the
// listing could then skip an account, which the host would take for removed. If the first half of a
// page does not contain the last account of the previous page, Accounts fails with Broken.
func (p *platform) Accounts(ctx context.Context, cursor string) (sdk.Page, error) {
	offset, previousLast, ok := parseCursor(cursor)
	if !ok {
		return sdk.Page{}, sdk.RequestRefused("smartlead cursor")
	}
	found, err := p.list(ctx, offset, pageSize, nil)
	if err != nil {
		return sdk.Page{}, err
	}
	repeated := 0
	if previousLast != "" {
		repeated = 1 + slices.IndexFunc(found, func(doc accountDoc) bool { return string(doc.ID) == previousLast })
		if repeated == 0 || repeated > pageSize/2 {
			return sdk.Page{}, sdk.BrokenAnswer("smartlead list moved")
		}
	}
	page := sdk.Page{}
	for _, doc := range found[repeated:] {
		page.Accounts = append(page.Accounts, doc.account())
	}
	if len(found) >= pageSize {
		page.Next = fmt.Sprintf("%d:%s", offset+len(found)-overlap, found[len(found)-1].ID)
	}
	return page, nil
}

// parseCursor returns the offset of a page and the id of the last account of the previous page.
func parseCursor(cursor string) (offset int, previousLast string, ok bool) {
	if cursor == "" {
		return 0, "", true
	}
	number, previousLast, _ := strings.Cut(cursor, ":")
	offset, err := strconv.Atoi(number)
	return offset, previousLast, err == nil && offset >= 0 && previousLast != ""
}

// list returns one page of accounts. It fails with Broken if an entry has no id or no address.
func (p *platform) list(ctx context.Context, offset, limit int, filter url.Values) ([]accountDoc, error) {
	query := url.Values{"offset": {strconv.Itoa(offset)}, "limit": {strconv.Itoa(limit)}}
	for name, values := range filter {
		query[name] = values
	}
	if p.configured.client != "" {
		query.Set("client_id", p.configured.client)
	}
	body, err := p.call(ctx, http.MethodGet, "/email-accounts/", query)
	if errors.Is(err, errNotFound) {
		return nil, sdk.BrokenAnswer("smartlead 404")
	}
	if err != nil {
		return nil, err
	}
	found, ok := decodeList[accountDoc](body)
	if !ok {
		return nil, sdk.BrokenAnswer("unexpected_answer")
	}
	for _, doc := range found {
		if doc.ID == "" || doc.address() == "" {
			return nil, sdk.BrokenAnswer("unexpected_answer")
		}
	}
	return found, nil
}

// Remove implements sdk.SendingPlatform. Smartlead also removes the account from all campaigns. If
// Smartlead has no such account, the account counts as removed.
func (p *platform) Remove(ctx context.Context, account string) error {
	body, err := p.call(ctx, http.MethodDelete, "/email-accounts/"+url.PathEscape(account), nil)
	if errors.Is(err, errNotFound) {
		return nil
	}
	if _, isObject := decodeProblem(body); err == nil && !isObject {
		return sdk.BrokenAnswer("unexpected_answer")
	}
	return err
}

// StartSignIn implements sdk.SendingPlatform. It always fails, because Smartlead's API cannot start
// a sign-in. The API accepts existing OAuth tokens, but Smartlead can renew them only with the
// secret of the application that requested them.
func (p *platform) StartSignIn(context.Context, string) (sdk.SignInSession, error) {
	return sdk.SignInSession{}, sdk.NotSupported(sdk.CanOAuth)
}

// SignIn implements sdk.SendingPlatform. It always fails (see StartSignIn).
func (p *platform) SignIn(context.Context, string) (sdk.Progress, error) {
	return sdk.Progress{}, sdk.NotSupported(sdk.CanOAuth)
}
