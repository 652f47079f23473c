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

// account is a sender e-mail, by the names of the API.
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

// doc is an account as the API shows it.
func (a account) doc() map[string]any {
	return map[string]any{
		"id": a.ID, "name": a.Name, "email": a.Email, "email_signature": nil, "imap_server": a.IMAPServer, "imap_port": a.IMAPPort,
		"smtp_server": a.SMTPServer, "smtp_port": a.SMTPPort, "daily_limit": a.DailyLimit, "type": a.Type, "status": a.Status, "warmup_enabled": false,
		"emails_sent_count": 0, "bounced_count": 0, "total_replied_count": 0, "tags": []any{}, "created_at": a.Created, "updated_at": a.Updated,
	}
}

func stamp(at time.Time) string { return at.Format("2006-01-02T15:04:05.000000Z") }

// add makes an account as the uploader does.
func (s *state) add(workspace int, address string, now time.Time) *account {
	s.Serial++
	local, _, _ := strings.Cut(address, "@")
	a := &account{
		ID: s.Serial, Workspace: workspace, Name: local, Email: address, IMAPServer: "outlook.office365.com", IMAPPort: 993,
		SMTPServer: "smtp.office365.com", SMTPPort: 587, DailyLimit: 15, Type: "Microsoft", Status: "Connected", Created: stamp(now), Updated: stamp(now),
	}
	s.Accounts = append(s.Accounts, a)
	return a
}

func (s *state) at(workspace int, address string) *account {
	for _, a := range s.Accounts {
		if a.Workspace == workspace && strings.EqualFold(a.Email, address) {
			return a
		}
	}
	return nil
}

// find looks for an account by its id, or by its address in the place of one.
func (s *state) find(by token, r *http.Request) int {
	id := r.PathValue("id")
	return slices.IndexFunc(s.Accounts, func(a *account) bool {
		return a.Workspace == by.Workspace && (strconv.Itoa(a.ID) == id || strings.EqualFold(a.Email, id))
	})
}

func (e *emailbison) list(w http.ResponseWriter, r *http.Request, by token) {
	found, size := []map[string]any{}, pageSize
	search := strings.ToLower(r.URL.Query().Get("search"))
	e.file.View(func(s *state) {
		if n, err := strconv.Atoi(r.URL.Query().Get("per_page")); err == nil && n > 0 && s.Quirks.HonourPerPage {
			size = n
		}
		for _, a := range s.Accounts {
			if a.Workspace == by.Workspace && (s.Quirks.IgnoreSearch || strings.Contains(strings.ToLower(a.Name+"\n"+a.Email), search)) {
				found = append(found, a.doc())
			}
		}
	})
	paged(w, r, found, size)
}

func (e *emailbison) one(w http.ResponseWriter, r *http.Request, by token) {
	var doc map[string]any
	e.file.View(func(s *state) {
		if i := s.find(by, r); i >= 0 {
			doc = s.Accounts[i].doc()
		}
	})
	if doc == nil {
		notFound(w)
		return
	}
	data(w, doc)
}

func (e *emailbison) remove(w http.ResponseWriter, r *http.Request, by token) {
	gone := false
	err := e.file.Do(func(s *state) {
		if i := s.find(by, r); i >= 0 {
			s.Accounts, gone = slices.Delete(s.Accounts, i, i+1), true
		}
	})
	if err == nil && !gone {
		notFound(w)
		return
	}
	done(w, err, map[string]any{"success": true, "message": "The sender email has been deleted."})
}

func (e *emailbison) patch(w http.ResponseWriter, r *http.Request, by token) {
	var in struct {
		Name       *string `json:"name"`
		DailyLimit *int    `json:"daily_limit"`
	}
	if json.NewDecoder(r.Body).Decode(&in) != nil || in.DailyLimit != nil && *in.DailyLimit < 0 {
		invalid(w, "daily_limit", "The daily limit field must be at least 0.")
		return
	}
	var doc map[string]any
	err := e.file.Do(func(s *state) {
		i := s.find(by, r)
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
		a.Updated = stamp(e.kit.Now())
		doc = a.doc()
	})
	if err == nil && doc == nil {
		notFound(w)
		return
	}
	done(w, err, doc)
}

// create connects by a password, which no mailbox of Microsoft 365 has for this.
func (e *emailbison) create(w http.ResponseWriter, r *http.Request, by token) {
	var in map[string]any
	_ = json.NewDecoder(r.Body).Decode(&in)
	for _, field := range []string{"name", "email", "password", "imap_server", "imap_port", "smtp_server", "smtp_port"} {
		if in[field] == nil || in[field] == "" {
			invalid(w, field, "The "+strings.ReplaceAll(field, "_", " ")+" field is required.")
			return
		}
	}
	address, _ := in["email"].(string)
	taken, doc := false, map[string]any{}
	err := e.file.Do(func(s *state) {
		if taken = s.at(by.Workspace, address) != nil; taken {
			return
		}
		a := s.add(by.Workspace, address, e.kit.Now())
		a.Name, _ = in["name"].(string)
		a.Type, a.Status = "Inbox", "Connected"
		doc = a.doc()
	})
	if taken {
		invalid(w, "email", "The email has already been taken.")
		return
	}
	done(w, err, doc)
}

// accessToken hands out a live token of the mailbox itself.
func (e *emailbison) accessToken(w http.ResponseWriter, r *http.Request, by token) {
	known := false
	e.file.View(func(s *state) { known = s.find(by, r) >= 0 })
	if !known {
		notFound(w)
		return
	}
	data(w, map[string]string{"access_token": "simulated-mailbox-token"})
}

// uploader is the form on which somebody connects a mailbox of the first
// workspace by hand.
func (e *emailbison) uploader() simulate.ConnectPage {
	return simulate.ConnectPage{Platform: "EmailBison", Path: connect, Connect: func(address string) error {
		return e.file.Do(func(s *state) {
			a := s.at(1, address)
			if a == nil {
				a = s.add(1, address, e.kit.Now())
			}
			a.Status, a.Updated = "Connected", stamp(e.kit.Now())
		})
	}}
}
