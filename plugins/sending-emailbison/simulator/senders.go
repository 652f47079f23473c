// SPDX-License-Identifier: Apache-2.0

package simulator

import (
	"encoding/json"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/tenantry/tenantry/plugins/sdk/simulate"
)

// account is a sender e-mail, with the member names of the API.
type account struct {
	ID         int    `json:"id"`
	Workspace  int    `json:"workspace_id"`
	Name       string `json:"name"`
	Email      string `json:"email"`
	IMAPServer string `json:"imap_server"`
	IMAPPort   int    `json:"imap_port"`
	SMTPServer string `json:"smtp_server"`
	SMTPPort   int    `json:"smtp_port"`
	DailyLimit int    `json:"daily_limit"`
	Type       string `json:"type"`
	Status     string `json:"status"`
	Created    string `json:"created_at"`
	Updated    string `json:"updated_at"`
}

// doc returns the account as the API shows it.
func (a account) doc() map[string]any {
	return map[string]any{
		"id": a.ID, "name": a.Name, "email": a.Email, "email_signature": nil, "imap_server": a.IMAPServer, "imap_port": a.IMAPPort,
		"smtp_server": a.SMTPServer, "smtp_port": a.SMTPPort, "daily_limit": a.DailyLimit, "type": a.Type, "status": a.Status, "warmup_enabled": false,
		"emails_sent_count": 0, "bounced_count": 0, "total_replied_count": 0, "tags": []any{}, "created_at": a.Created, "updated_at": a.Updated,
	}
}

func timestamp(at time.Time) string { return at.Format("2006-01-02T15:04:05.000000Z") }

// add stores a new account as the uploader creates it.
func (s *state) add(workspace int, address string, now time.Time) *account {
	s.Serial++
	local, _, _ := strings.Cut(address, "@")
	a := &account{
		ID: s.Serial, Workspace: workspace, Name: local, Email: address, IMAPServer: "outlook.office365.com", IMAPPort: 993,
		SMTPServer: "smtp.office365.com", SMTPPort: 587, DailyLimit: 15, Type: "Microsoft", Status: "Connected", Created: timestamp(now), Updated: timestamp(now),
	}
	s.Accounts = append(s.Accounts, a)
	return a
}

// account returns the account of an address in a workspace, or nil.
func (s *state) account(workspace int, address string) *account {
	for _, a := range s.Accounts {
		if a.Workspace == workspace && strings.EqualFold(a.Email, address) {
			return a
		}
	}
	return nil
}

// indexOf returns the index of the account that r names in the caller's workspace, or -1. As in the
// API, the path holds the id or the address.
func (s *state) indexOf(caller token, r *http.Request) int {
	id := r.PathValue("id")
	return slices.IndexFunc(s.Accounts, func(a *account) bool {
		return a.Workspace == caller.Workspace && (strconv.Itoa(a.ID) == id || strings.EqualFold(a.Email, id))
	})
}

func (e *emailbison) listSenders(w http.ResponseWriter, r *http.Request, caller token) {
	found, size := []map[string]any{}, pageSize
	search := strings.ToLower(r.URL.Query().Get("search"))
	e.file.View(func(s *state) {
		if n, err := strconv.Atoi(r.URL.Query().Get("per_page")); err == nil && n > 0 && s.Quirks.HonourPerPage {
			size = n
		}
		for _, a := range s.Accounts {
			if a.Workspace == caller.Workspace && (s.Quirks.IgnoreSearch || strings.Contains(strings.ToLower(a.Name+"\n"+a.Email), search)) {
				found = append(found, a.doc())
			}
		}
	})
	replyPage(w, r, found, size)
}

func (e *emailbison) getSender(w http.ResponseWriter, r *http.Request, caller token) {
	var doc map[string]any
	e.file.View(func(s *state) {
		if i := s.indexOf(caller, r); i >= 0 {
			doc = s.Accounts[i].doc()
		}
	})
	if doc == nil {
		replyNotFound(w)
		return
	}
	replyData(w, doc)
}

func (e *emailbison) deleteSender(w http.ResponseWriter, r *http.Request, caller token) {
	removed := false
	err := e.file.Do(func(s *state) {
		if i := s.indexOf(caller, r); i >= 0 {
			s.Accounts, removed = slices.Delete(s.Accounts, i, i+1), true
		}
	})
	if err == nil && !removed {
		replyNotFound(w)
		return
	}
	replyResult(w, err, map[string]any{"success": true, "message": "The sender email has been deleted."})
}

func (e *emailbison) updateSender(w http.ResponseWriter, r *http.Request, caller token) {
	var in struct {
		Name       *string `json:"name"`
		DailyLimit *int    `json:"daily_limit"`
	}
	if json.NewDecoder(r.Body).Decode(&in) != nil || in.DailyLimit != nil && *in.DailyLimit < 0 {
		replyInvalid(w, "daily_limit", "The daily limit field must be at least 0.")
		return
	}
	var doc map[string]any
	err := e.file.Do(func(s *state) {
		i := s.indexOf(caller, r)
		if i < 0 {
			return
		}
		a := s.Accounts[i]
		if in.Name != nil {
			a.Name = *in.Name
		}
		if in.DailyLimit != nil {
			a.DailyLimit = *in.DailyLimit
		}
		a.Updated = timestamp(e.kit.Now())
		doc = a.doc()
	})
	if err == nil && doc == nil {
		replyNotFound(w)
		return
	}
	replyResult(w, err, doc)
}

// createSender connects a mailbox by IMAP and SMTP password. Microsoft 365 mailboxes cannot be
// connected this way.
func (e *emailbison) createSender(w http.ResponseWriter, r *http.Request, caller token) {
	var in map[string]any
	_ = json.NewDecoder(r.Body).Decode(&in)
	for _, field := range []string{"name", "email", "password", "imap_server", "imap_port", "smtp_server", "smtp_port"} {
		if in[field] == nil || in[field] == "" {
			replyInvalid(w, field, "The "+strings.ReplaceAll(field, "_", " ")+" field is required.")
			return
		}
	}
	address, _ := in["email"].(string)
	taken, doc := false, map[string]any{}
	err := e.file.Do(func(s *state) {
		if taken = s.account(caller.Workspace, address) != nil; taken {
			return
		}
		a := s.add(caller.Workspace, address, e.kit.Now())
		a.Name, _ = in["name"].(string)
		a.Type, a.Status = "Inbox", "Connected"
		doc = a.doc()
	})
	if taken {
		replyInvalid(w, "email", "The email has already been taken.")
		return
	}
	replyResult(w, err, doc)
}

// accessToken answers with the access token of the mailbox. The plugin must never call it.
func (e *emailbison) accessToken(w http.ResponseWriter, r *http.Request, caller token) {
	known := false
	e.file.View(func(s *state) { known = s.indexOf(caller, r) >= 0 })
	if !known {
		replyNotFound(w)
		return
	}
	replyData(w, map[string]string{"access_token": "simulated-mailbox-token"})
}

// uploader returns the form on which a person connects a mailbox to the first workspace.
func (e *emailbison) uploader() simulate.ConnectPage {
	return simulate.ConnectPage{Platform: "EmailBison", Path: connect, Connect: func(address string) error {
		return e.file.Do(func(s *state) {
			a := s.account(1, address)
			if a == nil {
				a = s.add(1, address, e.kit.Now())
			}
			a.Status, a.Updated = "Connected", timestamp(e.kit.Now())
		})
	}}
}
