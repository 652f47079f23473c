// SPDX-License-Identifier: Apache-2.0

package simulator

import (
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/tenantry/tenantry/plugins/sdk/simulate"
)

// maxPage is the maximum page size of a list.
const maxPage = 100

// account is a mail account in the format of the API.
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
}

func newAccount(req *request, user, address string) account {
	id, _ := strconv.Atoi(user)
	local, _, _ := strings.Cut(address, "@")
	now := simulate.FormatTime(req.Now)
	return account{
		ID: req.State.NextSerial(), UserID: id, FromEmail: address, Username: address, FromName: local, Type: "OUTLOOK",
		SMTP: new(true), IMAP: new(true), PerDay: 20, Created: now, Updated: now,
	}
}

// attach connects an account of a user, or connects it again.
func attach(req *request, user, address string) *account {
	a := req.Account(user, address, time.Duration(req.State.Vendor.Quirks.LagSeconds)*time.Second)
	a.Type, a.SMTP, a.IMAP, a.SMTPFailure, a.IMAPFailure = "OUTLOOK", new(true), new(true), nil, nil
	return a
}

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

func listAccounts(req *request) simulate.Answer {
	offset, offsetIsValid := req.Number("offset", 0)
	limit, limitIsValid := req.Number("limit", maxPage)
	switch {
	case !offsetIsValid:
		return badRequest(`"offset" must be a number`)
	case !limitIsValid:
		return badRequest(`"limit" must be a number`)
	case limit < 1 || limit > maxPage:
		return badRequest(`"limit" must be between 1 and 100`)
	}
	found := []map[string]any{}
	for _, a := range req.Visible(req.Workspace) {
		if a.matchesFilters(req.Query) {
			found = append(found, a.doc(req.State.Vendor.Quirks))
		}
	}
	found = simulate.Slice(found, offset, limit)
	if req.State.Vendor.Quirks.Envelope {
		return simulate.OK(map[string]any{"success": true, "data": found})
	}
	return simulate.OK(found)
}

func (a account) matchesFilters(filter func(string) string) bool {
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

// findAccount returns the account of the caller with the id in the path, or nil.
func findAccount(req *request) *simulate.Account[account] {
	for _, a := range req.State.Accounts {
		if a.Workspace == req.Workspace && strconv.Itoa(a.Doc.ID) == req.Path("id") {
			return a
		}
	}
	return nil
}

// getAccount answers with an account. The answer contains members that lists omit, such as the
// password in plain text.
func getAccount(req *request) simulate.Answer {
	a := findAccount(req)
	if a == nil {
		return errorWithCode(http.StatusNotFound, "NOT_FOUND", "Email account not found")
	}
	doc := a.Doc.doc(req.State.Vendor.Quirks)
	doc["user_id"], doc["password"], doc["signature"] = a.Doc.UserID, fmt.Sprintf("simulated-password-of-%d", a.Doc.ID), ""
	if req.State.Vendor.Quirks.NumbersAsStrings {
		doc["user_id"] = strconv.Itoa(a.Doc.UserID)
	}
	return simulate.OK(doc)
}

func deleteAccount(req *request) simulate.Answer {
	id, _ := strconv.Atoi(req.Path("id"))
	a := findAccount(req)
	if a == nil {
		return simulate.Answer{Status: http.StatusNotFound, Body: map[string]any{
			"ok": false, "message": "Email account not found!", "errorCode": "ACCOUNT_NOT_FOUND", "emailAccountId": id,
		}}
	}
	req.State.Remove(a.Workspace, a.Address)
	return simulate.OK(map[string]any{"ok": true, "message": "Email account deleted successfully!", "emailAccountId": id})
}

// setSuspended suspends an account on PUT and resumes it on DELETE.
func setSuspended(req *request) simulate.Answer {
	a := findAccount(req)
	if a == nil {
		return errorAnswer(http.StatusBadRequest, "Email account not found")
	}
	a.Doc.Suspended = req.HTTP.Method == http.MethodPut
	return simulate.OK(map[string]any{"success": true, "message": "done", "data": map[string]any{"accountId": req.Path("id"), "isSuspended": a.Doc.Suspended}})
}

func listClients(req *request) simulate.Answer {
	clients := []client{}
	for _, c := range req.State.Vendor.Clients {
		if c.UserID == req.Key.UserID {
			clients = append(clients, c)
		}
	}
	return simulate.OK(map[string]any{"ok": true, "data": clients})
}

// saveOAuthRequest is the body of save-oauth.
type saveOAuthRequest struct {
	ID        *int    `json:"id"`
	FromName  *string `json:"from_name"`
	FromEmail *string `json:"from_email"`
	Username  *string `json:"username"`
	Type      string  `json:"type"`
	Token     *struct {
		Scope        string `json:"scope"`
		TokenType    string `json:"token_type"`
		AccessToken  string `json:"access_token"`
		RefreshToken string `json:"refresh_token"`
		ExpiryDate   int64  `json:"expiry_date"`
	} `json:"token"`
	Warmup     *bool `json:"warmup_enabled"`
	WhiteLabel *bool `json:"use_whitelabel_credentials"`
	ClientID   *int  `json:"client_id"`
}

// saveOAuth connects an account with OAuth tokens that the caller already has.
func saveOAuth(req *request) simulate.Answer {
	var body saveOAuthRequest
	if req.Decode(&body) != nil {
		return badRequest("the body is not JSON")
	}
	if problem := body.problem(); problem != "" {
		return invalidValue(problem)
	}
	if t := body.Token; t.TokenType != "Bearer" || time.UnixMilli(t.ExpiryDate).Before(req.Now) {
		return simulate.Answer{Status: http.StatusBadRequest, Body: map[string]any{"ok": false, "message": "Invalid or expired OAuth token"}}
	}
	a := attach(req, req.Workspace, *body.FromEmail)
	a.Username, a.Type, a.ClientID = *body.Username, body.Type, body.ClientID
	if *body.FromName != "" {
		a.FromName = *body.FromName
	}
	return simulate.OK(map[string]any{"ok": true, "message": "Email account saved", "data": map[string]any{
		"id": a.ID, "from_email": a.FromEmail, "type": a.Type, "is_smtp_success": a.SMTP, "is_imap_success": a.IMAP,
	}})
}

// problem returns the message for the first invalid field, or "".
func (r saveOAuthRequest) problem() string {
	switch t := r.Token; {
	case r.FromName == nil:
		return "from_name is required"
	case r.FromEmail == nil || !strings.Contains(*r.FromEmail, "@"):
		return "from_email is required"
	case r.Username == nil:
		return "username is required"
	case r.Type != "GMAIL" && r.Type != "OUTLOOK":
		return "type must be one of [GMAIL, OUTLOOK]"
	case t == nil || t.Scope == "" || t.AccessToken == "" || t.RefreshToken == "" || t.ExpiryDate == 0:
		return "token is required"
	case r.Warmup == nil:
		return "warmup_enabled is required"
	case r.WhiteLabel == nil:
		return "use_whitelabel_credentials is required"
	}
	return ""
}
