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

	"github.com/tenantry/tenantry/plugins/sdk"
)

const (
	// perPage is the maximum page size of SalesBlink.
	perPage = 100
	// overlap is how many senders of the previous page a request asks for again, if skip is known
	// to be an offset. If a sender is removed during the listing, the later senders move forward.
	// Without the overlap, the listing could then skip a sender, which the host would take for
	// removed.
	overlap = 5
)

// The possible meanings of the parameter skip. SalesBlink's REST guide does not define it. The
// schema of SalesBlink's tools calls it a page number. In other APIs it is an offset. The second
// request, with skip=1, shows its meaning. If skip is an offset, the answer is the first page,
// moved by one sender. If skip is a page number, the answer contains the senders after the first
// page.
const (
	skipUnknown  = ""
	skipIsOffset = "offset"
	skipIsPage   = "page"
)

// cursor is the position in a listing. The host gets it as JSON.
type cursor struct {
	SkipMeaning string   `json:"means"` // the meaning of skip
	Skip        int      `json:"skip"`
	Seen        []string `json:"seen"` // hashes of the senders on the previous page
}

// Accounts implements sdk.SendingPlatform. A listing ends with a page that contains no new sender.
// A short page does not end it: a page can end where a folder of senders ends.
func (p *platform) Accounts(ctx context.Context, encoded string) (sdk.Page, error) {
	return p.list(ctx, "", encoded)
}

// Account implements sdk.SendingPlatform. It is not known whether the parameter search works in the
// REST API, so Account compares each address and reads all pages if necessary.
func (p *platform) Account(ctx context.Context, address string) (sdk.Account, error) {
	for encoded := ""; ; {
		page, err := p.list(ctx, address, encoded)
		if err != nil {
			return sdk.Account{}, err
		}
		for _, a := range page.Accounts {
			if sdk.SameAddress(a.Address, address) {
				return a, nil
			}
		}
		if encoded = page.Next; encoded == "" {
			return sdk.Account{}, nil
		}
	}
}

// list returns one page of senders. encoded is a cursor in JSON, or "" for the first page.
func (p *platform) list(ctx context.Context, search, encoded string) (sdk.Page, error) {
	var position cursor
	if encoded != "" && (json.Unmarshal([]byte(encoded), &position) != nil || position.Skip < 1) {
		return sdk.Page{}, sdk.RequestRefused("cursor")
	}
	query := url.Values{"limit": {strconv.Itoa(perPage)}, "skip": {strconv.Itoa(position.Skip)}}
	if search != "" {
		query.Set("search", search)
	}
	data, err := p.call(ctx, http.MethodGet, "/senders", query)
	if err != nil {
		return sdk.Page{}, err
	}
	accounts, err := decodeSenders(data)
	if err != nil {
		return sdk.Page{}, err
	}
	return position.page(accounts)
}

// page returns the accounts that were not on the previous page, and the cursor of the next page. If
// skip is known to be an offset, it fails with Broken for a page without a sender of the previous
// page. It also fails with Broken if skip has no effect and the first page is full.
func (c cursor) page(accounts []sdk.Account) (sdk.Page, error) {
	var page sdk.Page
	next := cursor{SkipMeaning: c.SkipMeaning}
	for _, a := range accounts {
		hash := hashOf(a)
		next.Seen = append(next.Seen, hash)
		if !slices.Contains(c.Seen, hash) {
			page.Accounts = append(page.Accounts, a)
		}
	}
	if c.SkipMeaning == skipIsOffset && len(page.Accounts) == len(accounts) {
		return sdk.Page{}, sdk.BrokenAnswer("list_changed")
	}
	if len(page.Accounts) == 0 {
		// The answer is the first page again, and that page is full. So skip has no effect, and the
		// plugin cannot read the senders after the first page.
		if c.Skip > 0 && c.SkipMeaning == skipUnknown && len(accounts) >= perPage {
			return sdk.Page{}, sdk.BrokenAnswer("repeated_page")
		}
		return page, nil
	}
	if c.Skip > 0 && c.SkipMeaning == skipUnknown {
		next.SkipMeaning = skipIsPage
		if repeated := len(accounts) - len(page.Accounts); repeated > len(accounts)/2 {
			next.SkipMeaning = skipIsOffset
		}
	}
	next.Skip = c.Skip + 1
	if next.SkipMeaning == skipIsOffset {
		next.Skip = max(c.Skip+len(accounts)-overlap, c.Skip+1)
	}
	raw, err := json.Marshal(next)
	page.Next = string(raw)
	return page, err
}

// hashOf returns a hash of the id, so that the cursor stays short.
func hashOf(a sdk.Account) string {
	h := fnv.New64a()
	_, _ = h.Write([]byte(a.ID))
	return strconv.FormatUint(h.Sum64(), 36)
}
