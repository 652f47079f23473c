// SPDX-License-Identifier: Apache-2.0

package simulator

import (
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/tenantry/tenantry/plugins/sdk/simulate"
)

// maxPage is the maximum page size of a list.
const maxPage = 100

// account is a mail account with the members of the API.
type account struct {
	ID          int     `json:"id"`
	UserID      int     `json:"user_id"`
	FromName    string  `json:"from_name"`
	FromEmail   string  `json:"from_email"`
	Username    string  `json:"username"`
	Type        string  `json:"type"`
	ClientID    *int    `json:"client_id"`
	SMTP        *bool   `json:"is_smtp_success"`
	SMTPFailure *string `json:"smtp_failure_error"`
	IMAP        *bool   `json:"is_imap_success"`
	IMAPFailure *string `json:"imap_failure_error"`
	Suspended   bool    `json:"is_suspended"`
	PerDay      int     `json:"message_per_day"`
	Created     string  `json:"created_at"`
	Updated     string  `json:"updated_at"`
	Status      string  `json:"connection_status,omitempty"`
	// Visible is the time from which lists contain the account.
	Visible time.Time `json:"visible"`
}

// clone returns a deep copy.
func (a account) clone() account {
	a.ClientID, a.SMTP, a.IMAP = clonePointer(a.ClientID), clonePointer(a.SMTP), clonePointer(a.IMAP)
	a.SMTPFailure, a.IMAPFailure = clonePointer(a.SMTPFailure), clonePointer(a.IMAPFailure)
	return a
}

func clonePointer[T any](p *T) *T {
	if p == nil {
		return nil
	}
	return new(*p)
}

func pointerToTrue() *bool { return new(true) }

// doc returns the account as the API shows it.
func (a account) doc(q quirks) map[string]any {
	number := func(n int) any {
		if q.NumbersAsStrings {
			return strconv.Itoa(n)
		}
		return n
	}
	doc := map[string]any{
		"id": number(a.ID), "from_name": a.FromName, "from_email": a.FromEmail, "username": a.Username, "type": a.Type, "client_id": nil,
		"smtp_host": "smtp.office365.com", "smtp_port": number(587), "smtp_port_type": "TLS", "is_smtp_success": a.SMTP, "smtp_failure_error": a.SMTPFailure,
		"imap_host": "outlook.office365.com", "imap_port": number(993), "is_imap_success": a.IMAP, "imap_failure_error": a.IMAPFailure,
		"is_suspended": a.Suspended, "message_per_day": number(a.PerDay), "daily_sent_count": number(0), "campaign_count": number(0),
		"created_at": a.Created, "updated_at": a.Updated, "warmup_details": nil,
	}
	if a.ClientID != nil {
		doc["client_id"] = number(*a.ClientID)
	}
	if a.Status != "" {
		doc["connection_status"] = a.Status
	}
	return doc
}

func (s *smartlead) listAccounts(w http.ResponseWriter, r *http.Request) {
	query := r.URL.Query()
	offset, limit := 0, maxPage
	for name, into := range map[string]*int{"offset": &offset, "limit": &limit} {
		if text := query.Get(name); text != "" {
			n, err := strconv.Atoi(text)
			if err != nil || n < 0 {
				simulate.WriteJSON(w, http.StatusBadRequest, map[string]string{"error": "Bad Request", "message": `"` + name + `" must be a number`})
				return
			}
			*into = n
		}
	}
	if limit < 1 || limit > maxPage {
		simulate.WriteJSON(w, http.StatusBadRequest, map[string]string{"error": "Bad Request", "message": `"limit" must be between 1 and 100`})
		return
	}
	found, q := []map[string]any{}, quirks{}
	now := s.kit.Now()
	s.file.View(func(st *state) {
		q = st.Quirks
		for _, a := range st.Accounts {
			if a.UserID == user(r) && !a.Visible.After(now) && a.matches(query.Get) {
				found = append(found, a.doc(q))
			}
		}
	})
	found = found[min(offset, len(found)):]
	found = found[:min(limit, len(found))]
	if q.Envelope {
		simulate.WriteJSON(w, http.StatusOK, map[string]any{"success": true, "data": found})
		return
	}
	simulate.WriteJSON(w, http.StatusOK, found)
}

