// SPDX-License-Identifier: Apache-2.0

package simulator

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/tenantry/tenantry/plugins/sdk/simulate"
)

// controlHandler returns the handler of the control calls that package simulate does not handle.
func (s *simulator) controlHandler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("POST /_control/tenants", s.controlCreate)
	mux.HandleFunc("GET /_control/tenants", s.controlList)
	mux.HandleFunc("GET /_control/tenants/{id}", s.controlShow)
	mux.HandleFunc("POST /_control/tenants/{id}/revoke", s.controlRevoke)
	mux.HandleFunc("POST /_control/tenants/{id}/behaviour", s.controlBehaviour)
	mux.HandleFunc("POST /_control/tenants/{id}/rules", s.controlRule)
	mux.HandleFunc("DELETE /_control/tenants/{id}/mailboxes/{address}", s.controlRemoveMailbox)
	for _, unsupported := range []string{"POST /_control/tenants/{id}/restrict", "POST /_control/tenants/{id}/recipient-limit",
		"PATCH /_control/tenants/{id}", "PATCH /_control/tenants/{id}/mailboxes/{address}", "PATCH /_control/tenants/{id}/domains/{name}"} {
		mux.HandleFunc(unsupported, controlNotImplemented)
	}
	mux.HandleFunc("POST /_control/app", s.controlApp)
	mux.HandleFunc("POST /_control/messages", s.controlMessages)
	mux.HandleFunc("GET /_control/suite", func(w http.ResponseWriter, _ *http.Request) { simulate.WriteJSON(w, http.StatusOK, suite) })
	return simulate.ControlCalls(mux, nil)
}

// suite describes the simulator to the conformance suite.
var suite = simulate.MailSuite{
	Settings: map[string]string{"pacing": "0"},
	Member:   "user@$domain", Guest: "guest_partner.example#EXT#@$domain",
}

// createTenantRequest is the body of POST /_control/tenants.
type createTenantRequest struct {
	Name      string `json:"name"`
	Bootstrap string `json:"bootstrap"`
	SMTPAuth  string `json:"smtp_auth"`
}

func (s *simulator) controlCreate(w http.ResponseWriter, r *http.Request) {
	body := createTenantRequest{Bootstrap: "ready", SMTPAuth: "allowed"}
	if err := simulate.ReadBody(r, &body); err != nil {
		simulate.WriteError(w, http.StatusBadRequest, err.Error())
		return
	}
	switch {
	case body.Bootstrap != "ready" && body.Bootstrap != "dehydrated" && body.Bootstrap != "denied":
		simulate.WriteError(w, http.StatusBadRequest, "bootstrap must be ready, dehydrated or denied")
		return
	case body.SMTPAuth != "allowed" && body.SMTPAuth != "refused":
		simulate.WriteError(w, http.StatusBadRequest, "smtp_auth must be allowed or refused")
		return
	}
	t, err := s.store.create(func(serial int) tenant { return s.newTenant(serial, body) })
	if err != nil {
		simulate.WriteError(w, http.StatusInternalServerError, err.Error())
		return
	}
	simulate.WriteJSON(w, http.StatusOK, map[string]string{"tenant_id": t.ID, "admin": t.adminName()})
}

// controlList answers with all tenants in the order of creation.
func (s *simulator) controlList(w http.ResponseWriter, _ *http.Request) {
	list := []map[string]string{}
	for _, f := range s.store.all() {
		f.View(func(t *tenant) {
			list = append(list, map[string]string{"tenant_id": t.ID, "admin": t.adminName(), "name": t.Name,
				"consent": t.Grant.Consent})
		})
	}
	simulate.WriteJSON(w, http.StatusOK, list)
}

