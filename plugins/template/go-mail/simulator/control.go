// SPDX-License-Identifier: Apache-2.0

package simulator

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/tenantry/tenantry/plugins/sdk/simulate"
)

// suite describes the simulator to the conformance suite.
var suite = simulate.MailSuite{Member: "member@$domain", Guest: "guest@elsewhere.mail.example"}

var errUnknown = errors.New("there is no such tenant or mailbox")

// controlHandler returns the handler of the control calls that docs/plugins.md lists.
func (s *simulator) controlHandler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /_control/suite", func(w http.ResponseWriter, _ *http.Request) { simulate.WriteJSON(w, http.StatusOK, suite) })
	for pattern, run := range map[string]func(c *call) (any, error){
		"POST /_control/tenants": createTenant, "GET /_control/tenants/{id}": showTenant,
		"POST /_control/tenants/{id}/behaviour": setBehaviour, "POST /_control/tenants/{id}/rules": setForeignRule,
		"POST /_control/tenants/{id}/revoke": revokeAccess, "POST /_control/messages": sendMessages,
	} {
		mux.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) {
			var answer json.RawMessage
			err := s.state.Try(func(platformState *state) error {
				c := &call{simulator: s, http: r, platformState: platformState, tenant: platformState.Tenants[r.PathValue("id")], now: s.kit.Now()}
				if r.PathValue("id") != "" && c.tenant == nil {
					return errUnknown
				}
				result, err := run(c)
				if err != nil {
					return err
				}
				answer, err = json.Marshal(result)
				return err
			})
			switch {
			case errors.Is(err, errUnknown):
				simulate.WriteError(w, http.StatusNotFound, err.Error())
			case err != nil:
				simulate.WriteError(w, http.StatusBadRequest, err.Error())
			default:
				simulate.WriteJSON(w, http.StatusOK, answer)
			}
		})
	}
	return simulate.ControlCalls(mux, nil)
}

func createTenant(c *call) (any, error) {
	var body struct {
		Name      string `json:"name"`
		Bootstrap string `json:"bootstrap"`
		SMTPAuth  string `json:"smtp_auth"`
	}
	if err := simulate.ReadBody(c.http, &body); err != nil {
		return nil, err
	}
	err := errors.Join(simulate.OneOf("bootstrap", body.Bootstrap, "", "ready", "dehydrated", "denied"), simulate.OneOf("smtp_auth", body.SMTPAuth, "", "allowed", "refused"))
	if err != nil {
		return nil, err
	}
	t := c.platformState.addTenant(body.Name)
	t.Dormant, t.Denied, t.SMTPRefused = body.Bootstrap == "dehydrated", body.Bootstrap == "denied", body.SMTPAuth == "refused"
	return map[string]string{"tenant_id": t.ID, "admin": t.admin()}, nil
}

func setBehaviour(c *call) (any, error) {
	if err := simulate.ReadBody(c.http, &c.tenant.Behaviour); err != nil {
		return nil, err
	}
	if c.tenant.Behaviour.TracePageSize < 0 {
		return nil, simulate.BadRequest("trace_page must not be negative")
	}
	return struct{}{}, nil
}

// showTenant answers with the state of the consent, and the senders of each enabled rule. An
// enabled rule without senders blocks all mailboxes.
func showTenant(c *call) (any, error) {
	rules := []map[string]any{}
	for _, r := range c.tenant.Rules {
		v, blocks := r.current(), []string{}
		if v.Enabled {
			blocks = append(blocks, v.Senders...)
		}
		rules = append(rules, map[string]any{"name": r.Name, "enabled": v.Enabled, "blocks": blocks})
	}
	consent := "granted"
	if c.tenant.ConsentAt.IsZero() {
		consent = "none"
	}
	return map[string]any{"consent": consent, "rules": rules}, nil
}

// setForeignRule creates or changes a rule as an administrator does. A new rule has the form
// "custom", which tells the plugin that the rule does more than block senders.
func setForeignRule(c *call) (any, error) {
	var body struct {
		Name    string   `json:"name"`
		Enabled bool     `json:"enabled"`
		Senders []string `json:"senders"`
	}
	if err := simulate.ReadBody(c.http, &body); err != nil {
		return nil, err
	}
	form := "custom"
	if r := c.tenant.rule(body.Name); r != nil {
		form = r.current().Form
	}
	c.setRule(body.Name, ruleVersion{Form: form, Enabled: body.Enabled, Senders: body.Senders})
	return struct{}{}, nil
}

func revokeAccess(c *call) (any, error) {
	var body struct {
		What string `json:"what"`
	}
	if err := simulate.ReadBody(c.http, &body); err != nil {
		return nil, err
	}
	if err := simulate.OneOf("what", body.What, "consent", "exchange_role"); err != nil {
		return nil, err
	}
	if body.What == "consent" {
		c.tenant.ConsentAt = time.Time{}
	} else {
		c.tenant.RoleAt = time.Time{}
	}
	return struct{}{}, nil
}

// sendMessages makes a mailbox send messages now.
func sendMessages(c *call) (any, error) {
	var body struct {
		Mailbox string `json:"mailbox"`
		Count   int    `json:"count"`
	}
	if err := simulate.ReadBody(c.http, &body); err != nil {
		return nil, err
	}
	for _, t := range c.platformState.Tenants {
		sender := t.findMailbox(body.Mailbox)
		if sender == nil {
			continue
		}
		isRefused := false
		for _, r := range t.Rules {
			isRefused = isRefused || r.blocks(sender.Address, c.now, milliseconds(t.Behaviour.RuleMS))
		}
		for range body.Count {
			c.platformState.Serial++
			t.Messages = append(t.Messages, message{ID: fmt.Sprintf("m-%d", c.platformState.Serial), Sender: strings.ToLower(sender.Address), At: c.now, Refused: isRefused})
		}
		return struct{}{}, nil
	}
	return nil, errUnknown
}
