// SPDX-License-Identifier: Apache-2.0

package simulator

import (
	"encoding/json"
	"net/http"
	"strings"
	"time"

	"github.com/tenantry/tenantry/plugins/sdk/simulate"
)

// attach creates the account or reconnects it, as a sign-in does.
func (st *state) attach(user int, address, name string, now time.Time) *account {
	a := st.account(user, address)
	if a == nil {
		a = st.add(user, address, now)
		a.Visible = now.Add(time.Duration(st.Quirks.LagSeconds) * time.Second)
	}
	if name != "" {
		a.FromName = name
	}
	a.Type, a.SMTP, a.IMAP, a.SMTPFailure, a.IMAPFailure = "OUTLOOK", pointerToTrue(), pointerToTrue(), nil, nil
	a.Updated = simulate.FormatTime(now)
	return a
}

// account returns the account of an address, or nil.
func (st *state) account(user int, address string) *account {
	for _, a := range st.Accounts {
		if a.UserID == user && strings.EqualFold(a.FromEmail, address) {
			return a
		}
	}
	return nil
}

// add stores a new account.
func (st *state) add(user int, address string, now time.Time) *account {
	st.Serial++
	local, _, _ := strings.Cut(address, "@")
	a := &account{
		ID: st.Serial, UserID: user, FromEmail: address, Username: address, FromName: local, Type: "OUTLOOK",
		PerDay: 20, Created: simulate.FormatTime(now), Updated: simulate.FormatTime(now),
	}
	st.Accounts = append(st.Accounts, a)
	return a
}

// dashboard returns the page on which a person connects a mailbox for the first user.
func (s *smartlead) dashboard() simulate.ConnectPage {
	return simulate.ConnectPage{Platform: "Smartlead", Path: connect, Connect: func(address string) error {
		return s.file.Do(func(st *state) { st.attach(FirstUser, address, "", s.kit.Now()) })
	}}
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

// saveOAuth creates an account from OAuth tokens that the caller already has.
func (s *smartlead) saveOAuth(w http.ResponseWriter, r *http.Request) {
	var in saveOAuthRequest
	if json.NewDecoder(r.Body).Decode(&in) != nil {
		simulate.WriteJSON(w, http.StatusBadRequest, map[string]string{"error": "Bad Request", "message": "the body is not JSON"})
		return
	}
	now := s.kit.Now()
	if problem := in.problem(); problem != "" {
		invalid(w, problem)
		return
	}
	if t := in.Token; t.TokenType != "Bearer" || time.UnixMilli(t.ExpiryDate).Before(now) {
		simulate.WriteJSON(w, http.StatusBadRequest, map[string]any{"ok": false, "message": "Invalid or expired OAuth token"})
		return
	}
	var saved account
	err := s.file.Do(func(st *state) {
		a := st.attach(user(r), *in.FromEmail, *in.FromName, now)
		a.Username, a.Type, a.ClientID = *in.Username, in.Type, in.ClientID
		saved = *a
	})
	if err != nil {
		fail(w, http.StatusInternalServerError, err.Error())
		return
	}
	simulate.WriteJSON(w, http.StatusOK, map[string]any{"ok": true, "message": "Email account saved", "data": map[string]any{
		"id": saved.ID, "from_email": saved.FromEmail, "type": saved.Type, "is_smtp_success": saved.SMTP, "is_imap_success": saved.IMAP,
	}})
}

// problem returns the message for the first invalid field, or "".
func (in saveOAuthRequest) problem() string {
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