// updateTenant calls run with the tenant whose GUID is in the path, and saves the tenant, even if
// run returns an error. It returns false if it has answered with an error: 404 for an unknown
// tenant, 400 for an error of run, or 500 if saving fails.
func (s *simulator) updateTenant(w http.ResponseWriter, r *http.Request, run func(*tenant) error) bool {
	id := r.PathValue("id")
	f := s.store.find(id)
	if f == nil || !guidPattern.MatchString(id) {
		simulate.WriteError(w, http.StatusNotFound, "there is no such tenant")
		return false
	}
	var refusal error
	err := f.Do(func(t *tenant) {
		refusal = run(t)
		t.recordSnapshot(s.kit.Now())
	})
	if err != nil {
		simulate.WriteError(w, http.StatusInternalServerError, err.Error())
		return false
	}
	if refusal != nil {
		simulate.WriteError(w, http.StatusBadRequest, refusal.Error())
	}
	return refusal == nil
}

// newTenant returns a tenant that has not consented yet. It has an administrator, an ordinary
// member and a guest, and no custom domain.
func (s *simulator) newTenant(serial int, body createTenantRequest) tenant {
	now, seed := s.kit.Now(), s.registration().Seed
	key := func(label string) string { return guid(seed, "tenant", strconv.Itoa(serial), label) }
	t := tenant{
		ID: key("id"), Name: body.Name, Serial: serial, Created: now,
		Bootstrap: body.Bootstrap, SMTPAuth: body.SMTPAuth, Behaviour: defaultBehaviour(),
		Grant: grant{Consent: "none", Principal: key("principal")},
		Codes: map[string]authorizationCode{},
	}
	if t.Name == "" {
		t.Name = "Example Outreach " + strconv.Itoa(serial)
	}
	t.Prefix = domainPrefix(t.Name) + deriveDigits(6, seed, t.ID)
	t.Exchange = organization{Dehydrated: body.Bootstrap == "dehydrated", SMTPAuthDisabled: true}
	t.addInitialObjects(key, now)
	return t
}

// controlShow answers with the custom domains, shared mailboxes, rules and consent of a tenant.
func (s *simulator) controlShow(w http.ResponseWriter, r *http.Request) {
	type domainView struct {
		Name        string `json:"name"`
		Verified    bool   `json:"verified"`
		Default     bool   `json:"default"`
		DKIMEnabled bool   `json:"dkim_enabled"`
	}
	type mailboxView struct {
		Address     string `json:"address"`
		Enabled     bool   `json:"enabled"`
		PasswordSet bool   `json:"password_set"`
	}
	domains, mailboxes, rules, consent := []domainView{}, []mailboxView{}, []ruleView{}, ""
	ok := s.updateTenant(w, r, func(t *tenant) error {
		consent, rules = t.Grant.Consent, t.ruleViews()
		for _, d := range t.Domains {
			c := t.dkimConfig(d.Name)
			domains = append(domains, domainView{d.Name, d.Verified, d.Default, c != nil && c.Enabled})
		}
		for _, m := range t.Exchange.Mailboxes {
			if u := t.user(m.ObjectID); m.Kind == "SharedMailbox" && u != nil {
				mailboxes = append(mailboxes, mailboxView{m.Primary, u.Enabled, u.PasswordSet})
			}
		}
		return nil
	})
	if ok {
		simulate.WriteJSON(w, http.StatusOK, map[string]any{"domains": domains, "mailboxes": mailboxes,
			"rules": rules, "consent": consent})
	}
}

// controlRevoke withdraws consent, the Exchange role or an app role. Tokens that were issued
// earlier also lose the grant at once, because every call checks the current grants.
func (s *simulator) controlRevoke(w http.ResponseWriter, r *http.Request) {
	body := struct {
		What string `json:"what"`
		Role string `json:"role"` // the app role to withdraw, by default Exchange.ManageAsApp
	}{What: "consent", Role: exchangeManageApps}
	if err := simulate.ReadBody(r, &body); err != nil {
		simulate.WriteError(w, http.StatusBadRequest, err.Error())
		return
	}
	ok := s.updateTenant(w, r, func(t *tenant) error { return t.revoke(body.What, body.Role) })
	if ok {
		simulate.WriteJSON(w, http.StatusOK, struct{}{})
	}
}

