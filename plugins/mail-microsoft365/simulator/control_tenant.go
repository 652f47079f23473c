// SPDX-License-Identifier: Apache-2.0

package simulator

import (
	"bytes"
	"encoding/json"
	"encoding/pem"
	"errors"
	"io"
	"net/http"
	"slices"

	"github.com/tenantry/tenantry/plugins/sdk/simulate"
)

// controlShow answers what the platform itself holds of a tenant. The
// built-in domain and mailboxes of other kinds are left out: nobody added
// them.
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
	ok := s.controlTenant(w, r, func(t *tenant) error {
		consent, rules = t.Grant.Consent, t.ruleViews()
		for _, d := range t.Domains {
			c := t.signing(d.Name)
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
		simulate.Reply(w, http.StatusOK, map[string]any{"domains": domains, "mailboxes": mailboxes,
			"rules": rules, "consent": consent})
	}
}

// controlRevoke withdraws consent or one grant. Tokens already issued lose it
// at once, since every call looks at the grant as it is.
func (s *simulator) controlRevoke(w http.ResponseWriter, r *http.Request) {
	in := struct {
		What string `json:"what"`
		Role string `json:"role"` // the app role, Exchange.ManageAsApp when absent
	}{What: "consent", Role: exchangeManageApps}
	if err := simulate.Read(r, &in); err != nil {
		simulate.Refuse(w, http.StatusBadRequest, err.Error())
		return
	}
	ok := s.controlTenant(w, r, func(t *tenant) error { return t.revoke(in.What, in.Role) })
	if ok {
		simulate.Reply(w, http.StatusOK, struct{}{})
	}
}

func (t *tenant) revoke(what, role string) error {
	switch what {
	case "consent":
		if t.Grant.Consent == "granted" {
			t.Grant.Consent = "revoked"
		}
	case "exchange_role":
		held := len(t.Assignments)
		t.Assignments = slices.DeleteFunc(t.Assignments, func(a roleAssignment) bool {
			return a.Principal == t.Grant.Principal && a.Role == exchangeAdministrator
		})
		t.Grant.ExchangeRoleRevoked = t.Grant.ExchangeRoleRevoked || len(t.Assignments) < held
	case "app_role":
		if _, known := appRoles[role]; !known {
			return errors.New("there is no such app role")
		}
		t.Grant.Roles = slices.DeleteFunc(t.Grant.Roles, func(r string) bool { return r == role })
	default:
		return errors.New("what is consent, exchange_role or app_role")
	}
	return nil
}

// controlBehaviour changes the knobs that the body names and leaves the rest.
func (s *simulator) controlBehaviour(w http.ResponseWriter, r *http.Request) {
	raw, err := io.ReadAll(r.Body) // before the tenant is locked
	if err != nil {
		return
	}
	r.Body = io.NopCloser(bytes.NewReader(raw))
	ok := s.controlTenant(w, r, func(t *tenant) error {
		changed := t.Behaviour.clone()
		if err := simulate.Read(r, &changed); err != nil {
			return err
		}
		if err := changed.check(); err != nil {
			return err
		}
		t.Behaviour = changed
		return nil
	})
	if ok {
		simulate.Reply(w, http.StatusOK, struct{}{})
	}
}

// clone copies the knobs deeply, so that a refused change leaves no trace.
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

// controlApp changes the application's registration.
func (s *simulator) controlApp(w http.ResponseWriter, r *http.Request) {
	var in struct {
		Certificate   *string   `json:"certificate"` // PEM, registered beside the others
		RedirectURIs  *[]string `json:"redirect_uris"`
		Permissions   *[]string `json:"permissions"`
		WidsInIDToken *bool     `json:"wids_in_id_token"`
		RotateKeys    bool      `json:"rotate_keys"`
		ExpireSecret  bool      `json:"expire_secret"`
	}
	err := simulate.Read(r, &in)
	var key signingKey
	switch {
	case err != nil:
	case in.Permissions != nil && slices.ContainsFunc(*in.Permissions, unknownRole):
		err = errors.New("there is no such app role")
	case in.Certificate != nil && !isCertificate(*in.Certificate):
		err = errors.New("certificate is not a PEM certificate")
	case in.RotateKeys:
		key, err = newSigningKey()
	}
	if err != nil {
		simulate.Refuse(w, http.StatusBadRequest, err.Error())
		return
	}
	err = s.app.Do(func(a *registration) {
		if in.Certificate != nil {
			a.Certificates = append(slices.Clone(a.Certificates), *in.Certificate)
		}
		if in.RedirectURIs != nil {
			a.RedirectURIs = *in.RedirectURIs
		}
		if in.Permissions != nil {
			a.Permissions = *in.Permissions
		}
		if in.WidsInIDToken != nil {
			a.WidsInIDToken = *in.WidsInIDToken
		}
		if in.RotateKeys {
			a.Keys = append(slices.Clone(a.Keys), key)
		}
		if in.ExpireSecret {
			a.Secret, a.ExpiredSecret = randomText(30), a.Secret
		}
	})
	if err != nil {
		simulate.Refuse(w, http.StatusInternalServerError, err.Error())
		return
	}
	simulate.Reply(w, http.StatusOK, struct{}{})
}

func unknownRole(role string) bool { _, known := appRoles[role]; return !known }

func isCertificate(text string) bool {
	block, _ := pem.Decode([]byte(text))
	return block != nil && block.Type == "CERTIFICATE"
}
