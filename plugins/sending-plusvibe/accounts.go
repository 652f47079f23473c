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

	"github.com/tenantry/tenantry/plugins/sdk"
)

const (
	// perPage is the number of accounts on a page, without the overlap. Other clients of PlusVibe
	// use the same number.
	perPage = 100
	// overlap is how many accounts of the next page each request also asks for. If an account is
	// removed during the listing, the later accounts move forward. Without the overlap, the listing
	// could then skip an account, which the host would take for removed.
	overlap = 5
)

// accountDoc is an account of /account/list, reduced to the members that the plugin reads.
type accountDoc struct {
	Email   string `json:"email"`
	Status  text   `json:"status"`
	Updated text   `json:"timestamp_updated"`
	Payload struct {
		Name struct {
			First string `json:"first_name"`
			Last  string `json:"last_name"`
		} `json:"name"`
	} `json:"payload"`
}

// Account implements sdk.SendingPlatform. PlusVibe's filter matches parts of addresses, so Account
// compares each address.
func (p *platform) Account(ctx context.Context, address string) (sdk.Account, error) {
	for cursor := ""; ; {
		page, err := p.list(ctx, address, cursor)
		if err != nil {
			return sdk.Account{}, err
		}
		for _, a := range page.Accounts {
			if sdk.SameAddress(a.Address, address) {
				return a, nil
			}
		}
		if cursor = page.Next; cursor == "" {
			return sdk.Account{}, nil
		}
	}
}

// Accounts implements sdk.SendingPlatform.
func (p *platform) Accounts(ctx context.Context, cursor string) (sdk.Page, error) {
	return p.list(ctx, "", cursor)
}

// list returns one page. The cursor has three parts, separated by spaces. The first part is the
// value of skip. The second part is the hash of the first account of the previous page. The third
// part contains the hashes of the accounts in the overlap. If the page is the previous page again,
// list fails with Broken. It also fails if the page contains none of the accounts in the overlap,
// because the listing could then skip accounts.
func (p *platform) list(ctx context.Context, search, cursor string) (sdk.Page, error) {
	if p.workspace == "" {
		return sdk.Page{}, sdk.Misconfigured(fieldWorkspace, "it is missing")
	}
	var cursorPosition position
	if cursor != "" {
		hashes := ""
		if n, err := fmt.Sscan(cursor, &cursorPosition.skip, &cursorPosition.previousFirst, &hashes); err != nil || n != 3 || cursorPosition.skip < 1 {
			return sdk.Page{}, sdk.RequestRefused("cursor")
		}
		if hashes != noHashes {
			cursorPosition.overlapping = strings.Split(hashes, ",")
		}
	}
	query := url.Values{"workspace_id": {p.workspace}, "skip": {strconv.Itoa(cursorPosition.skip)}, "limit": {strconv.Itoa(perPage + overlap)}}
	if search != "" {
		query.Set("email", search)
	}
	a, err := p.call(ctx, request{method: http.MethodGet, path: "/account/list", query: query})
	if err != nil {
		return sdk.Page{}, err
	}
	var answer struct {
		Accounts *[]accountDoc `json:"accounts"`
	}
	if err := a.decode(&answer); err != nil {
		return sdk.Page{}, err
	}
	if answer.Accounts == nil {
		return sdk.Page{}, sdk.BrokenAnswer("no_accounts")
	}
	return p.page(ctx, *answer.Accounts, cursorPosition)
}

// position is a decoded cursor of a listing.
type position struct {
	skip          int
	previousFirst string   // the hash of the first account of the previous page
	overlapping   []string // the hashes of the accounts of this page that were also on the previous page
}

// noHashes stands for an empty list of hashes in a cursor.
const noHashes = "-"

// page converts a page of the API. It omits the accounts that were on the previous page.
func (p *platform) page(ctx context.Context, docs []accountDoc, cursorPosition position) (sdk.Page, error) {
	var page sdk.Page
	overlapMissing := len(cursorPosition.overlapping) > 0
	for _, doc := range docs {
		if doc.Email == "" {
			return sdk.Page{}, sdk.BrokenAnswer("account_without_address")
		}
		if slices.Contains(cursorPosition.overlapping, hashOf(doc)) {
			overlapMissing = false
			continue
		}
		page.Accounts = append(page.Accounts, doc.account())
		if _, known := classify(string(doc.Status)); !known {
			p.process.logUnknownStatus(ctx, string(doc.Status))
		}
	}
	if overlapMissing {
		return sdk.Page{}, sdk.BrokenAnswer("list_changed")
	}
	if len(docs) < perPage {
		return page, nil
	}
	first := hashOf(docs[0])
	if first == cursorPosition.previousFirst {
		return sdk.Page{}, sdk.BrokenAnswer("repeated_page")
	}
	var overlapHashes []string
	for _, doc := range docs[perPage:] {
		overlapHashes = append(overlapHashes, hashOf(doc))
	}
	page.Next = fmt.Sprint(cursorPosition.skip+perPage, " ", first, " ", cmp.Or(strings.Join(overlapHashes, ","), noHashes))
	return page, nil
}

// hashOf returns a hash of the address, so that a cursor contains no addresses.
func hashOf(d accountDoc) string {
	h := fnv.New64a()
	_, _ = h.Write([]byte(d.Email))
	return strconv.FormatUint(h.Sum64(), 16)
}

// account converts an account to sdk.Account. The id of an account is its address, because the call
// to deletePath takes an address. Account.Stamp changes if timestamp_updated or the status changes.
func (d accountDoc) account() sdk.Account {
	s, _ := classify(string(d.Status))
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

// loggable matches the statuses that may be logged. Other texts may contain customer data.
var loggable = regexp.MustCompile(`^[A-Za-z_ -]{1,40}$`)

// logUnknownStatus logs a status that classify does not know, once for each process and status.
func (s *processState) logUnknownStatus(ctx context.Context, status string) {
	if !loggable.MatchString(status) {
		status = "(not a word)"
	}
	if _, logged := s.loggedStatuses.LoadOrStore(status, true); !logged {
		slog.WarnContext(ctx, "PlusVibe has accounts in a status that this plugin does not know", "status", status)
	}
}

// Remove implements sdk.SendingPlatform. PlusVibe does not document the call. If PlusVibe refuses
// the call, or answers without "success", Remove reads the account. A missing account counts as
// removed. If the account exists and the answer was 404 or 405, PlusVibe does not have the call,
// and Remove returns sdk.NotSupported.
func (p *platform) Remove(ctx context.Context, account string) error {
	if p.workspace == "" {
		return sdk.Misconfigured(fieldWorkspace, "it is missing")
	}
	a, err := p.call(ctx, request{method: http.MethodPost, path: deletePath,
		body: map[string]string{"workspace_id": p.workspace, "email": account}})
	if err != nil {
		return err
	}
	var answer struct {
		Status text `json:"status"`
	}
	err = a.decode(&answer)
	switch {
	case err == nil && answer.Status == "success":
		return nil
	case err != nil && !isRefusal(err):
		return err
	}
	remaining, err := p.Account(ctx, account)
	switch {
	case err != nil:
		return sdk.UnknownEffect("not_read_back")
	case !remaining.Exists():
		return nil
	case a.status == http.StatusNotFound, a.status == http.StatusMethodNotAllowed:
		return sdk.NotSupported(sdk.CanDisconnect)
	default:
		return sdk.RequestRefused("plusvibe not_removed")
	}
}
