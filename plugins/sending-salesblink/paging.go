// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"encoding/json"
	"hash/fnv"
	"net/http"
	"net/url"
	"slices"
	"strconv"

	"github.com/tenantry/tenantry/core/integration"
	"github.com/tenantry/tenantry/plugins/sdk"
)

const (
	// perPage is the most that SalesBlink gives at once.
	perPage = 100
	// overlap is how many senders come twice where skip is an offset. One that
	// is taken out meanwhile moves those behind it to the front, and the one
	// that slipped by would pass for gone.
	overlap = 5
)

// What `skip` means: the REST guide does not say, the tools' schema says a page's
// number, and an offset is what others mean by it. The second page tells: `skip=1`
// brings the first page again, moved by one, or what comes after it.
const (
	unclear = ""
	offset  = "offset"
	number  = "page"
)

// cursor is where a listing goes on.
type cursor struct {
	Means string   `json:"means"`
	Skip  int      `json:"skip"`
	Seen  []string `json:"seen"` // marks of the senders on the page before
}

// Accounts implements sdk.SendingPlatform. A listing ends at a page that is empty
// or brings nothing new; a short page may only be the end of a folder.
func (p *provider) Accounts(ctx context.Context, at string) (sdk.Page, error) {
	return p.list(ctx, "", at)
}

// Account implements sdk.SendingPlatform. Nobody says that `search` works over
// REST, so it only makes the listing shorter if it does.
func (p *provider) Account(ctx context.Context, address string) (sdk.Account, error) {
	for at := ""; ; {
		page, err := p.list(ctx, address, at)
		if err != nil {
			return sdk.Account{}, err
		}
		for _, a := range page.Accounts {
			if integration.SameAddress(a.Address, address) {
				return a, nil
			}
		}
		if at = page.Next; at == "" {
			return sdk.Account{}, nil
		}
	}
}

func (p *provider) list(ctx context.Context, search, at string) (sdk.Page, error) {
	var here cursor
	if at != "" && (json.Unmarshal([]byte(at), &here) != nil || here.Skip < 1) {
		return sdk.Page{}, sdk.RefusedBy("cursor")
	}
	query := url.Values{"limit": {strconv.Itoa(perPage)}, "skip": {strconv.Itoa(here.Skip)}}
	if search != "" {
		query.Set("search", search)
	}
	data, err := p.ask(ctx, http.MethodGet, "/senders", query)
	if err != nil {
		return sdk.Page{}, err
	}
	all, err := senders(data)
	if err != nil {
		return sdk.Page{}, err
	}
	return here.page(all)
}

// page keeps what is new on a page, and says where the next one is.
func (c cursor) page(all []sdk.Account) (sdk.Page, error) {
	var page sdk.Page
	next := cursor{Means: c.Means}
	for _, a := range all {
		mark := markOf(a)
		next.Seen = append(next.Seen, mark)
		if !slices.Contains(c.Seen, mark) {
			page.Accounts = append(page.Accounts, a)
		}
	}
	if c.Means == offset && len(page.Accounts) == len(all) {
		return sdk.Page{}, sdk.BrokenBy("list_moved")
	}
	if len(page.Accounts) == 0 {
		// A full first page again: skip means nothing here, and nobody knows
		// what comes after it.
		if c.Skip > 0 && c.Means == unclear && len(all) >= perPage {
			return sdk.Page{}, sdk.BrokenBy("repeated_page")
		}
		return page, nil
	}
	if c.Skip > 0 && c.Means == unclear {
		next.Means = number
		if again := len(all) - len(page.Accounts); again > len(all)/2 {
			next.Means = offset
		}
	}
	next.Skip = c.Skip + 1
	if next.Means == offset {
		next.Skip = max(c.Skip+len(all)-overlap, c.Skip+1)
	}
	raw, err := json.Marshal(next)
	page.Next = string(raw)
	return page, err
}

// markOf recognises a sender without naming it.
func markOf(a sdk.Account) string {
	h := fnv.New64a()
	_, _ = h.Write([]byte(a.ID))
	return strconv.FormatUint(h.Sum64(), 36)
}
