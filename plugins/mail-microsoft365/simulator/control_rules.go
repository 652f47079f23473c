// SPDX-License-Identifier: Apache-2.0

package simulator

import (
	"errors"
	"net/http"
	"slices"
	"strings"

	"github.com/tenantry/tenantry/plugins/sdk/simulate"
)

// controlRule is the tenant's own administrator, who makes a rule or changes the
// one of this name.
func (s *simulator) controlRule(w http.ResponseWriter, r *http.Request) {
	var in struct {
		Name    string   `json:"name"`
		Enabled bool     `json:"enabled"`
		Senders []string `json:"senders"`
	}
	if err := simulate.Read(r, &in); err != nil {
		simulate.Refuse(w, http.StatusBadRequest, err.Error())
		return
	}
	ok := s.controlTenant(w, r, func(t *tenant) error {
		if in.Name == "" || slices.ContainsFunc(in.Senders, func(a string) bool { return t.mailbox(a) == nil }) {
			return errors.New("a rule has a name, and its senders are mailboxes of the tenant")
		}
		held := t.rule(in.Name)
		if held == nil {
			t.Exchange.Rules = append(t.Exchange.Rules, transportRule{
				GUID: newGUID(), Name: in.Name, Mode: "Enforce", Location: "Header", Reason: "Not allowed.", Code: "5.7.1",
			})
			held = t.rule(in.Name)
		}
		now := s.kit.Now()
		held.Enabled, held.From, held.Changed = in.Enabled, in.Senders, now
		t.changed(*held, false, now)
		return nil
	})
	if ok {
		simulate.Reply(w, http.StatusOK, struct{}{})
	}
}

// ruleView is a rule as the control interface shows it: whom it stops, which is
// everybody where it has no condition, and nobody while it is switched off.
type ruleView struct {
	Name    string   `json:"name"`
	Enabled bool     `json:"enabled"`
	Blocks  []string `json:"blocks"`
}

func (t *tenant) ruleViews() []ruleView {
	views := []ruleView{}
	for _, r := range t.Exchange.Rules {
		v := ruleView{r.Name, r.Enabled && r.Mode == "Enforce", []string{}}
		for _, m := range t.Exchange.Mailboxes {
			if r.stops(m.Primary) {
				v.Blocks = append(v.Blocks, strings.ToLower(m.Primary))
			}
		}
		slices.Sort(v.Blocks)
		views = append(views, v)
	}
	return views
}
