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

// held is an account with what the API does not show.
type held struct {
	account
	VisibleAt time.Time `json:"visible_at"`
}

func (s *instantly) workspace(w http.ResponseWriter, _ *http.Request, in *workspace) {
	simulate.Reply(w, http.StatusOK, map[string]any{
		"id": in.ID, "name": in.Name, "owner": "019ffad2-5cac-7fb9-a336-43e00eee8acc",
		"timestamp_created": simulate.Stamp(in.Created), "timestamp_updated": simulate.Stamp(in.Created),
		"plan_id": "pid_hg_v1", "org_logo_url": nil, "org_client_domain": nil,
	})
}

// visible are the accounts that can be seen now and that take wants, oldest
// first.
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

// place is the cursor after an account.
func (a *account) place() string { return a.Created + "&" + a.Email }

// listing is a request for a page of accounts.
type listing struct {
	limit  int
	after  string
	search string
	equals map[string]func(*account) string // by the parameter's name
}

func (l listing) takes(q url.Values, a *account) bool {
	for name, of := range l.equals {
		if want := q.Get(name); want != "" && want != of(a) {
			return false
		}
	}
	return l.later(a) && (l.search == "" || strings.Contains(strings.ToLower(a.Email), l.search))
}

// later reports whether an account comes after the cursor, which was a time
// alone once and still may be.
func (l listing) later(a *account) bool {
	at, email, whole := strings.Cut(l.after, "&")
	return a.Created > at || whole && a.Created == at && a.Email > email
}

func readListing(q url.Values) (listing, string) {
	l := listing{limit: 10, after: q.Get("starting_after"), search: strings.ToLower(q.Get("search")), equals: map[string]func(*account) string{
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
	at, _, _ := strings.Cut(l.after, "&")
	if _, err := time.Parse(time.RFC3339, at); l.after != "" && err != nil {
		return l, "Invalid starting_after"
	}
	return l, ""
}

// listAccounts gives a page. A cursor comes with every page that has accounts,
// also the last one.
func (s *instantly) listAccounts(w http.ResponseWriter, r *http.Request, in *workspace) {
	q := r.URL.Query()
	l, wrong := readListing(q)
	if wrong != "" {
		refuse(w, http.StatusBadRequest, wrong)
		return
	}
	quiet, circling := false, false
	s.file.View(func(all *state) { quiet, circling = all.NoCursor, all.RepeatPage })
	if circling {
		l.after = ""
	}
	all := s.visible(in, func(a *account) bool { return l.takes(q, a) })
	items := append([]*account{}, all[:min(l.limit, len(all))]...)
	doc := map[string]any{"items": items}
	if len(items) > 0 && !(quiet && len(items) == len(all)) {
		doc["next_starting_after"] = items[len(items)-1].place()
	}
	simulate.Reply(w, http.StatusOK, doc)
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
	simulate.Reply(w, http.StatusOK, found)
}

func (s *instantly) deleteAccount(w http.ResponseWriter, r *http.Request, in *workspace) {
	var gone *held
	email := r.PathValue("email")
	err := s.file.Do(func(all *state) {
		accounts := all.Workspaces[in.ID].Accounts
		if a := accounts[strings.ToLower(email)]; a != nil && a.Email == email {
			gone = a
			delete(accounts, strings.ToLower(email))
		}
	})
	switch {
	case err != nil:
		refuse(w, http.StatusInternalServerError, err.Error())
	case gone == nil:
		refuse(w, http.StatusNotFound, "Account not found")
	default:
		simulate.Reply(w, http.StatusOK, gone.account)
	}
}