// revoke withdraws a grant. grantName is `what` of the control call, and role is the app role to
// withdraw. revoke returns an error for an unknown grant or app role.
func (t *tenant) revoke(grantName, role string) error {
	switch grantName {
	case "consent":
		if t.Grant.Consent == "granted" {
			t.Grant.Consent = "revoked"
			t.removeExchangeRole()
			t.Assignments = slices.DeleteFunc(t.Assignments, func(a roleAssignment) bool { return a.Principal == t.Grant.Principal })
		}
	case "exchange_role":
		t.removeExchangeRole()
	case "app_role":
		if _, exists := appRoles[role]; !exists {
			return errors.New("there is no such app role")
		}
		t.Grant.Roles = slices.DeleteFunc(t.Grant.Roles, func(r string) bool { return r == role })
	default:
		return errors.New("what must be consent, exchange_role or app_role")
	}
	return nil
}

// removeExchangeRole removes the Exchange role of the application. If the application had the role,
// the next consent restores it.
func (t *tenant) removeExchangeRole() {
	before := len(t.Assignments)
	t.Assignments = slices.DeleteFunc(t.Assignments, func(a roleAssignment) bool {
		return a.Principal == t.Grant.Principal && a.Role == exchangeAdministrator
	})
	t.Grant.ExchangeRoleRevoked = t.Grant.ExchangeRoleRevoked || len(t.Assignments) < before
}

// controlBehaviour changes the settings that the body contains, and keeps the other settings.
func (s *simulator) controlBehaviour(w http.ResponseWriter, r *http.Request) {
	raw, err := io.ReadAll(r.Body) // read before the tenant is locked
	if err != nil {
		return
	}
	r.Body = io.NopCloser(bytes.NewReader(raw))
	ok := s.updateTenant(w, r, func(t *tenant) error {
		changed := t.Behaviour.clone()
		if err := simulate.ReadBody(r, &changed); err != nil {
			return err
		}
		if err := changed.validate(); err != nil {
			return err
		}
		t.Behaviour = changed
		return nil
	})
	if ok {
		simulate.WriteJSON(w, http.StatusOK, struct{}{})
	}
}

// clone returns a deep copy, so that a rejected change does not change the settings.
func (b behaviour) clone() behaviour {
	raw, err := json.Marshal(b)
	if err != nil {
		return b
	}
	var c behaviour
	if json.Unmarshal(raw, &c) != nil {
		return b
	}
	return c
}

// controlRule creates a transport rule, or changes the existing rule with the name in the body, as
// the tenant's administrator does.
func (s *simulator) controlRule(w http.ResponseWriter, r *http.Request) {
	var body struct {
		Name    string   `json:"name"`
		Enabled bool     `json:"enabled"`
		Senders []string `json:"senders"`
	}
	if err := simulate.ReadBody(r, &body); err != nil {
		simulate.WriteError(w, http.StatusBadRequest, err.Error())
		return
	}
	ok := s.updateTenant(w, r, func(t *tenant) error {
		if body.Name == "" || slices.ContainsFunc(body.Senders, func(a string) bool { return t.mailbox(a) == nil }) {
			return errors.New("name must be set, and senders must be mailboxes of the tenant")
		}
		r := transportRule{
			GUID: newGUID(), Name: body.Name, Mode: "Enforce", Location: "Header", Reason: "Not allowed.", Code: "5.7.1",
			Priority: len(t.Exchange.Rules),
		}
		if existing := t.rule(body.Name); existing != nil {
			r = *existing
		}
		r.Enabled, r.From, r.ChangedAt = body.Enabled, body.Senders, s.kit.Now()
		t.placeRule(r, r.ChangedAt)
		return nil
	})
	if ok {
		simulate.WriteJSON(w, http.StatusOK, struct{}{})
	}
}

