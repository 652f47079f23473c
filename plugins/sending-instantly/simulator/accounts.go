// SPDX-License-Identifier: Apache-2.0

package simulator

import (
	"cmp"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/tenantry/tenantry/plugins/sdk/simulate"
)

// microsoft is the provider code of accounts that sign in with Microsoft.
const microsoft = 3

// account is an account as the API shows it.
type account struct {
	Email         string `json:"email"`
	Created       string `json:"timestamp_created"`
	Updated       string `json:"timestamp_updated"`
	FirstName     string `json:"first_name"`
	LastName      string `json:"last_name"`
	Organization  string `json:"organization"`
	Status        int    `json:"status"`
	WarmupStatus  int    `json:"warmup_status"`
	ProviderCode  int    `json:"provider_code"`
	SetupPending  bool   `json:"setup_pending"`
	Managed       bool   `json:"is_managed_account"`
	DailyLimit    *int   `json:"daily_limit"`
	AutofixFailed *bool  `json:"autofix_failed"`
}

// storedAccount is an account with the fields that the API does not show.
type storedAccount struct {
	account
	VisibleAt time.Time `json:"visible_at"`
}

func (s *instantly) workspace(w http.ResponseWriter, _ *http.Request, in *workspace) {
	simulate.WriteJSON(w, http.StatusOK, map[string]any{
		"id": in.ID, "name": in.Name, "owner": "019ffad2-5cac-7fb9-a336-43e00eee8acc",
		"timestamp_created": simulate.FormatTime(in.Created), "timestamp_updated": simulate.FormatTime(in.Created),
		"plan_id": "pid_hg_v1", "org_logo_url": nil, "org_client_domain": nil,
	})
}

// visible returns the visible accounts of a workspace for which take returns true, oldest first.
func (s *instantly) visible(in *workspace, take func(*account) bool) []*account {
	var out []*account
	now := s.kit.Now()
	s.file.View(func(all *state) {
		for _, a := range all.Workspaces[in.ID].Accounts {
			if shown := a.account; !a.VisibleAt.After(now) && take(&shown) {
				out = append(out, &shown)
			}
		}
	})
	slices.SortFunc(out, func(a, b *account) int {
		return cmp.Or(strings.Compare(a.Created, b.Created), strings.Compare(a.Email, b.Email))
	})
	return out
}

// cursor returns the cursor of the page after an account.
func (a *account) cursor() string { return a.Created + "&" + a.Email }

// listing holds the parameters of a request for a page of accounts.
type listing struct {
	limit  int
	after  string
	search string
	equals map[string]func(*account) string // the fields that filters compare, by parameter name
}

// takes reports whether an account passes the filters and comes after the cursor.
func (l listing) takes(q url.Values, a *account) bool {
	for name, of := range l.equals {
		if want := q.Get(name); want != "" && want != of(a) {
			return false
		}
	}
	return l.isAfterCursor(a) && (l.search == "" || strings.Contains(strings.ToLower(a.Email), l.search))
}

// isAfterCursor reports whether an account comes after the cursor. Instantly also accepts the
// former cursors, which hold only a time.
func (l listing) isAfterCursor(a *account) bool {
	created, email, hasEmail := strings.Cut(l.after, "&")
	return a.Created > created || hasEmail && a.Created == created && a.Email > email
}

// readListing reads the parameters of a list. problem is the message of a 400, or "".
func readListing(q url.Values) (l listing, problem string) {
	l = listing{limit: 10, after: q.Get("starting_after"), search: strings.ToLower(q.Get("search")), equals: map[string]func(*account) string{
		"status":        func(a *account) string { return strconv.Itoa(a.Status) },
		"provider_code": func(a *account) string { return strconv.Itoa(a.ProviderCode) },
	}}
	for name := range q {
		if !slices.Contains([]string{"limit", "starting_after", "search", "status", "provider_code"}, name) {
			return l, "querystring/" + name + " is not simulated"
		}
	}
	if text := q.Get("limit"); text != "" {
		n, err := strconv.Atoi(text)
		if err != nil || n < 1 || n > 100 {
			return l, "querystring/limit must be <= 100 and >= 1"
		}
		l.limit = n
	}
	created, _, _ := strings.Cut(l.after, "&")
	if _, err := time.Parse(time.RFC3339, created); l.after != "" && err != nil {
		return l, "Invalid starting_after"
	}
	return l, ""
}

// listAccounts answers with a page. Every page with accounts has a cursor, the last one too.
func (s *instantly) listAccounts(w http.ResponseWriter, r *http.Request, in *workspace) {
	q := r.URL.Query()
	l, problem := readListing(q)
	if problem != "" {
		refuse(w, http.StatusBadRequest, problem)
		return
	}
	noCursor, repeatPage := false, false
	s.file.View(func(all *state) { noCursor, repeatPage = all.NoCursor, all.RepeatPage })
	if repeatPage {
		l.after = ""
	}
	all := s.visible(in, func(a *account) bool { return l.takes(q, a) })
	items := append([]*account{}, all[:min(l.limit, len(all))]...)
	doc := map[string]any{"items": items}
	if len(items) > 0 && !(noCursor && len(items) == len(all)) {
		doc["next_starting_after"] = items[len(items)-1].cursor()
	}
	simulate.WriteJSON(w, http.StatusOK, doc)
}

func (s *instantly) getAccount(w http.ResponseWriter, r *http.Request, in *workspace) {
	email, now := r.PathValue("email"), s.kit.Now()
	var found *account
	s.file.View(func(all *state) {
		if a := all.Workspaces[in.ID].Accounts[strings.ToLower(email)]; a != nil && a.Email == email && !a.VisibleAt.After(now) {
			shown := a.account
			found = &shown
		}
	})
	if found == nil {
		refuse(w, http.StatusNotFound, "Account not found")
		return
	}
	simulate.WriteJSON(w, http.StatusOK, found)
}

func (s *instantly) deleteAccount(w http.ResponseWriter, r *http.Request, in *workspace) {
	var removed *storedAccount
	email := r.PathValue("email")
	err := s.file.Do(func(all *state) {
		accounts := all.Workspaces[in.ID].Accounts
		if a := accounts[strings.ToLower(email)]; a != nil && a.Email == email {
			removed = a
			delete(accounts, strings.ToLower(email))
		}
	})
	switch {
	case err != nil:
		refuse(w, http.StatusInternalServerError, err.Error())
	case removed == nil:
		refuse(w, http.StatusNotFound, "Account not found")
	default:
		simulate.WriteJSON(w, http.StatusOK, removed.account)
	}
}
