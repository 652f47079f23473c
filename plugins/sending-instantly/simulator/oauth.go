// SPDX-License-Identifier: Apache-2.0

package simulator

import (
	"cmp"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/tenantry/tenantry/plugins/sdk/simulate"
)

// sessionLifetime is how long a session is open.
const sessionLifetime = 10 * time.Minute

// initOAuth starts a session. It is not bound to a mailbox: the mailbox that signs in is attached.
func initOAuth(q *request) simulate.Answer {
	if wait := startThrottled(q); wait > 0 {
		q.RetryAfter(wait)
		return refuse(http.StatusTooManyRequests, "Rate limit exceeded for OAuth session creation")
	}
	id, link := q.StartSignIn(q.Workspace, sessionLifetime)
	x := q.State.SignIns[id]
	x.ID = fmt.Sprintf("sess-%012x", q.State.NextSerial())
	base, _, _ := strings.Cut(link, authorize)
	if host := q.State.Vendor.Behaviour.AuthHost; host != "" {
		base = "https://" + host
	}
	query := url.Values{"client_id": {"65ad96b6-fbeb-40b5-b404-2a415d074c97"}, "response_type": {"code"}, "state": {id},
		"scope": {"offline_access https://outlook.office.com/SMTP.Send"}}
	return simulate.OK(map[string]any{
		"session_id": x.ID, "auth_url": base + authorize + "?" + query.Encode(), "expires_at": simulate.FormatTime(x.ExpiresAt),
	})
}

// statusOf returns the status of a session, and the error of a session that failed.
func statusOf(x *simulate.SignIn, now time.Time) (status, code, description string) {
	switch {
	case x.Open(now):
		return "pending", "", ""
	case !x.Used:
		return "expired", "", ""
	case x.Address == "":
		return "error", "access_denied", "The user has denied access to the application"
	}
	return "success", "", ""
}

// session returns the session of an id, or nil.
func session(q *request, id string) *simulate.SignIn {
	for _, x := range q.State.SignIns {
		if x.ID == id {
			return x
		}
	}
	return nil
}

func sessionStatus(q *request) simulate.Answer {
	x := session(q, q.Path("code"))
	if x == nil || x.Workspace != q.Workspace {
		return refuse(http.StatusNotFound, "OAuth session not found")
	}
	status, code, description := statusOf(x, q.Now)
	doc := map[string]any{"status": status}
	switch status {
	case "success":
		doc["email"], doc["name"] = x.Address, x.Name
	case "error":
		doc["error"], doc["error_description"] = code, description
	}
	return simulate.OK(doc)
}

func listSessions(q *request) (any, error) {
	all := []map[string]any{}
	for state, x := range q.State.SignIns {
		status, code, description := statusOf(x, q.Now)
		all = append(all, map[string]any{
			"id": x.ID, "state": state, "workspace": x.Workspace, "created": x.StartedAt, "status": status,
			"email": x.Address, "name": x.Name, "error": code, "description": description,
		})
	}
	slices.SortFunc(all, func(a, b map[string]any) int { return strings.Compare(a["id"].(string), b["id"].(string)) })
	return all, nil
}

// endSession returns a control call that changes the pending session in the path.
func endSession(end func(x *simulate.SignIn, now time.Time)) func(*request) (any, error) {
	return func(q *request) (any, error) {
		x := session(q, q.Path("id"))
		if x == nil || !x.Open(q.Now) {
			return nil, simulate.NotFound("Instantly has no such session, or it is not open any more")
		}
		end(x, q.Now)
		return nil, nil
	}
}

// completeSession signs in the mailbox of a control call.
func completeSession(q *request) (any, error) {
	var in struct{ Email, Name string }
	if err := q.Read(&in); err != nil {
		return nil, err
	}
	if in.Email == "" {
		return nil, simulate.BadRequest("email is missing")
	}
	return endSession(func(x *simulate.SignIn, _ time.Time) {
		x.Used, x.Address, x.Name = true, in.Email, cmp.Or(in.Name, simulate.DisplayName(in.Email))
		attach(q, x.Workspace, x.Address, x.Name)
	})(q)
}

func forgetSession(q *request) (any, error) {
	for state, x := range q.State.SignIns {
		if x.ID == q.Path("id") {
			delete(q.State.SignIns, state)
			return nil, nil
		}
	}
	return nil, simulate.NotFound("Instantly has no such session")
}