// controlRemoveMailbox deletes a mailbox and its user, as the tenant's administrator does.
func (s *simulator) controlRemoveMailbox(w http.ResponseWriter, r *http.Request) {
	found := false
	ok := s.updateTenant(w, r, func(t *tenant) error {
		if address := r.PathValue("address"); t.hasMailbox(address) {
			found = true
			t.removeUser(t.mailbox(address).ObjectID)
		}
		return nil
	})
	switch {
	case !ok:
	case !found:
		simulate.WriteError(w, http.StatusNotFound, "there is no such mailbox")
	default:
		simulate.WriteJSON(w, http.StatusOK, struct{}{})
	}
}

func controlNotImplemented(w http.ResponseWriter, _ *http.Request) {
	simulate.WriteError(w, http.StatusNotImplemented, "this simulator does not support the call yet")
}

// ruleView is a rule as the control interface shows it.
type ruleView struct {
	Name    string `json:"name"`
	Enabled bool   `json:"enabled"` // the rule is enabled and its mode is Enforce
	// Blocks lists the mailboxes that the rule blocks (transportRule.blocks). It does not consider
	// that an earlier rule may stop the processing of a message.
	Blocks []string `json:"blocks"`
}

func (t *tenant) ruleViews() []ruleView {
	views := []ruleView{}
	for _, r := range t.Exchange.Rules {
		v := ruleView{r.Name, r.Enabled && r.Mode == "Enforce", []string{}}
		for _, m := range t.Exchange.Mailboxes {
			if r.blocks(m.Primary) {
				v.Blocks = append(v.Blocks, strings.ToLower(m.Primary))
			}
		}
		slices.Sort(v.Blocks)
		views = append(views, v)
	}
	return views
}

// maxMessages is the highest number of messages in one control call.
const maxMessages = 10_000

// sendMessagesRequest is the body of POST /_control/messages.
type sendMessagesRequest struct {
	Mailbox string    `json:"mailbox"`
	Count   int       `json:"count"`
	At      time.Time `json:"at"` // the zero time means now
	// Recipients is the number of recipients of each message. If it is 0, the messages have one,
	// two and three recipients in turn.
	Recipients int  `json:"recipients"`
	Bounced    bool `json:"bounced"` // the recipients' servers refuse the messages
}

// controlMessages records messages as if a mailbox had sent them by SMTP.
func (s *simulator) controlMessages(w http.ResponseWriter, r *http.Request) {
	var body sendMessagesRequest
	if err := simulate.ReadBody(r, &body); err != nil {
		simulate.WriteError(w, http.StatusBadRequest, err.Error())
		return
	}
	if body.Count < 1 || body.Count > maxMessages || body.Recipients < 0 || body.Recipients > 500 {
		simulate.WriteError(w, http.StatusBadRequest, "count must be between 1 and 10000, recipients between 0 and 500")
		return
	}
	mailboxExists := false
	for _, f := range s.store.all() {
		hasMailbox := false
		if f.View(func(t *tenant) { hasMailbox = t.hasMailbox(body.Mailbox) }); !hasMailbox {
			continue
		}
		mailboxExists = true
		err := f.Do(func(t *tenant) {
			s.sendMessages(t, messageBatch{Sender: strings.ToLower(body.Mailbox), Count: body.Count, At: body.At, Recipients: body.Recipients,
				Bounced: body.Bounced}, s.kit.Now())
		})
		if err != nil {
			simulate.WriteError(w, http.StatusInternalServerError, err.Error())
			return
		}
	}
	if !mailboxExists {
		simulate.WriteError(w, http.StatusNotFound, "there is no such mailbox")
		return
	}
	simulate.WriteJSON(w, http.StatusOK, struct{}{})
}

// hasMailbox reports whether the tenant has a mailbox with this primary address.
func (t *tenant) hasMailbox(address string) bool {
	return slices.ContainsFunc(t.Exchange.Mailboxes, func(m mailbox) bool { return strings.EqualFold(m.Primary, address) })
}
