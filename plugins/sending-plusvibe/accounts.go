// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"hash/fnv"
	"log/slog"
	"net/http"
	"net/url"
	"regexp"
	"strconv"
	"strings"

	"github.com/tenantry/tenantry/core/integration"
	"github.com/tenantry/tenantry/plugins/sdk"
)

// perPage is what clients that are known to work ask for.
const perPage = 100

// accountDoc is an account as /account/list shows it.
type accountDoc struct {
	Email   string `json:"email"`
	Status  loose  `json:"status"`
	Updated loose  `json:"timestamp_updated"`
	Payload struct {
		Name struct {
			First string `json:"first_name"`
			Last  string `json:"last_name"`
		} `json:"name"`
	} `json:"payload"`
}

// Account implements sdk.SendingPlatform. PlusVibe finds addresses that contain
// the one asked for, so each is compared.
func (p *provider) Account(ctx context.Context, address string) (sdk.Account, error) {
	for cursor := ""; ; {
		page, err := p.list(ctx, address, cursor)
		if err != nil {
			return sdk.Account{}, err
		}
		for _, a := range page.Accounts {
			if integration.SameAddress(a.Address, address) {
				return a, nil
			}
		}
		if cursor = page.Next; cursor == "" {
			return sdk.Account{}, nil
		}
	}
}

// Accounts implements sdk.SendingPlatform.
func (p *provider) Accounts(ctx context.Context, cursor string) (sdk.Page, error) {
	return p.list(ctx, "", cursor)
}

// list reads one page. The cursor is how many accounts came before and a mark of
// the last page's first: a page that comes again is no new one, and a listing
// that stops at it may lack accounts.
func (p *provider) list(ctx context.Context, search, cursor string) (sdk.Page, error) {
	if p.workspace == "" {
		return sdk.Page{}, sdk.Misconfigured(fieldWorkspace, "it is missing")
	}
	skip, before := 0, ""
	if cursor != "" {
		if n, err := fmt.Sscan(cursor, &skip, &before); err != nil || n != 2 || skip < 1 {
			return sdk.Page{}, sdk.RefusedBy("cursor")
		}
	}
	query := url.Values{"workspace_id": {p.workspace}, "skip": {strconv.Itoa(skip)}, "limit": {strconv.Itoa(perPage)}}
	if search != "" {
		query.Set("email", search)
	}
	a, err := p.ask(ctx, request{method: http.MethodGet, path: "/account/list", query: query})
	if err != nil {
		return sdk.Page{}, err
	}
	var said struct {
		Accounts *[]accountDoc `json:"accounts"`
	}
	if err := a.read(&said); err != nil {
		return sdk.Page{}, err
	}
	if said.Accounts == nil {
		return sdk.Page{}, sdk.BrokenBy("no_accounts")
	}
	return p.page(ctx, *said.Accounts, skip, before)
}

func (p *provider) page(ctx context.Context, docs []accountDoc, skip int, before string) (sdk.Page, error) {
	var page sdk.Page
	for _, d := range docs {
		if d.Email == "" {
			return sdk.Page{}, sdk.BrokenBy("account_without_address")
		}
		page.Accounts = append(page.Accounts, d.account())
		if _, known := standingOf(string(d.Status)); !known {
			p.house.tell(ctx, string(d.Status))
		}
	}
	if len(docs) < perPage {
		return page, nil
	}
	if mark := markOf(docs[0]); mark != before {
		page.Next = fmt.Sprint(skip+len(docs), " ", mark)
		return page, nil
	}
	return sdk.Page{}, sdk.BrokenBy("repeated_page")
}

// markOf recognises an account without naming it.
func markOf(d accountDoc) string {
	h := fnv.New64a()
	_, _ = h.Write([]byte(d.Email))
	return strconv.FormatUint(h.Sum64(), 16)
}

// account is the account as the port has it. Its id is its address, which is all
// that PlusVibe's deletion takes. What signs it in anew changes the time of its
// last change, or its status.
func (d accountDoc) account() sdk.Account {
	s, _ := standingOf(string(d.Status))
	a := sdk.Account{
		ID: d.Email, Address: d.Email, Name: strings.TrimSpace(d.Payload.Name.First + " " + d.Payload.Name.Last),
		State: s.state, Paused: s.paused, Stamp: fmt.Sprint(d.Updated, " ", d.Status),
	}
	switch s.state {
	case sdk.AccountFailed:
		a.HasError, a.Reason = true, "connection_error"
	case sdk.AccountOther:
		a.Reason = "unknown_status"
	}
	return a
}

// plain are statuses that can be logged: nothing of a customer's is in them.
var plain = regexp.MustCompile(`^[A-Za-z_ -]{1,40}$`)

// tell logs a status that nobody foresaw, once, so that an operator can say what
// it is.
func (h *house) tell(ctx context.Context, status string) {
	if !plain.MatchString(status) {
		status = "(not a word)"
	}
	if _, told := h.told.LoadOrStore(status, true); !told {
		slog.WarnContext(ctx, "PlusVibe has accounts in a status that this plugin does not know", "status", status)
	}
}
