// SPDX-License-Identifier: Apache-2.0

package simulator

import (
	"cmp"
	"slices"
	"strconv"
	"strings"
	"time"
)

const tracePage = 100

// ruleDoc is a rule in the format of the API.
type ruleDoc struct {
	ID      string   `json:"id"`
	Name    string   `json:"name"`
	Form    string   `json:"form"`
	Enabled bool     `json:"enabled"`
	Senders []string `json:"senders"`
}

func (r *rule) current() ruleVersion { return r.Versions[len(r.Versions)-1] }

// blocks reports whether a rule blocks a sender. A version of the rule applies after a delay.
func (r *rule) blocks(sender string, now time.Time, delay time.Duration) bool {
	for _, v := range slices.Backward(r.Versions) {
		if !now.Before(v.Since.Add(delay)) {
			return v.Enabled && (len(v.Senders) == 0 || slices.Contains(v.Senders, strings.ToLower(sender)))
		}
	}
	return false
}

func (r *rule) doc() ruleDoc {
	v := r.current()
	return ruleDoc{ID: r.ID, Name: r.Name, Form: v.Form, Enabled: v.Enabled, Senders: append([]string{}, v.Senders...)}
}

// rule returns the rule with a name, or nil.
func (t *tenant) rule(name string) *rule {
	for _, r := range t.Rules {
		if strings.EqualFold(r.Name, name) {
			return r
		}
	}
	return nil
}

// setRule creates or changes a rule.
func (c *call) setRule(name string, v ruleVersion) *rule {
	r := c.tenant.rule(name)
	if r == nil {
		r = &rule{ID: c.platformState.newID(), Name: name}
		c.tenant.Rules = append(c.tenant.Rules, r)
	}
	v.Since = c.now
	r.Versions = append(r.Versions, v)
	return r
}

func listRules(c *call) (any, string) {
	list := []ruleDoc{}
	for _, r := range c.tenant.Rules {
		list = append(list, r.doc())
	}
	return map[string]any{"rules": list}, ""
}

func putRule(c *call) (any, string) {
	var body ruleDoc
	c.read(&body)
	return c.setRule(c.http.PathValue("rule"), ruleVersion{Form: body.Form, Enabled: body.Enabled, Senders: body.Senders}).doc(), ""
}

func removeRule(c *call) (any, string) {
	r := c.tenant.rule(c.http.PathValue("rule"))
	if r == nil {
		return nil, "no_rule"
	}
	c.tenant.Rules = slices.DeleteFunc(c.tenant.Rules, func(other *rule) bool { return other == r })
	return struct{}{}, ""
}

// listMessages answers with one page of the message trace. The cursor is the number of rows before
// the page.
func listMessages(c *call) (any, string) {
	query := c.http.URL.Query()
	sentFrom, errFrom := time.Parse(time.RFC3339, query.Get("from"))
	sentBefore, errTo := time.Parse(time.RFC3339, query.Get("to"))
	skip, errCursor := strconv.Atoi(cmp.Or(query.Get("cursor"), "0"))
	if errFrom != nil || errTo != nil || errCursor != nil || skip < 0 {
		return nil, "query_invalid"
	}
	found := []message{}
	for _, m := range c.tenant.Messages {
		isWanted := slices.ContainsFunc(query["sender"], func(sender string) bool { return strings.EqualFold(sender, m.Sender) })
		isShown := !c.now.Before(m.At.Add(milliseconds(c.tenant.Behaviour.TraceMS)))
		if isWanted && isShown && !m.At.Before(sentFrom) && m.At.Before(sentBefore) {
			found = append(found, m)
		}
	}
	rest := found[min(skip, len(found)):]
	rows := min(len(rest), cmp.Or(c.tenant.Behaviour.TracePageSize, tracePage))
	next := ""
	if rows < len(rest) {
		next = strconv.Itoa(skip + rows)
	}
	return map[string]any{"messages": rest[:rows], "next": next}, ""
}
