// SPDX-License-Identifier: Apache-2.0

package simulator

import (
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/tenantry/tenantry/plugins/sdk/simulate"
)

// pageSize is the default page size of Laravel.
const pageSize = 15

// sender is a connected mailbox. The API calls it a "sender email".
type sender struct {
	ID         int    `json:"id"`
	Workspace  int    `json:"workspace_id"`
	Name       string `json:"name"`
	Email      string `json:"email"`
	Signature  string `json:"email_signature"`
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

func timestamp(at time.Time) string { return at.Format("2006-01-02T15:04:05.000000Z") }

// newSender returns a sender as EmailBison's uploader creates it.
func newSender(req *request, workspace, address string) sender {
	id, _ := strconv.Atoi(workspace)
	local, _, _ := strings.Cut(address, "@")
	return sender{
		ID: req.State.NextSerial(), Workspace: id, Name: local, Email: address, IMAPServer: "outlook.office365.com", IMAPPort: 993,
		SMTPServer: "smtp.office365.com", SMTPPort: 587, DailyLimit: 15, Type: "Microsoft", Status: "Connected",
		Created: timestamp(req.Now), Updated: timestamp(req.Now),
	}
}

// doc returns the sender as the API shows it.
func (s sender) doc() map[string]any {
	var signature any
	if s.Signature != "" {
		signature = s.Signature
	}
	return map[string]any{
		"id": s.ID, "name": s.Name, "email": s.Email, "email_signature": signature, "imap_server": s.IMAPServer, "imap_port": s.IMAPPort,
		"smtp_server": s.SMTPServer, "smtp_port": s.SMTPPort, "daily_limit": s.DailyLimit, "type": s.Type, "status": s.Status, "warmup_enabled": false,
		"emails_sent_count": 0, "bounced_count": 0, "total_replied_count": 0, "tags": []any{}, "created_at": s.Created, "updated_at": s.Updated,
	}
}

// findSender returns the account that the path names, or nil if the caller's workspace has no such
// account. The path contains the id or the address. The real API is reported to accept both.
func findSender(req *request) *simulate.Account[sender] {
	for _, a := range req.State.Accounts {
		if id := req.Path("id"); a.Workspace == req.Workspace && (strconv.Itoa(a.Doc.ID) == id || strings.EqualFold(a.Address, id)) {
			return a
		}
	}
	return nil
}

// withSender returns a function for Route.Serve. The function finds the sender in the path and
// passes it to serve.
func withSender(serve func(*request, *simulate.Account[sender]) simulate.Answer) func(*request) simulate.Answer {
	return func(req *request) simulate.Answer {
		a := findSender(req)
		if a == nil {
			return notFound
		}
		return serve(req, a)
	}
}

func listSenders(req *request) simulate.Answer {
	size, found := pageSize, []map[string]any{}
	if n, ok := req.Number("per_page", 0); ok && n > 0 && req.State.Vendor.Quirks.HonourPerPage {
		size = n
	}
	search := strings.ToLower(req.Query("search"))
	for _, s := range req.Visible(req.Workspace) {
		if req.State.Vendor.Quirks.IgnoreSearch || strings.Contains(strings.ToLower(s.Name+"\n"+s.Email), search) {
			found = append(found, s.doc())
		}
	}
	return pageOf(req, found, size)
}

func getSender(_ *request, a *simulate.Account[sender]) simulate.Answer {
	return dataAnswer(a.Doc.doc())
}

func deleteSender(req *request, a *simulate.Account[sender]) simulate.Answer {
	req.State.Remove(a.Workspace, a.Address)
	return dataAnswer(map[string]any{"success": true, "message": "The sender email has been deleted."})
}

func updateSender(req *request) simulate.Answer {
	var body struct {
		Name       *string `json:"name"`
		DailyLimit *int    `json:"daily_limit"`
	}
	if req.Decode(&body) != nil || body.DailyLimit != nil && *body.DailyLimit < 0 {
		return invalidField("daily_limit", "The daily limit field must be at least 0.")
	}
	a := findSender(req)
	if a == nil {
		return notFound
	}
	if body.Name != nil {
		a.Doc.Name = *body.Name
	}
	if body.DailyLimit != nil {
		a.Doc.DailyLimit = *body.DailyLimit
	}
	a.Doc.Updated = timestamp(req.Now)
	return dataAnswer(a.Doc.doc())
}

// createSender connects a mailbox by IMAP and SMTP password. The plugin does not use this call,
// because Microsoft 365 does not accept passwords for IMAP.
func createSender(req *request) simulate.Answer {
	var body map[string]any
	_ = req.Decode(&body)
	for _, field := range []string{"name", "email", "password", "imap_server", "imap_port", "smtp_server", "smtp_port"} {
		if body[field] == nil || body[field] == "" {
			return invalidField(field, "The "+strings.ReplaceAll(field, "_", " ")+" field is required.")
		}
	}
	address, _ := body["email"].(string)
	if req.State.Find(req.Workspace, address) != nil {
		return invalidField("email", "The email has already been taken.")
	}
	s := req.Account(req.Workspace, address, 0)
	s.Name, _ = body["name"].(string)
	s.Type = "Inbox"
	return dataAnswer(s.doc())
}

// accessToken answers with the access token of the mailbox. The plugin must not make this call.
func accessToken(*request, *simulate.Account[sender]) simulate.Answer {
	return dataAnswer(map[string]string{"access_token": "simulated-mailbox-token"})
}

// visibleWorkspaces returns the workspaces that the caller may read.
func visibleWorkspaces(req *request) []workspace {
	return slices.DeleteFunc(slices.Clone(req.State.Vendor.Workspaces), func(w workspace) bool {
		return !req.Key.isSuperAdmin() && w.ID != req.Key.Workspace
	})
}

func getUser(req *request) simulate.Answer {
	doc := map[string]any{
		"id": 1, "name": "Olga Owner", "email": "owner@example.com", "created_at": "2025-04-14T16:59:21.000000Z",
		"updated_at": "2025-04-14T16:59:21.000000Z", "workspace": nil,
	}
	for _, workspace := range req.State.Vendor.Workspaces {
		if workspace.ID == req.Key.Workspace && !req.State.Vendor.Quirks.HideOwnWorkspace {
			doc["workspace"] = workspace
		}
	}
	return dataAnswer(doc)
}

func listWorkspaces(req *request) simulate.Answer {
	if req.State.Vendor.Quirks.HideWorkspaceList && !req.Key.isSuperAdmin() {
		return forbidden
	}
	return pageOf(req, visibleWorkspaces(req), pageSize)
}

func getWorkspace(req *request) simulate.Answer {
	for _, w := range visibleWorkspaces(req) {
		if strconv.Itoa(w.ID) == req.Path("id") {
			return dataAnswer(w)
		}
	}
	return notFound
}

// switchWorkspace selects the workspace that all super-admin tokens use from now on.
func switchWorkspace(req *request) simulate.Answer {
	var body struct {
		Team *int `json:"team_id"`
	}
	switch err := req.Decode(&body); {
	case !req.Key.isSuperAdmin():
		return forbidden
	case err != nil || body.Team == nil:
		return invalidField("team_id", "The team id field is required.")
	}
	i := slices.IndexFunc(req.State.Vendor.Workspaces, func(w workspace) bool { return w.ID == *body.Team })
	if i < 0 {
		return invalidField("team_id", "The selected team id is invalid.")
	}
	req.State.Vendor.Active = *body.Team
	return dataAnswer(req.State.Vendor.Workspaces[i])
}
