// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"context"
	"fmt"
	"hash/fnv"
	"log/slog"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/tenantry/tenantry/core/integration"
	"github.com/tenantry/tenantry/plugins/sdk"
)

const (
	// perPage is how far clients that are known to work go on at a time.
	perPage = 100
	// overlap is how many accounts of the next page a page shows too, if
	// PlusVibe gives that many. An account that is taken out meanwhile moves those
	// behind it to the front, and the one that slipped by would pass for gone.
	overlap = 5
)

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

// list reads one page. The cursor is how many accounts came before, a mark of the
// last page's first, and marks of those that the last page showed ahead: a page
// that comes again is no new one, and a listing that stops at it, or that has
// moved, may lack accounts.
func (p *provider) list(ctx context.Context, search, cursor string) (sdk.Page, error) {
	if p.workspace == "" {
		return sdk.Page{}, sdk.Misconfigured(fieldWorkspace, "it is missing")
	}
	var at place
	if cursor != "" {
		marks := ""
		if n, err := fmt.Sscan(cursor, &at.skip, &at.before, &marks); err != nil || n != 3 || at.skip < 1 {
			return sdk.Page{}, sdk.RefusedBy("cursor")
		}
		if marks != none {
			at.shown = strings.Split(marks, ",")
		}
	}
	query := url.Values{"workspace_id": {p.workspace}, "skip": {strconv.Itoa(at.skip)}, "limit": {strconv.Itoa(perPage + overlap)}}
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
	return p.page(ctx, *said.Accounts, at)
}

// place is where a listing goes on.
type place struct {
	skip   int
	before string   // the mark of the first account of the page before
	shown  []string // the marks of accounts of this page that the page before showed
}

// none stands for no marks in a cursor.
const none = "-"

func (p *provider) page(ctx context.Context, docs []accountDoc, at place) (sdk.Page, error) {
	var page sdk.Page
	moved := len(at.shown) > 0
	for _, d := range docs {
		if d.Email == "" {
			return sdk.Page{}, sdk.BrokenBy("account_without_address")
		}
		if slices.Contains(at.shown, markOf(d)) {
			moved = false
			continue
		}
		page.Accounts = append(page.Accounts, d.account())
		if _, known := standingOf(string(d.Status)); !known {
			p.house.tell(ctx, string(d.Status))
		}
	}
	if moved {
		return sdk.Page{}, sdk.BrokenBy("list_moved")
	}
	if len(docs) < perPage {
		return page, nil
	}
	first := markOf(docs[0])
	if first == at.before {
		return sdk.Page{}, sdk.BrokenBy("repeated_page")
	}
	var ahead []string
	for _, d := range docs[perPage:] {
		ahead = append(ahead, markOf(d))
	}
	page.Next = fmt.Sprint(at.skip+perPage, " ", first, " ", cmp.Or(strings.Join(ahead, ","), none))
	return page, nil
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
