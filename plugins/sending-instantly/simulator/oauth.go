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

// sessionLifetime is how long a session can be used to sign in.
const sessionLifetime = 10 * time.Minute

// initOAuth starts a session. The session does not belong to a mailbox: Instantly connects the
// mailbox that signs in, whichever it is.
func initOAuth(req *request) simulate.Answer {
	if wait := countSignInStart(req); wait > 0 {
		req.RetryAfter(wait)
		return refuse(http.StatusTooManyRequests, "Rate limit exceeded for OAuth session creation")
	}
	id, link := req.StartSignIn(req.Workspace, sessionLifetime)
	signIn := req.State.SignIns[id]
	signIn.ID = fmt.Sprintf("sess-%012x", req.State.NextSerial())
	base, _, _ := strings.Cut(link, authorizePath)
	if host := req.State.Vendor.Behaviour.AuthHost; host != "" {
		base = "https://" + host
	}
	query := url.Values{"client_id": {"65ad96b6-fbeb-40b5-b404-2a415d074c97"}, "response_type": {"code"}, "state": {id},
		"scope": {"offline_access https://outlook.office.com/SMTP.Send"}}
	return simulate.OK(map[string]any{
		"session_id": signIn.ID, "auth_url": base + authorizePath + "?" + query.Encode(), "expires_at": simulate.FormatTime(signIn.ExpiresAt),
	})
}

// statusOf returns the status of a session, and the error of a session that failed.
func statusOf(signIn *simulate.SignIn, now time.Time) (status, code, description string) {
	switch {
	case signIn.Open(now):
		return "pending", "", ""
	case !signIn.Used:
		return "expired", "", ""
	case signIn.Address == "":
		return "error", "access_denied", "The user has denied access to the application"
	}
	return "success", "", ""
}

func findSession(req *request, id string) *simulate.SignIn {
	for _, signIn := range req.State.SignIns {
		if signIn.ID == id {
			return signIn
		}
	}
	return nil
}

func sessionStatus(req *request) simulate.Answer {
	signIn := findSession(req, req.Path("code"))
	if signIn == nil || signIn.Workspace != req.Workspace {
		return refuse(http.StatusNotFound, "OAuth session not found")
	}
	status, code, description := statusOf(signIn, req.Now)
	doc := map[string]any{"status": status}
	switch status {
	case "success":
		doc["email"], doc["name"] = signIn.Address, signIn.Name
	case "error":
		doc["error"], doc["error_description"] = code, description
	}
	return simulate.OK(doc)
}

func listSessions(req *request) (any, error) {
	docs := []map[string]any{}
	for state, signIn := range req.State.SignIns {
		status, code, description := statusOf(signIn, req.Now)
		docs = append(docs, map[string]any{
			"id": signIn.ID, "state": state, "workspace": signIn.Workspace, "created": signIn.StartedAt, "status": status,
			"email": signIn.Address, "name": signIn.Name, "error": code, "description": description,
		})
	}
	slices.SortFunc(docs, func(a, b map[string]any) int { return strings.Compare(a["id"].(string), b["id"].(string)) })
	return docs, nil
}

// endSession returns a control call that calls end with the session in the path. It answers 404 if
// the session is not pending.
func endSession(end func(signIn *simulate.SignIn, now time.Time)) func(*request) (any, error) {
	return func(req *request) (any, error) {
		signIn := findSession(req, req.Path("id"))
		if signIn == nil || !signIn.Open(req.Now) {
			return nil, simulate.NotFound("there is no pending session with this id")
		}
		end(signIn, req.Now)
		return nil, nil
	}
}

// completeSession is a control call that signs in a mailbox without the sign-in page.
func completeSession(req *request) (any, error) {
	var body struct{ Email, Name string }
	if err := req.Read(&body); err != nil {
		return nil, err
	}
	if body.Email == "" {
		return nil, simulate.BadRequest("email is missing")
	}
	return endSession(func(signIn *simulate.SignIn, _ time.Time) {
		signIn.Used, signIn.Address, signIn.Name = true, body.Email, cmp.Or(body.Name, simulate.DisplayName(body.Email))
		attach(req, signIn.Workspace, signIn.Address, signIn.Name)
	})(req)
}

func forgetSession(req *request) (any, error) {
	for state, signIn := range req.State.SignIns {
		if signIn.ID == req.Path("id") {
			delete(req.State.SignIns, state)
			return nil, nil
		}
	}
	return nil, simulate.NotFound("Instantly has no such session")
}
