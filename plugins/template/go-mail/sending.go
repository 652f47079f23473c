// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/tenantry/tenantry/plugins/sdk"
)

// ruleDoc is the JSON document of a mail flow rule. The platform's rules can do more than block
// senders. Form is "senders" for a rule that only blocks senders.
type ruleDoc struct {
	ID      string   `json:"id,omitempty"`
	Name    string   `json:"name"`
	Form    string   `json:"form"`
	Enabled bool     `json:"enabled"`
	Senders []string `json:"senders"`
}

func (d ruleDoc) rule(created, written bool) sdk.SendRule {
	return sdk.SendRule{
		ID: d.ID, Name: d.Name, Enabled: d.Enabled, Lists: d.Senders, Altered: d.Enabled && d.Form != "senders",
		Created: created, Written: written,
	}
}

// EnsureRule implements sdk.MailTenant. A rule without senders would block everybody, so EnsureRule
// disables it.
func (t mailTenant) EnsureRule(ctx context.Context, scope string, mailboxes []string) (sdk.SendRule, error) {
	doc, found, err := t.findRule(ctx, scope)
	switch {
	case err != nil:
		return sdk.SendRule{}, err
	case found && doc.Enabled && len(doc.Senders) == 0:
		doc.Enabled = false
		return t.writeRule(ctx, doc, false)
	case found:
		return doc.rule(false, false), nil
	case len(mailboxes) == 0:
		return sdk.SendRule{}, nil
	}
	return t.writeRule(ctx, ruleDoc{Name: sdk.SendRuleName(scope), Form: "senders", Senders: normalizeAddresses(mailboxes)}, true)
}

// Block implements sdk.MailTenant. It writes nothing if the rule already blocks exactly these
// mailboxes, or if it does not exist and there are no mailboxes.
func (t mailTenant) Block(ctx context.Context, scope string, mailboxes []string) (sdk.SendRule, error) {
	doc, found, err := t.findRule(ctx, scope)
	want := normalizeAddresses(mailboxes)
	switch {
	case err != nil:
		return sdk.SendRule{}, err
	case !found && len(want) == 0:
		return sdk.SendRule{}, nil
	case found && doc.rule(false, false).Matches(want):
		return doc.rule(false, false), nil
	}
	doc.Name = sdk.SendRuleName(scope)
	if doc.Enabled = len(want) > 0; doc.Enabled {
		doc.Form, doc.Senders = "senders", want
	}
	return t.writeRule(ctx, doc, !found)
}

// Rules implements sdk.MailTenant.
func (t mailTenant) Rules(ctx context.Context) ([]sdk.SendRule, error) {
	docs, err := t.rules(ctx)
	var rules []sdk.SendRule
	for _, d := range docs {
		rules = append(rules, d.rule(false, false))
	}
	return rules, err
}

// RemoveRule implements sdk.MailTenant.
func (t mailTenant) RemoveRule(ctx context.Context, scope string) error {
	return t.removeRule(ctx, sdk.SendRuleName(scope))
}

// RemoveRules implements sdk.MailTenant. After an error, a repeated call removes the remaining
// rules.
func (t mailTenant) RemoveRules(ctx context.Context) error {
	docs, err := t.rules(ctx)
	if err != nil {
		return err
	}
	for _, d := range docs {
		if err := t.removeRule(ctx, d.Name); err != nil {
			return err
		}
	}
	return nil
}

func (t mailTenant) removeRule(ctx context.Context, name string) error {
	return t.remove(ctx, "/rules/"+url.PathEscape(name), "no_rule")
}

// rules returns the managed rules.
func (t mailTenant) rules(ctx context.Context) ([]ruleDoc, error) {
	var list struct {
		Rules []ruleDoc `json:"rules"`
	}
	if err := t.call(ctx, http.MethodGet, "/rules", nil, &list); err != nil {
		return nil, err
	}
	if list.Rules == nil {
		return nil, sdk.BrokenAnswer("no_rules")
	}
	return slices.DeleteFunc(list.Rules, func(d ruleDoc) bool { return !sdk.IsSendRuleName(d.Name) }), nil
}

func (t mailTenant) findRule(ctx context.Context, scope string) (doc ruleDoc, found bool, err error) {
	docs, err := t.rules(ctx)
	for _, d := range docs {
		if strings.EqualFold(d.Name, sdk.SendRuleName(scope)) {
			return d, true, err
		}
	}
	return ruleDoc{}, false, err
}

// writeRule creates or replaces a rule. The platform answers with the rule as it is now.
func (t mailTenant) writeRule(ctx context.Context, doc ruleDoc, created bool) (sdk.SendRule, error) {
	var stored ruleDoc
	if err := t.call(ctx, http.MethodPut, "/rules/"+url.PathEscape(doc.Name), doc, &stored); err != nil {
		return sdk.SendRule{}, err
	}
	if stored.ID == "" {
		return sdk.SendRule{}, sdk.BrokenAnswer("no_rule")
	}
	return stored.rule(created, true), nil
}

func normalizeAddresses(addresses []string) []string {
	var result []string
	for _, a := range addresses {
		result = append(result, strings.ToLower(a))
	}
	slices.Sort(result)
	return slices.Compact(result)
}

// Sent implements sdk.MailTenant. The cursor is the platform's own cursor.
func (t mailTenant) Sent(ctx context.Context, q sdk.TraceQuery) (sdk.Trace, error) {
	if len(q.Senders) == 0 {
		return sdk.Trace{}, nil
	}
	query := url.Values{"from": {q.From.Format(time.RFC3339Nano)}, "to": {q.To.Format(time.RFC3339Nano)}, "sender": q.Senders, "cursor": {q.Cursor}}
	var page struct {
		Messages []struct {
			ID      string    `json:"id"`
			Sender  string    `json:"sender"`
			At      time.Time `json:"at"`
			Refused bool      `json:"refused"`
		} `json:"messages"`
		Next string `json:"next"`
	}
	if err := t.call(ctx, http.MethodGet, "/messages?"+query.Encode(), nil, &page); err != nil {
		return sdk.Trace{}, err
	}
	if page.Messages == nil {
		return sdk.Trace{}, sdk.BrokenAnswer("no_messages")
	}
	trace := sdk.Trace{Next: page.Next}
	for _, m := range page.Messages {
		trace.Sent = append(trace.Sent, sdk.SentMessage{Message: m.ID, Sender: m.Sender, At: m.At, Refused: m.Refused})
	}
	return trace, nil
}
