// SPDX-License-Identifier: Apache-2.0

package simulator

import (
	"encoding/json"
	"net/http"
	"strings"
	"time"

	"github.com/tenantry/tenantry/plugins/sdk/simulate"
)

// signedIn attaches the account of who signed in, or signs it in anew.
func (st *state) signedIn(user int, address, name string, now time.Time) *account {
	a := st.at(user, address)
	if a == nil {
		a = st.add(user, address, now)
		a.Visible = now.Add(time.Duration(st.Quirks.LagSeconds) * time.Second)
	}
	if name != "" {
		a.FromName = name
	}
	a.Type, a.SMTP, a.IMAP, a.SMTPFailure, a.IMAPFailure = "OUTLOOK", yes(), yes(), nil, nil
	a.Updated = simulate.Stamp(now)
	return a
}

func (st *state) at(user int, address string) *account {
	for _, a := range st.Accounts {
		if a.UserID == user && strings.EqualFold(a.FromEmail, address) {
			return a
		}
	}
	return nil
}

func (st *state) add(user int, address string, now time.Time) *account {
	st.Serial++
	local, _, _ := strings.Cut(address, "@")
	a := &account{
		ID: st.Serial, UserID: user, FromEmail: address, Username: address, FromName: local, Type: "OUTLOOK",
		PerDay: 20, Created: simulate.Stamp(now), Updated: simulate.Stamp(now),
	}
	st.Accounts = append(st.Accounts, a)
	return a
}

// dashboard is the page on which somebody connects a mailbox by hand.
func (s *smartlead) dashboard() simulate.ConnectPage {
	return simulate.ConnectPage{Platform: "Smartlead", Path: connect, Connect: func(address string) error {
		return s.file.Do(func(st *state) { st.signedIn(FirstUser, address, "", s.kit.Now()) })
	}}
}

// saving is the body of save-oauth.
type saving struct {
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

// saveOAuth takes finished tokens of Microsoft.
func (s *smartlead) saveOAuth(w http.ResponseWriter, r *http.Request) {
	var in saving
	if json.NewDecoder(r.Body).Decode(&in) != nil {
		simulate.Reply(w, http.StatusBadRequest, map[string]string{"error": "Bad Request", "message": "the body is not JSON"})
		return
	}
	now := s.kit.Now()
	if problem := in.problem(); problem != "" {
		invalid(w, problem)
		return
	}
	if t := in.Token; t.TokenType != "Bearer" || time.UnixMilli(t.ExpiryDate).Before(now) {
		simulate.Reply(w, http.StatusBadRequest, map[string]any{"ok": false, "message": "Invalid or expired OAuth token"})
		return
	}
	var made account
	err := s.file.Do(func(st *state) {
		a := st.signedIn(user(r), *in.FromEmail, *in.FromName, now)
		a.Username, a.Type, a.ClientID = *in.Username, in.Type, in.ClientID
		made = *a
	})
	if err != nil {
		fail(w, http.StatusInternalServerError, err.Error())
		return
	}
	simulate.Reply(w, http.StatusOK, map[string]any{"ok": true, "message": "Email account saved", "data": map[string]any{
		"id": made.ID, "from_email": made.FromEmail, "type": made.Type, "is_smtp_success": made.SMTP, "is_imap_success": made.IMAP,
	}})
}

// problem is the first thing that does not pass.
func (in saving) problem() string {
	switch t := in.Token; {
	case in.FromName == nil:
		return "from_name is required"
	case in.FromEmail == nil || !strings.Contains(*in.FromEmail, "@"):
		return "from_email is required"
	case in.Username == nil:
		return "username is required"
	case in.Type != "GMAIL" && in.Type != "OUTLOOK":
		return "type must be one of [GMAIL, OUTLOOK]"
	case t == nil || t.Scope == "" || t.AccessToken == "" || t.RefreshToken == "" || t.ExpiryDate == 0:
		return "token is required"
	case in.Warmup == nil:
		return "warmup_enabled is required"
	case in.WhiteLabel == nil:
		return "use_whitelabel_credentials is required"
	}
	return ""
}