// matches reports whether an account passes the filters of a list.
func (a account) matches(filter func(string) string) bool {
	name, client, esp, smtp := strings.ToLower(filter("username")), filter("client_id"), filter("esp"), filter("isSmtpSuccess")
	switch {
	case name != "" && !strings.Contains(strings.ToLower(a.Username), name) && !strings.Contains(strings.ToLower(a.FromEmail), name):
		return false
	case client != "" && (a.ClientID == nil || strconv.Itoa(*a.ClientID) != client):
		return false
	case esp != "" && esp != a.Type:
		return false
	case smtp != "" && (a.SMTP == nil || strconv.FormatBool(*a.SMTP) != smtp):
		return false
	}
	return true
}

// getAccount answers with an account, including what lists leave out, such as the password in plain
// text.
func (s *smartlead) getAccount(w http.ResponseWriter, r *http.Request) {
	var doc map[string]any
	s.file.View(func(st *state) {
		if i := st.indexOf(user(r), r.PathValue("id")); i >= 0 {
			a := st.Accounts[i]
			doc = a.doc(st.Quirks)
			doc["user_id"], doc["password"], doc["signature"] = a.UserID, Password(a.ID), ""
			if st.Quirks.NumbersAsStrings {
				doc["user_id"] = strconv.Itoa(a.UserID)
			}
		}
	})
	if doc == nil {
		simulate.WriteJSON(w, http.StatusNotFound, map[string]any{"success": false, "error": map[string]string{"code": "NOT_FOUND", "message": "Email account not found"}})
		return
	}
	simulate.WriteJSON(w, http.StatusOK, doc)
}

// Password returns the password that the API shows for an account.
func Password(id int) string { return fmt.Sprintf("simulated-password-of-%d", id) }

func (s *smartlead) deleteAccount(w http.ResponseWriter, r *http.Request) {
	removed, err := false, error(nil)
	id, _ := strconv.Atoi(r.PathValue("id"))
	err = s.file.Do(func(st *state) {
		if i := st.indexOf(user(r), r.PathValue("id")); i >= 0 {
			st.Accounts, removed = slices.Delete(st.Accounts, i, i+1), true
		}
	})
	switch {
	case err != nil:
		fail(w, http.StatusInternalServerError, err.Error())
	case !removed:
		simulate.WriteJSON(w, http.StatusNotFound, map[string]any{"ok": false, "message": "Email account not found!", "errorCode": "ACCOUNT_NOT_FOUND", "emailAccountId": id})
	default:
		simulate.WriteJSON(w, http.StatusOK, map[string]any{"ok": true, "message": "Email account deleted successfully!", "emailAccountId": id})
	}
}

// suspend suspends an account on PUT and resumes it on DELETE.
func (s *smartlead) suspend(w http.ResponseWriter, r *http.Request) {
	suspended, known := r.Method == http.MethodPut, false
	err := s.file.Do(func(st *state) {
		if i := st.indexOf(user(r), r.PathValue("id")); i >= 0 {
			st.Accounts[i].Suspended, known = suspended, true
		}
	})
	switch {
	case err != nil:
		fail(w, http.StatusInternalServerError, err.Error())
	case !known:
		fail(w, http.StatusBadRequest, "Email account not found")
	default:
		simulate.WriteJSON(w, http.StatusOK, map[string]any{"success": true, "message": "done", "data": map[string]any{"accountId": r.PathValue("id"), "isSuspended": suspended}})
	}
}

func (s *smartlead) listClients(w http.ResponseWriter, r *http.Request) {
	all := []client{}
	s.file.View(func(st *state) {
		for _, c := range st.Clients {
			if c.UserID == user(r) {
				all = append(all, c)
			}
		}
	})
	simulate.WriteJSON(w, http.StatusOK, map[string]any{"ok": true, "data": all})
}

// indexOf returns the index of the account with an id that belongs to a user, or -1.
func (st *state) indexOf(user int, id string) int {
	return slices.IndexFunc(st.Accounts, func(a *account) bool { return a.UserID == user && strconv.Itoa(a.ID) == id })
}
